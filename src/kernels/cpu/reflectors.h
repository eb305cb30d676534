// Householder reflectors, kept as LAPACK keeps them: of a column-major matrix M, which has rows(),
// columns() and (i, j), the vectors lie below the diagonal.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>

#include "core/number.h"

namespace rl::kernels {

template <class T> T conjugated(T x) {
  if constexpr (is_complex_v<T>) return std::conj(x);
  else return x;
}
template <class T> auto real_part(T x) {
  if constexpr (is_complex_v<T>) return x.real();
  else return x;
}

// As LAPACK's larfg: tau of the reflector H = 1 - tau v v^H, v[0] = 1, for which H^H x is beta
// times the first unit vector. x becomes beta and the rest of v.
template <class T> T make_reflector(T* x, int n) {
  using R = real_t<T>;
  R largest(0), sum(0);
  for (int i = 0; i < n; ++i) largest = std::max(largest, R(std::abs(x[i])));
  bool nothing_below = true;
  for (int i = 1; i < n; ++i) nothing_below = nothing_below && x[i] == T(0);
  if (nothing_below && x[0] == T(real_part(x[0]))) return T(0);
  for (int i = 0; i < n; ++i) sum += R(std::norm(x[i] / largest));
  T alpha = x[0];
  R beta = -std::copysign(largest * std::sqrt(sum), real_part(alpha));
  for (int i = 1; i < n; ++i) x[i] /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}

// m[k.., j] -= tau v (v^H m[k.., j]) with v below the diagonal of column k of `vectors`.
template <class M, class T> void reflect(const M& vectors, int k, T tau, const M& m, int j) {
  T dot = m(k, j);
  for (int i = k + 1; i < m.rows(); ++i) dot += conjugated(vectors(i, k)) * m(i, j);
  dot *= tau;
  m(k, j) -= dot;
  for (int i = k + 1; i < m.rows(); ++i) m(i, j) -= vectors(i, k) * dot;
}

template <class M, class T> void factor_by_reflectors(const M& m, int columns, T* tau) {
  for (int k = 0; k < std::min(m.rows(), columns); ++k) {
    tau[k] = make_reflector(&m(k, k), m.rows() - k);
    for (int j = k + 1; j < columns; ++j) reflect(m, k, conjugated(tau[k]), m, j);
  }
}

// The first columns of the product of the reflectors that m holds, written over them.
template <class M, class T>
void multiply_reflectors(const M& m, int reflectors, const T* tau) {
  for (int j = reflectors; j < m.columns(); ++j)
    for (int i = 0; i < m.rows(); ++i) m(i, j) = T(i == j);
  for (int k = reflectors - 1; k >= 0; --k) {
    for (int j = k + 1; j < m.columns(); ++j) reflect(m, k, tau[k], m, j);
    for (int i = 0; i < k; ++i) m(i, k) = T(0);
    m(k, k) = T(1) - tau[k];
    for (int i = k + 1; i < m.rows(); ++i) m(i, k) *= -tau[k];
  }
}

}  // namespace rl::kernels
