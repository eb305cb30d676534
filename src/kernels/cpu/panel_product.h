// Float32 matrix products with a panel of the right side: 32 columns.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

constexpr int64_t panel_width = 32;

// out (rows, panel) = a (rows, terms) @ b (terms, panel), plus `bias` (panel) or what `out` held.
struct PanelProduct {
  const float* a;
  int64_t a_row, a_term;  // strides, one of which is 1
  int64_t rows, terms;
  const float* b;
  int64_t b_row;
  float* out;
  int64_t out_row;
  const float* bias = nullptr;
  bool add = false;
  // What to bring near meanwhile, for a later product: so many elements for each 8 rows and term.
  const float* next = nullptr;
  int64_t next_step = 0;
};

// Runs on the calling thread.
RL_ISA_KERNEL(panel_product, (const PanelProduct& product))

}  // namespace rl::kernels
