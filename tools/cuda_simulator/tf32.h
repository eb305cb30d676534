// TF32: float32 whose significand has eleven bits.
#pragma once
#include <cstdlib>

#include "core/number.h"

namespace rl::cuda {

// As NVIDIA's libraries read it, NVIDIA_TF32_OVERRIDE=0 keeps all bits.
inline float to_tf32(float v) {
  static const char* wish = std::getenv("NVIDIA_TF32_OVERRIDE");
  if (wish && *wish == '0') return v;
  return bits_to_float((float_to_bits(v) + 0x1000) & 0xffffe000u);
}

}  // namespace rl::cuda
