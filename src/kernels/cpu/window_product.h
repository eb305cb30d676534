// Sums over windows of images: matrix products whose left side is read where it lies.
#pragma once
#include <cstdint>

#include "kernels/cpu/panel_product.h"

namespace rl::kernels {

// out (rows, columns) = a (rows, terms) @ b (terms, panel), plus `bias` (columns) or what `out`
// held. A row's terms come in spans, each at the same place from where the row begins.
struct WindowProduct {
  struct Span {
    int64_t offset;      // of the first term
    int64_t row, terms;  // of b that it begins with, and how many
  };
  const float* a;
  const int64_t* rows;  // where each begins
  int64_t count, step;  // rows; from term to term of a span
  const Span* spans;
  int64_t span_count;
  const float* b;  // in rows of panel_width
  float* out;
  const int64_t* out_rows;
  int64_t columns;
  const float* bias = nullptr;
  bool add = false;
};

// Runs on the calling thread.
RL_ISA_KERNEL(window_product, (const WindowProduct& product))

}  // namespace rl::kernels
