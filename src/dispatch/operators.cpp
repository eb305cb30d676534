#include "dispatch/operators.h"

namespace rl {
namespace {

template <class F> Scalar combine(const Scalar& a, const Scalar& b, F&& f) {
  if (a.is_complex() || b.is_complex()) return Scalar(f(a.to<complex128>(), b.to<complex128>()));
  if (a.is_floating() || b.is_floating()) return Scalar(f(a.to<double>(), b.to<double>()));
  return Scalar(f(a.to<int64_t>(), b.to<int64_t>()));
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
