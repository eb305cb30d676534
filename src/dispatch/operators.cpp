#include "dispatch/operators.h"

namespace rl {
namespace {

template <class F> Scalar combine(const Scalar& a, const Scalar& b, F&& f) {
  if (a.is_complex() || b.is_complex()) return Scalar(f(a.to<complex128>(), b.to<complex128>()));
  if (a.is_floating() || b.is_floating()) return Scalar(f(a.to<double>(), b.to<double>()));
  // Unsigned numbers wrap around, as the elements of integer tensors do.
  uint64_t whole =
      f(static_cast<uint64_t>(a.to<int64_t>()), static_cast<uint64_t>(b.to<int64_t>()));
  return Scalar(static_cast<int64_t>(whole));
}

}  // namespace

Scalar operator+(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return x + y; });
}
Scalar operator-(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return x - y; });
}
Scalar operator*(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return x * y; });
}
Scalar operator/(const Scalar& a, const Scalar& b) {
  if (a.is_complex() || b.is_complex()) return Scalar(a.to<complex128>() / b.to<complex128>());
  return Scalar(a.to<double>() / b.to<double>());
}

}  // namespace rl
