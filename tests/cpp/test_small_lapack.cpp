// The plain algorithms that stand in for LAPACK where a build is without it.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "kernels/cpu/small_lapack.h"

using namespace rl;
using namespace rl::kernels;

namespace {

std::mt19937 engine(7);
int failures = 0;

template <class T> T random_number() {
  std::normal_distribution<double> normal;
  if constexpr (is_complex_v<T>)
    return {static_cast<real_t<T>>(normal(engine)), static_cast<real_t<T>>(normal(engine))};
  else return static_cast<T>(normal(engine));
}

template <class T> struct Dense {
  int rows_, columns_;
  std::vector<T> data;
  Dense(int rows, int columns)
      : rows_(rows), columns_(columns), data(static_cast<size_t>(rows * columns) + 1) {}
  static Dense random(int rows, int columns) {
    Dense made(rows, columns);
    for (T& x : made.data) x = random_number<T>();
    return made;
  }
  T& operator()(int i, int j) { return data[static_cast<size_t>(i + j * rows_)]; }
  const T& operator()(int i, int j) const { return data[static_cast<size_t>(i + j * rows_)]; }
  int ld() const { return std::max(rows_, 1); }
  Dense adjoint() const {
    Dense made(columns_, rows_);
    for (int i = 0; i < rows_; ++i)
      for (int j = 0; j < columns_; ++j) made(j, i) = conjugated((*this)(i, j));
    return made;
  }
  friend Dense operator*(const Dense& a, const Dense& b) {
    Dense made(a.rows_, b.columns_);
    for (int j = 0; j < b.columns_; ++j)
      for (int k = 0; k < a.columns_; ++k)
        for (int i = 0; i < a.rows_; ++i) made(i, j) += a(i, k) * b(k, j);
    return made;
  }
};

template <class T> Dense<T> identity(int n) {
  Dense<T> made(n, n);
  for (int i = 0; i < n; ++i) made(i, i) = T(1);
  return made;
}

template <class T> void same(const char* what, const Dense<T>& a, const Dense<T>& b) {
  real_t<T> largest(0), limit = 200 * std::numeric_limits<real_t<T>>::epsilon() * (a.rows_ + 4);
  for (int j = 0; j < a.columns_; ++j)
    for (int i = 0; i < a.rows_; ++i)
      largest = std::max(largest, real_t<T>(std::abs(a(i, j) - b(i, j))));
  if (largest <= limit && a.rows_ == b.rows_ && a.columns_ == b.columns_) return;
  std::printf("%s: off by %g\n", what, static_cast<double>(largest));
  ++failures;
}
void same_number(const char* what, double a, double b) {
  if (std::abs(a - b) <= 1e-4 * (1 + std::abs(b))) return;
  std::printf("%s: %g, not %g\n", what, a, b);
  ++failures;
}

template <class T> void test_svd(int m, int n, char job, int rank) {
  using R = real_t<T>;
  const int few = std::min(m, n);
  Dense<T> a = Dense<T>::random(m, rank) * Dense<T>::random(rank, n);
  Dense<T> u(m, job == 'A' ? m : few), vh(job == 'A' ? n : few, n), kept = a;
  std::vector<R> s(static_cast<size_t>(few) + 1), alone(static_cast<size_t>(few) + 1);
  Lapack<T>::gesdd(job, m, n, kept.data.data(), kept.ld(), s.data(), u.data.data(), u.ld(),
                   vh.data.data(), vh.ld());
  Dense<T> scaled(m, few), right(few, n);
  for (int j = 0; j < few; ++j) {
    for (int i = 0; i < m; ++i) scaled(i, j) = u(i, j) * s[static_cast<size_t>(j)];
    for (int i = 0; i < n; ++i) right(j, i) = vh(j, i);
    if (j && s[static_cast<size_t>(j)] > s[static_cast<size_t>(j - 1)]) ++failures;
  }
  same("svd", scaled * right, a);
  same("u", u.adjoint() * u, identity<T>(u.columns_));
  same("vh", vh * vh.adjoint(), identity<T>(vh.rows_));
  Lapack<T>::gesdd('N', m, n, kept.data.data(), kept.ld(), alone.data(), nullptr, 1, nullptr, 1);
  for (int j = 0; j < few; ++j)
    same_number("singular value", static_cast<double>(alone[static_cast<size_t>(j)]),
                static_cast<double>(s[static_cast<size_t>(j)]));
}

template <class T> void test_eigh(int n, bool upper) {
  using R = real_t<T>;
  Dense<T> a = Dense<T>::random(n, n), turned = a.adjoint();
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) a(i, j) += turned(i, j);
  Dense<T> vectors = a, scaled(n, n);
  for (int j = 0; j < n; ++j)  // the other triangle is not read
    for (int i = 0; i < n; ++i)
      if (upper ? i > j : i < j) vectors(i, j) = T(77);
  std::vector<R> w(static_cast<size_t>(n) + 1);
  if (Lapack<T>::eigh('V', upper ? 'U' : 'L', n, vectors.data.data(), vectors.ld(), w.data()))
    ++failures;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) scaled(i, j) = vectors(i, j) * w[static_cast<size_t>(j)];
  same("eigh", scaled * vectors.adjoint(), a);
  same("vectors", vectors.adjoint() * vectors, identity<T>(n));

  Dense<T> positive = a * a.adjoint(), factor = positive;
  for (int i = 0; i < n; ++i) factor(i, i) = positive(i, i) += T(1);
  if (Lapack<T>::potrf(upper ? 'U' : 'L', n, factor.data.data(), factor.ld())) ++failures;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i)
      if (upper ? i > j : i < j) factor(i, j) = T(0);
  same("cholesky", upper ? factor.adjoint() * factor : factor * factor.adjoint(), positive);
}

template <class T> void test_reflectors(int m, int n) {
  Dense<T> a = Dense<T>::random(m, n), packed = a, r(m, n), q(m, m);
  const int k = std::min(m, n);
  std::vector<T> tau(static_cast<size_t>(k) + 1);
  Lapack<T>::geqrf(m, n, packed.data.data(), packed.ld(), tau.data());
  for (int j = 0; j < n; ++j)
    for (int i = 0; i <= std::min(j, m - 1); ++i) r(i, j) = packed(i, j);
  for (int j = 0; j < k; ++j)
    for (int i = 0; i < m; ++i) q(i, j) = packed(i, j);
  Lapack<T>::orgqr(m, m, k, q.data.data(), q.ld(), tau.data());
  same("qr", q * r, a);
  same("q", q.adjoint() * q, identity<T>(m));
  const char adjoint = is_complex_v<T> ? 'C' : 'T';
  for (char side : {'L', 'R'})
    for (char op : {'N', adjoint}) {
      Dense<T> c = side == 'L' ? Dense<T>::random(m, 3) : Dense<T>::random(3, m);
      Dense<T> expected = side == 'L' ? (op == 'N' ? q : q.adjoint()) * c
                                      : c * (op == 'N' ? q : q.adjoint());
      Lapack<T>::ormqr(side, op, c.rows_, c.columns_, k, packed.data.data(), packed.ld(),
                       tau.data(), c.data.data(), c.ld());
      same("ormqr", c, expected);
    }
}

// a^H (a x - b) is 0 where x is the solution; of too few equations x has the least norm, and lies
// in the rows of a.
template <class T> void test_least_squares(int m, int n, bool by_singular_values) {
  using R = real_t<T>;
  Dense<T> a = Dense<T>::random(m, n), b = Dense<T>::random(m, 2), x(std::max(m, n), 2);
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < m; ++i) x(i, j) = b(i, j);
  int rank = 0;
  std::vector<R> s(static_cast<size_t>(std::min(m, n)));
  Dense<T> kept = a;
  if (by_singular_values)
    Lapack<T>::gelsd(m, n, 2, kept.data.data(), kept.ld(), x.data.data(), x.ld(), s.data(), R(-1),
                     &rank);
  else Lapack<T>::gels(m, n, 2, kept.data.data(), kept.ld(), x.data.data(), x.ld());
  Dense<T> solution(n, 2);
  double left_over = 0, expected = 0;
  for (int j = 0; j < 2; ++j) {
    for (int i = 0; i < n; ++i) solution(i, j) = x(i, j);
    for (int i = n; i < m; ++i) left_over += static_cast<double>(std::norm(x(i, j)));
  }
  Dense<T> difference = a * solution;
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < m; ++i) {
      difference(i, j) -= b(i, j);
      expected += static_cast<double>(std::norm(difference(i, j)));
    }
  same("least squares", a.adjoint() * difference, Dense<T>(n, 2));
  same_number("what is left over", left_over, expected);
  if (by_singular_values && rank != std::min(m, n)) ++failures;
  if (m >= n) return;
  Dense<T> outer = a * a.adjoint(), y(m, 2);  // x = a^H y, and so a a^H y = b
  Lapack<T>::potrf('L', m, outer.data.data(), outer.ld());
  for (int c = 0; c < 2; ++c) {
    for (int i = 0; i < m; ++i) {
      y(i, c) = b(i, c);
      for (int j = 0; j < i; ++j) y(i, c) -= outer(i, j) * y(j, c);
      y(i, c) /= outer(i, i);
    }
    for (int i = m - 1; i >= 0; --i) {
      for (int j = i + 1; j < m; ++j) y(i, c) -= conjugated(outer(j, i)) * y(j, c);
      y(i, c) /= outer(i, i);
    }
  }
  same("least norm", solution, a.adjoint() * y);
}

template <class T> void test_all() {
  for (char job : {'S', 'A'}) {
    test_svd<T>(5, 5, job, 5);
    test_svd<T>(9, 4, job, 4);
    test_svd<T>(3, 8, job, 3);
    test_svd<T>(6, 5, job, 2);
    test_svd<T>(5, 7, job, 1);
    test_svd<T>(1, 1, job, 1);
  }
  for (int n : {1, 2, 7, 24})
    for (bool upper : {false, true}) test_eigh<T>(n, upper);
  test_reflectors<T>(6, 4);
  test_reflectors<T>(4, 4);
  test_reflectors<T>(3, 5);
  for (bool by_singular_values : {false, true}) {
    test_least_squares<T>(7, 3, by_singular_values);
    test_least_squares<T>(4, 4, by_singular_values);
    test_least_squares<T>(2, 5, by_singular_values);
  }
  T negative = T(-1);
  if (Lapack<T>::potrf('L', 1, &negative, 1) != 1) ++failures;
}

}  // namespace

int main() {
  test_all<double>();
  test_all<complex128>();
  test_all<float>();
  test_all<complex64>();
  try {
    geev('N', 0, static_cast<float*>(nullptr), 1, static_cast<float*>(nullptr),
         static_cast<float*>(nullptr), static_cast<float*>(nullptr));
    ++failures;
  } catch (const Error& error) {
    if (std::string(error.what()).find("geev") == std::string::npos) ++failures;
  }
  if (failures) return std::printf("%d failed\n", failures), 1;
  std::puts("passed");
}
