// Cholesky, LU and triangular systems.
#include <cmath>
#include <cstdlib>
#include <utility>

#include "kernels/cpu/lapack.h"
#include "kernels/linalg.h"

namespace rl::kernels {
namespace {

template <class Tag> using type_of = typename Tag::type;
char triangle(bool upper) { return upper ? 'U' : 'L'; }

}  // namespace

void cholesky(const View& a, const View& out, bool upper, const View& info) {
  for_each_matrix("cholesky", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at);
    Columns<T> m(from.rows, from.columns);
    m.load(from);
    set_info(info, at, Lapack<T>::potrf(triangle(upper), m.rows(), m.data(), m.ld()));
    for (int64_t j = 0; j < m.columns(); ++j)
      for (int64_t i = upper ? j + 1 : 0; i < (upper ? m.rows() : j); ++i) m(i, j) = T(0);
    m.store(matrix_of<T>(out, at));
  });
}

namespace {

// Matrices of this many rows and columns cost the library more in calls than in work.
constexpr int most_small = 16;

template <class T> bool is_small(const Columns<T>& m) {
  return std::max(m.rows(), m.columns()) <= most_small;
}

template <class T> auto magnitude(T value) {  // LAPACK's, of complex numbers
  if constexpr (is_complex_v<T>) return std::abs(value.real()) + std::abs(value.imag());
  else return std::abs(value);
}

template <class T> void exchange_rows(const Columns<T>& m, int a, int b) {
  for (int j = 0; a != b && j < m.columns(); ++j) std::swap(m(a, j), m(b, j));
}

// Gaussian elimination; the 1-based place of the first pivot that is zero, or 0. With row
// exchanges a column of zeros is left as it is.
template <class T> int eliminate(const Columns<T>& m, int* pivots, bool exchange) {
  int zero_pivot = 0;
  for (int k = 0; k < std::min(m.rows(), m.columns()); ++k) {
    int best = k;
    for (int i = k + 1; exchange && i < m.rows(); ++i)
      if (magnitude(m(i, k)) > magnitude(m(best, k))) best = i;
    pivots[k] = best + 1;
    if (m(best, k) == T(0)) {
      if (!zero_pivot) zero_pivot = k + 1;
      if (exchange) continue;
    }
    exchange_rows(m, k, best);
    for (int i = k + 1; i < m.rows(); ++i) m(i, k) /= m(k, k);
    for (int j = k + 1; j < m.columns(); ++j)
      for (int i = k + 1; i < m.rows(); ++i) m(i, j) -= m(i, k) * m(k, j);
  }
  return zero_pivot;
}

template <class T> int lu_in_place(const Columns<T>& m, int* pivots, bool exchange = true) {
  if (!exchange || is_small(m)) return eliminate(m, pivots, exchange);
  return Lapack<T>::getrf(m.rows(), m.columns(), m.data(), m.ld(), pivots);
}

// x becomes the solution of L U x = P x.
template <class T> void solve_small(const Columns<T>& lu, const int* pivots, const Columns<T>& x) {
  for (int k = 0; k < lu.rows(); ++k) exchange_rows(x, k, pivots[k] - 1);
  for (int j = 0; j < x.columns(); ++j) {
    for (int k = 0; k < lu.rows(); ++k)
      for (int i = k + 1; i < lu.rows(); ++i) x(i, j) -= lu(i, k) * x(k, j);
    for (int k = lu.rows() - 1; k >= 0; --k) {
      x(k, j) /= lu(k, k);
      for (int i = 0; i < k; ++i) x(i, j) -= lu(i, k) * x(k, j);
    }
  }
}

}  // namespace

void lu_factor(const View& a, const View& lu, const View& pivots, bool pivot, const View& info) {
  for_each_matrix("lu_factor", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at);
    Columns<T> m(from.rows, from.columns);
    Buffer<int> order(std::max<int64_t>(std::min(from.rows, from.columns), 1));
    m.load(from);
    set_info(info, at, lu_in_place(m, order.data(), pivot));
    m.store(matrix_of<T>(lu, at));
    store_vector<int32_t>(order.data(), pivots, at);
  });
}

namespace {

// The row exchanges of one matrix. They may be the user's, and LAPACK writes where they say.
void load_pivots(const char* op, const View& pivots, int64_t at, int64_t rows, int* exchanges) {
  load_vector<int32_t>(pivots, at, exchanges);
  for (int64_t i = 0; i < pivots.sizes[pivots.ndim - 1]; ++i)
    check(exchanges[i] >= 1 && exchanges[i] <= rows, op, ": pivots should be between 1 and ", rows,
          " (inclusive), got ", exchanges[i]);
}

}  // namespace

void lu_solve(const View& lu, const View& pivots, const View& b, const View& out, bool left,
              Transpose op) {
  // x op(A) = b is op(A)^T x^T = b^T; of A^H that is conj(A) x^T = b^T, so A solves for conj(x^T).
  bool through_conjugate = !left && op == Transpose::Adjoint;
  char code = left ? (op == Transpose::None        ? 'N'
                      : op == Transpose::Transpose ? 'T'
                                                   : 'C')
                   : (op == Transpose::None ? 'T' : 'N');
  for_each_matrix("lu_solve", lu, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(lu, at), right = matrix_of<T>(b, at);
    Columns<T> m(from.rows, from.columns);
    Columns<T> x(left ? right.rows : right.columns, left ? right.columns : right.rows);
    Buffer<int> order(std::max<int64_t>(from.rows, 1));
    m.load(from);
    x.load(right, !left);
    load_pivots("lu_solve", pivots, at, from.rows, order.data());
    if (through_conjugate) x.conjugate();
    if (code == 'N' && is_small(m)) solve_small(m, order.data(), x);
    else
      Lapack<T>::getrs(code, m.rows(), x.columns(), m.data(), m.ld(), order.data(), x.data(),
                       x.ld());
    if (through_conjugate) x.conjugate();
    x.store(matrix_of<T>(out, at), !left);
  });
}

void ldl_factor(const View& a, const View& ld, const View& pivots, bool hermitian,
                const View& info) {
  for_each_matrix("ldl_factor", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at), packed = matrix_of<T>(ld, at);
    Columns<T> m(from.rows, from.columns);
    Buffer<int> order(std::max<int64_t>(from.rows, 1));
    m.load(from);
    set_info(info, at, Lapack<T>::ldl_factor(hermitian, m.rows(), m.data(), m.ld(), order.data()));
    for (int64_t i = 0; i < packed.rows; ++i)
      for (int64_t j = 0; j < packed.columns; ++j) packed(i, j) = j <= i ? m(i, j) : T(0);
    store_vector<int32_t>(order.data(), pivots, at);
  });
}

void ldl_solve(const View& ld, const View& pivots, const View& b, const View& out, bool hermitian) {
  for_each_matrix("ldl_solve", ld, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(ld, at), right = matrix_of<T>(b, at);
    Columns<T> m(from.rows, from.columns), x(right.rows, right.columns);
    Buffer<int> order(std::max<int64_t>(from.rows, 1));
    m.load(from);
    x.load(right);
    load_vector<int32_t>(pivots, at, order.data());
    // LAPACK reads and writes where they say. A block of 2 is a pair of equal negative pivots.
    int rows = m.rows();
    for (int i = 0; i < rows; ++i) {
      int pivot = order[i];
      check(pivot != 0 && std::abs(pivot) <= rows, "linalg.ldl_solve: pivot ", pivot,
            " is none of a matrix of ", rows, " rows");
      if (pivot > 0) continue;
      check(i + 1 < rows && order[i + 1] == pivot, "linalg.ldl_solve: the negative pivot ", pivot,
            " must stand twice in a row, for a block of 2");
      ++i;
    }
    Lapack<T>::ldl_solve(hermitian, rows, x.columns(), m.data(), m.ld(), order.data(), x.data(),
                         x.ld());
    x.store(matrix_of<T>(out, at));
  });
}

void lu_permutation(const View& pivots, const View& permutation) {
  int64_t rows = permutation.sizes[permutation.ndim - 1], count = pivots.sizes[pivots.ndim - 1];
  Buffer<int> exchanges(std::max<int64_t>(count, 1));
  Buffer<int64_t> order(std::max<int64_t>(rows, 1));
  for (int64_t at = 0; at < batch_count(permutation, 1); ++at) {
    load_pivots("lu_unpack", pivots, at, rows, exchanges.data());
    for (int64_t i = 0; i < rows; ++i) order[i] = i;
    for (int64_t i = 0; i < count; ++i) std::swap(order[i], order[exchanges[i] - 1]);
    store_vector<int64_t>(order.data(), permutation, at);
  }
}

namespace {

#define RL_TRSM(T, p, alpha)                                                                     \
  void trsm(CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE op, CBLAS_DIAG diagonal,           \
            const Columns<T>& a, const Columns<T>& x) {                                          \
    const T one(1);                                                                              \
    scipy_cblas_##p##trsm(CblasColMajor, side, uplo, op, diagonal, x.rows(), x.columns(), alpha, \
                          a.data(), a.ld(), x.data(), x.ld());                                   \
  }
RL_TRSM(float, s, one)
RL_TRSM(double, d, one)
RL_TRSM(complex64, c, &one)
RL_TRSM(complex128, z, &one)
#undef RL_TRSM

}  // namespace

void solve_triangular(const View& a, const View& b, const View& out, bool upper, bool left,
                      bool unitriangular) {
  for_each_matrix("solve_triangular", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at), right = matrix_of<T>(b, at);
    Columns<T> m(from.rows, from.columns), x(right.rows, right.columns);
    m.load(from);
    x.load(right);
    trsm(left ? CblasLeft : CblasRight, upper ? CblasUpper : CblasLower, CblasNoTrans,
         unitriangular ? CblasUnit : CblasNonUnit, m, x);
    x.store(matrix_of<T>(out, at));
  });
}

void inverse(const View& a, const View& out, const View& info) {
  for_each_matrix("inverse", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at);
    Columns<T> m(from.rows, from.columns);
    Buffer<int> order(std::max<int64_t>(from.rows, 1));
    m.load(from);
    int code = lu_in_place(m, order.data());
    set_info(info, at, code);
    if (is_small(m)) {
      Columns<T> x(from.rows, from.columns);
      for (int j = 0; j < m.columns(); ++j)
        for (int i = 0; i < m.rows(); ++i) x(i, j) = T(i == j ? 1 : 0);
      if (code == 0) solve_small(m, order.data(), x);
      return (code == 0 ? x : m).store(matrix_of<T>(out, at));
    }
    if (code == 0) code = Lapack<T>::getri(m.rows(), m.data(), m.ld(), order.data());
    set_info(info, at, code);
    m.store(matrix_of<T>(out, at));
  });
}

namespace {

// The sign of the row exchanges.
int parity(const View& pivots, int64_t at, int64_t count) {
  const int32_t* p = item_of<int32_t>(pivots, at, 1);
  int sign = 1;
  for (int64_t i = 0; i < count; ++i)
    if (p[i * pivots.strides[pivots.ndim - 1]] != i + 1) sign = -sign;
  return sign;
}

}  // namespace

void lu_slogdet(const View& lu, const View& pivots, const View& sign, const View& logabsdet) {
  for_each_matrix("slogdet", lu, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    using R = real_t<T>;
    Matrix<T> m = matrix_of<T>(lu, at);
    T direction(static_cast<R>(parity(pivots, at, m.rows)));
    R total(0);
    for (int64_t i = 0; i < m.rows; ++i) {
      R size = std::abs(m(i, i));
      direction *= size == R(0) ? T(0) : m(i, i) / size;
      total += std::log(size);
    }
    *item_of<T>(sign, at, 0) = direction;
    *item_of<R>(logabsdet, at, 0) = total;
  });
}

void lu_det(const View& lu, const View& pivots, const View& det) {
  for_each_matrix("det", lu, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> m = matrix_of<T>(lu, at);
    T product(static_cast<real_t<T>>(parity(pivots, at, m.rows)));
    for (int64_t i = 0; i < m.rows; ++i) product *= m(i, i);
    *item_of<T>(det, at, 0) = product;
  });
}

}  // namespace rl::kernels
