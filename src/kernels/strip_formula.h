// Elementwise formulas over float32 operands that lie in one order, nested in each other and worked
// out a strip at a time: what one hands to the next stays in the first-level cache.
#pragma once
#include <vector>

#include "kernels/elementwise.h"

namespace rl::kernels {

struct StripFormula {
  struct Operand {
    const float* data;   // or null: what `formula` gives
    int64_t period = 0;  // data of that many elements that repeat, see repeated()
    const StripFormula* formula = nullptr;
  };
  StripFunction function;
  std::vector<Scalar> numbers;
  std::vector<Operand> operands;

  int size() const;  // of this formula and those nested in it
  // The first operand in memory with an element for each of the result, which a reader may bring
  // near before it asks for the result.
  const float* stream() const;
  // Elements [begin, begin + n) of the result, which may lie in the memory of an operand.
  void evaluate(int64_t begin, int64_t n, float* to) const;
  // The first n elements, in parallel.
  void fill(int64_t n, float* to, bool in_place) const;
};

inline constexpr int max_strip_formulas = 6;

// One number for each channel as an operand can have it.
std::vector<float> repeated(const std::vector<double>& values);

// operands: the result, x, scale and shift; result = x * scale + shift.
StripFunction affine_strip();

}  // namespace rl::kernels
