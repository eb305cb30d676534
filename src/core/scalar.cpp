#include "core/scalar.h"

#include <atomic>
#include <cmath>
#include <limits>

namespace rl {

namespace {
std::atomic<DType> default_float{DType::Float32};

template <class T>
constexpr double largest() {
  if constexpr (std::is_same_v<T, half>) return 65504;
  else if constexpr (std::is_same_v<T, bfloat16>) return 0x1.fep127;
  else return static_cast<double>(std::numeric_limits<T>::max());
}

template <class T>
bool within(double v) {
  if constexpr (std::is_integral_v<T>)
    return v >= static_cast<double>(std::numeric_limits<T>::min()) && v <= largest<T>();
  else return !(std::isfinite(v) && std::fabs(v) > largest<T>());
}

template <class T>
bool within(int64_t v) {
  if constexpr (std::is_same_v<T, int64_t>) return true;
  else if constexpr (std::is_unsigned_v<T>)
    return -int64_t(std::numeric_limits<T>::max()) <= v && v <= std::numeric_limits<T>::max();
  else return within<T>(static_cast<double>(v));
}
}  // namespace

bool fits(const Scalar& value, DType t) {
  if (t == DType::Bool) return true;
  const complex128 v = value.to<complex128>();
  if (v.imag() != 0 && !is_complex(t)) return false;
  bool result = true;
  visit<float, double, int64_t, int32_t, half, bfloat16, uint8_t, int8_t, int16_t>(
      "fill", to_real(t), [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (value.is_integral()) result = within<T>(value.to<int64_t>());
        else result = within<T>(v.real()) && within<T>(v.imag());
      });
  return result;
}

void check_fits(const char* op, const Scalar& value, DType t) {
  check(fits(value, t), op, ": value cannot be converted to type ", name(t),
        " without overflow: ", value);
}

DType default_dtype() { return default_float.load(std::memory_order_relaxed); }
void set_default_dtype(DType t) { default_float = t; }

Scalar load_scalar(const void* p, DType t) {
  Scalar value;
  visit_all("item", t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T x = *static_cast<const T*>(p);
    if constexpr (std::is_same_v<T, Bool>) value = Scalar(static_cast<bool>(x));
    else if constexpr (std::is_integral_v<T>) value = Scalar(static_cast<int64_t>(x));
    else if constexpr (is_complex_v<T>) value = Scalar(convert<complex128>(x));
    else value = Scalar(static_cast<double>(x));
  });
  return value;
}

std::ostream& operator<<(std::ostream& out, const Scalar& s) {
  if (s.is_bool()) return out << (s.to<bool>() ? "True" : "False");
  if (s.is_integral()) return out << s.to<int64_t>();
  if (s.is_floating()) return out << s.to<double>();
  return out << s.to<complex128>();
}

}  // namespace rl
