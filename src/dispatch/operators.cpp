#include "dispatch/operators.h"

#include "ops_basic.h"

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

Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return ops::sub(a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return ops::mul(a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return ops::div(a, b); }
Tensor operator+(const Tensor& a, const Scalar& b) { return ops::add(a, wrap_number(b)); }
Tensor operator-(const Tensor& a, const Scalar& b) { return ops::sub(a, wrap_number(b)); }
Tensor operator*(const Tensor& a, const Scalar& b) { return ops::mul(a, wrap_number(b)); }
Tensor operator/(const Tensor& a, const Scalar& b) { return ops::div(a, wrap_number(b)); }
Tensor operator+(const Scalar& a, const Tensor& b) { return ops::add(wrap_number(a), b); }
Tensor operator-(const Scalar& a, const Tensor& b) { return ops::sub(wrap_number(a), b); }
Tensor operator*(const Scalar& a, const Tensor& b) { return ops::mul(wrap_number(a), b); }
Tensor operator/(const Scalar& a, const Tensor& b) { return ops::div(wrap_number(a), b); }
Tensor operator-(const Tensor& a) { return ops::neg(a); }

}  // namespace rl
