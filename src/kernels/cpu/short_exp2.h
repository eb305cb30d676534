// A quick power of two, for what is rounded to bfloat16 or is as exact as its sums are; for
// *.isa.cpp files.
#pragma once
#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr float log2_of_e = 1.44269504f;

// 2^x for x <= 127, and 0 where that is no normal number. Its error of 3e-6 is a thousandth of what
// rounding to bfloat16 makes, and a polynomial of six terms takes longer than the products do.
RL_INLINE vec<float> short_exp2(vec<float> x) {
  constexpr float to_integer = 12583039;  // 3 * 2^22, and the bias of exponents
  vec<float> shifted = x + to_integer;
  vec<float> power = (vec<float>)((vec<uint32_t>)shifted << 23);
  vec<float> r = x - (shifted - to_integer);
  vec<float> y = mul_add(r, 9.570101911e-03f, vec<float>{} + 5.591786032e-02f);
  y = mul_add(y, r, 2.402474483e-01f);
  y = mul_add(y, r, 6.931218147e-01f);
  y = mul_add(y, r, 9.999992614e-01f);
  return x < -126.0f ? vec<float>{} : y * power;
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
