#include "core/dtype.h"

namespace rl {

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a > b) {
    DType t = a;
    a = b;
    b = t;
  }
  if (is_complex(b)) return a == DType::Float64 || b == DType::Complex128 ? DType::Complex128 : b;
  if (is_floating(b))  // float16 and bfloat16 meet in float32
    return a == DType::Float16 && b == DType::BFloat16 ? DType::Float32 : b;
  if (a == DType::UInt8 && b == DType::Int8) return DType::Int16;
  return b;
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && is_integral_or_bool(to)) return false;
  return !(from != DType::Bool && to == DType::Bool);
}

}  // namespace rl
