// What gen/cuda.py embeds: the text of the headers that kernels include, and the formulas of the op
// table in device code.
#pragma once
#include "kernels/elementwise.h"

namespace rl::cuda {

extern const int device_source_count;
extern const char* const device_sources[];
extern const char* const device_source_names[];

// The body of a function of inputs x0, x1 ... (compute type T) and numbers n[], by loop.
struct DeviceFormula {
  const kernels::Loop* loop;
  const char* body;
};
extern const int device_formula_count;
extern const DeviceFormula device_formulas[];

}  // namespace rl::cuda
