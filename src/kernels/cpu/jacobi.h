// Eigenvalues and singular values by Jacobi's rotations: slower than LAPACK's, and as accurate.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cpu/reflectors.h"

namespace rl::kernels {

// A column-major matrix that somebody else owns; columns lie `step` apart, by default without gaps.
template <class T> struct ColumnMajor {
  T* data;
  int rows_, columns_, step = 0;
  int rows() const { return rows_; }
  int columns() const { return columns_; }
  T& operator()(int i, int j) const { return data[i + std::ptrdiff_t(j) * (step ? step : rows_)]; }
};

// The rotation of columns p and q that makes their entry `off` of a Hermitian matrix zero:
// p' = c p - conj(s) q, q' = s p + c q. `p` and `q` are the entries on its diagonal.
template <class T> struct Rotation {
  using R = real_t<T>;
  R c;
  T s;
  Rotation(R p, R q, T off) {
    const R size = std::abs(off), ratio = (q - p) / (2 * size);
    const R t = std::copysign(R(1), ratio) / (std::abs(ratio) + std::sqrt(ratio * ratio + 1));
    c = 1 / std::sqrt(t * t + 1);
    s = off * (t * c / size);
  }
  void turn(T& p, T& q) const {
    const T before = p;
    p = c * before - conjugated(s) * q;
    q = s * before + c * q;
  }
};

inline constexpr int most_sweeps = 60;

// The order of the values: `less` says which comes first.
template <class R, class F> std::vector<int> order_of(const std::vector<R>& values, F less) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) {
    return less(values[static_cast<size_t>(i)], values[static_cast<size_t>(j)]);
  });
  return order;
}

// One sweep over all pairs of a Hermitian matrix; whether any had to be turned.
template <class T>
bool sweep_hermitian(const ColumnMajor<T>& m, const ColumnMajor<T>& vectors, real_t<T> tolerance) {
  bool turned = false;
  for (int q = 1; q < m.rows(); ++q)
    for (int p = 0; p < q; ++p) {
      const T off = m(p, q);
      if (!(std::abs(off) > tolerance)) continue;
      turned = true;
      const Rotation<T> rotation(real_part(m(p, p)), real_part(m(q, q)), off);
      for (int i = 0; i < m.rows(); ++i) rotation.turn(m(i, p), m(i, q));
      Rotation<T> of_rows = rotation;
      of_rows.s = conjugated(rotation.s);
      for (int j = 0; j < m.rows(); ++j) of_rows.turn(m(p, j), m(q, j));
      m(p, q) = m(q, p) = T(0);
      for (int i = 0; i < vectors.rows(); ++i) rotation.turn(vectors(i, p), vectors(i, q));
    }
  return turned;
}

// Ascending eigenvalues of the matrix of which `a` holds one triangle, and its vectors in `a`. As
// LAPACK's, the code is not 0 where the rotations do not come to an end.
template <class T> int jacobi_eigh(const ColumnMajor<T>& a, bool upper, bool wants_vectors,
                                   real_t<T>* values) {
  using R = real_t<T>;
  const int n = a.rows();
  const auto size = static_cast<size_t>(n);
  std::vector<T> full(size * size), basis(wants_vectors ? size * size : 0);
  ColumnMajor<T> m{full.data(), n, n}, v{basis.data(), wants_vectors ? n : 0, n, n};
  R sum(0);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) {
      const bool given = upper ? i <= j : i >= j;
      m(i, j) = i == j ? T(real_part(a(i, j))) : given ? a(i, j) : conjugated(a(j, i));
      sum += std::norm(m(i, j));
    }
  for (int i = 0; i < v.rows(); ++i) v(i, i) = T(1);
  const R tolerance = std::sqrt(sum) * std::numeric_limits<R>::epsilon() / R(4 * n + 4);
  if (!(sum < std::numeric_limits<R>::infinity())) return std::max(n, 1);
  int sweeps = 0;
  while (sweep_hermitian(m, v, tolerance))
    if (++sweeps == most_sweeps) return n;
  std::vector<R> found(size);
  for (int i = 0; i < n; ++i) found[static_cast<size_t>(i)] = real_part(m(i, i));
  const std::vector<int> order = order_of(found, [](R x, R y) { return x < y; });
  for (int j = 0; j < n; ++j) {
    const int from = order[static_cast<size_t>(j)];
    values[j] = found[static_cast<size_t>(from)];
    for (int i = 0; i < v.rows(); ++i) a(i, j) = v(i, from);
  }
  return 0;
}

// One sweep over all pairs of columns, to make them orthogonal.
template <class T> bool sweep_columns(const ColumnMajor<T>& m, const ColumnMajor<T>& vectors) {
  using R = real_t<T>;
  bool turned = false;
  for (int q = 1; q < m.columns(); ++q)
    for (int p = 0; p < q; ++p) {
      R of_p(0), of_q(0);
      T dot(0);
      for (int i = 0; i < m.rows(); ++i) {
        of_p += std::norm(m(i, p));
        of_q += std::norm(m(i, q));
        dot += conjugated(m(i, p)) * m(i, q);
      }
      const R size = std::abs(dot), limit = std::sqrt(of_p) * std::sqrt(of_q);
      if (!(size > 2 * std::numeric_limits<R>::epsilon() * limit)) continue;
      if (!(size > std::numeric_limits<R>::min())) continue;
      turned = true;
      const Rotation<T> rotation(of_p, of_q, dot);
      for (int i = 0; i < m.rows(); ++i) rotation.turn(m(i, p), m(i, q));
      for (int i = 0; i < vectors.rows(); ++i) rotation.turn(vectors(i, p), vectors(i, q));
    }
  return turned;
}

// Columns from `have` on become orthonormal to those before: of the unit vectors, each time that
// which those before contain least of.
template <class T> void complete_basis(const ColumnMajor<T>& u, int have) {
  using R = real_t<T>;
  for (int k = have; k < u.columns(); ++k) {
    int best = 0;
    R least = std::numeric_limits<R>::infinity();
    for (int i = 0; i < u.rows(); ++i) {
      R contained(0);
      for (int j = 0; j < k; ++j) contained += std::norm(u(i, j));
      if (contained < least) least = contained, best = i;
    }
    for (int i = 0; i < u.rows(); ++i) u(i, k) = T(i == best);
    for (int again = 0; again < 2; ++again)  // the second time for what rounding left
      for (int j = 0; j < k; ++j) {
        T dot(0);
        for (int i = 0; i < u.rows(); ++i) dot += conjugated(u(i, j)) * u(i, k);
        for (int i = 0; i < u.rows(); ++i) u(i, k) -= dot * u(i, j);
      }
    R sum(0);
    for (int i = 0; i < u.rows(); ++i) sum += std::norm(u(i, k));
    for (int i = 0; i < u.rows(); ++i) u(i, k) /= std::sqrt(sum);
  }
}

// a = u diag(s) vh, s descending. u and vh have as many columns and rows as are wanted, or none;
// `a` is kept.
template <class T> int jacobi_svd(const ColumnMajor<T>& a, real_t<T>* s, const ColumnMajor<T>& u,
                                  const ColumnMajor<T>& vh) {
  using R = real_t<T>;
  const bool tall = a.rows() >= a.columns(), wants_vectors = u.columns() > 0;
  const int n = std::min(a.rows(), a.columns()), rows = std::max(a.rows(), a.columns());
  std::vector<T> work(static_cast<size_t>(rows) * static_cast<size_t>(n));
  std::vector<T> basis(wants_vectors ? static_cast<size_t>(n) * static_cast<size_t>(n) : 0);
  ColumnMajor<T> m{work.data(), rows, n}, v{basis.data(), wants_vectors ? n : 0, n, n};
  R largest(0);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < rows; ++i) {
      m(i, j) = tall ? a(i, j) : conjugated(a(j, i));
      largest = std::max(largest, R(std::abs(m(i, j))));
    }
  if (largest > R(0))  // so that squares neither overflow nor vanish
    for (T& x : work) x /= largest;
  for (int i = 0; i < v.rows(); ++i) v(i, i) = T(1);
  int sweeps = 0;
  while (sweep_columns(m, v))
    if (++sweeps == most_sweeps) return n;
  std::vector<R> sizes(static_cast<size_t>(n));
  for (int j = 0; j < n; ++j) {
    R sum(0);
    for (int i = 0; i < rows; ++i) sum += std::norm(m(i, j));
    sizes[static_cast<size_t>(j)] = std::sqrt(sum);
  }
  const std::vector<int> order = order_of(sizes, [](R x, R y) { return x > y; });
  std::vector<T> scratch(wants_vectors ? static_cast<size_t>(rows) * static_cast<size_t>(rows) : 0);
  // Of the adjoint, left and right change places.
  const int wanted = !wants_vectors ? 0 : tall ? u.columns() : vh.rows();
  ColumnMajor<T> left{scratch.data(), rows, wanted};
  int rank = 0;
  for (int j = 0; j < n; ++j) {
    const int from = order[static_cast<size_t>(j)];
    const R size = sizes[static_cast<size_t>(from)];
    s[j] = size * largest;
    if (!wants_vectors) continue;
    if (size > R(0)) rank = j + 1;
    for (int i = 0; i < rows && size > R(0); ++i) left(i, j) = m(i, from) / size;
    for (int i = 0; i < n; ++i)
      if (tall) vh(j, i) = conjugated(v(i, from));
      else u(i, j) = v(i, from);
  }
  complete_basis(left, rank);
  for (int j = 0; j < left.columns(); ++j)
    for (int i = 0; i < rows; ++i)
      if (tall) u(i, j) = left(i, j);
      else vh(j, i) = conjugated(left(i, j));
  return 0;
}

}  // namespace rl::kernels
