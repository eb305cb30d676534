#include "core/scalar.h"

#include <atomic>

namespace rl {

namespace {
std::atomic<DType> default_float{DType::Float32};
}

DType default_dtype() { return default_float.load(std::memory_order_relaxed); }
void set_default_dtype(DType t) { default_float = t; }

std::ostream& operator<<(std::ostream& out, const Scalar& s) {
  if (s.is_bool()) return out << (s.to<bool>() ? "True" : "False");
  if (s.is_integral()) return out << s.to<int64_t>();
  if (s.is_floating()) return out << s.to<double>();
  return out << s.to<complex128>();
}

}  // namespace rl
