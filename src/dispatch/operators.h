// Arithmetic operators on tensors and numbers, for formulas and for users of the C++ library.
#pragma once
#include "ops.h"

namespace rl {

inline Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return ops::sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return ops::mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return ops::div(a, b); }
inline Tensor operator+(const Tensor& a, const Scalar& b) { return ops::add(a, wrap_number(b)); }
inline Tensor operator-(const Tensor& a, const Scalar& b) { return ops::sub(a, wrap_number(b)); }
inline Tensor operator*(const Tensor& a, const Scalar& b) { return ops::mul(a, wrap_number(b)); }
inline Tensor operator/(const Tensor& a, const Scalar& b) { return ops::div(a, wrap_number(b)); }
inline Tensor operator+(const Scalar& a, const Tensor& b) { return ops::add(wrap_number(a), b); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return ops::sub(wrap_number(a), b); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return ops::mul(wrap_number(a), b); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return ops::div(wrap_number(a), b); }
inline Tensor operator-(const Tensor& a) { return ops::neg(a); }

Scalar operator+(const Scalar& a, const Scalar& b);
Scalar operator-(const Scalar& a, const Scalar& b);
Scalar operator*(const Scalar& a, const Scalar& b);
Scalar operator/(const Scalar& a, const Scalar& b);
inline Scalar conj(const Scalar& s) {
  return s.is_complex() ? Scalar(std::conj(s.to<complex128>())) : s;
}

}  // namespace rl
