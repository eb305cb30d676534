// Cholesky, LU and triangular systems.
#include <cmath>
#include <cstdlib>

#include "kernels/cpu/lapack.h"
#include "kernels/cpu/linalg_lanes.h"
#include "kernels/cpu/row_factor.h"
#include "kernels/linalg.h"

namespace rl::kernels {
namespace {

template <class Tag> using type_of = typename Tag::type;
char triangle(bool upper) { return upper ? 'U' : 'L'; }
double cube(int n) { return double(n) * double(n) * double(n); }

}  // namespace

namespace {

// U of a = U^T U, in registers: to call the library takes longer than that. Written to out, or its
// transpose.
template <class T>
void cholesky_of_small(Matrix<T> a, Matrix<T> out, bool upper, const View& info, int64_t at) {
  T u[panel_width * panel_width];
  Matrix<T> to = upper ? out : turned(out), from = upper ? a : turned(a);
  int64_t n = a.rows;
  int zero_pivot = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i; j < n; ++j) u[i * n + j] = from(i, j);
  run_tile(CholeskyTile<T>{u, n, n, &zero_pivot});
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) to(i, j) = i <= j ? u[i * n + j] : T(0);
  set_info(info, at, zero_pivot);
}

}  // namespace

void cholesky(const View& a, const View& out, bool upper, const View& info) {
  if (cholesky_in_lanes(a, out, upper, info)) return;
  for_each_matrix("cholesky", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at);
    if constexpr (!is_complex_v<T>)
      if (from.rows <= panel_width)
        return cholesky_of_small(from, matrix_of<T>(out, at), upper, info, at);
    Columns<T> m(from.rows, from.columns);
    m.load(from);
    int code = interruptible_call(
        cube(m.rows()) / 6,
        [part = triangle(upper)](Columns<T>& x) {
          return Lapack<T>::potrf(part, x.rows(), x.data(), x.ld());
        },
        m);
    set_info(info, at, code);
    for (int64_t j = 0; j < m.columns(); ++j)
      for (int64_t i = upper ? j + 1 : 0; i < (upper ? m.rows() : j); ++i) m(i, j) = T(0);
    m.store(matrix_of<T>(out, at));
  });
}

void lu_factor(const View& a, const View& lu, const View& pivots, bool pivot, const View& info) {
  if (lu_in_lanes(a, lu, pivots, pivot, info)) return;
  for_matrices("lu_factor", a, [&](auto tag, int64_t begin, int64_t end) {
    using T = type_of<decltype(tag)>;
    Matrix<T> shape = matrix_of<T>(a, begin);
    RowLu<T> elimination(shape.rows, pivot);
    Rows<T> m(shape.rows, shape.columns);
    Buffer<int> order(std::max<int64_t>(std::min(shape.rows, shape.columns), 1));
    for (int64_t at = begin; at < end; ++at) {
      copy_matrix(matrix_of<T>(a, at), m.matrix());
      set_info(info, at, elimination.factor(m.matrix(), order.data()));
      copy_matrix(m.matrix(), matrix_of<T>(lu, at));
      store_vector<int32_t>(order.data(), pivots, at);
    }
  });
}

namespace {

// The row exchanges of one matrix. They may be the user's, and are followed where they say.
void load_pivots(const char* op, const View& pivots, int64_t at, int64_t rows, int* exchanges) {
  load_vector<int32_t>(pivots, at, exchanges);
  for (int64_t i = 0; i < pivots.sizes[pivots.ndim - 1]; ++i)
    check(exchanges[i] >= 1 && exchanges[i] <= rows, op, ": pivots should be between 1 and ", rows,
          " (inclusive), got ", exchanges[i]);
}

}  // namespace

void lu_solve(const View& lu, const View& pivots, const View& b, const View& out, bool left,
              Transpose op) {
  // x op(A) = b is op(A)^T x^T = b^T; of A^H that is conj(A) x^T = b^T.
  bool transposed = left ? op != Transpose::None : op == Transpose::None;
  if (lu_solve_in_lanes(lu, pivots, b, out, left, transposed)) return;
  for_matrices("lu_solve", lu, [&](auto tag, int64_t begin, int64_t end) {
    using T = type_of<decltype(tag)>;
    bool conjugated = is_complex_v<T> && op == Transpose::Adjoint;
    Matrix<T> shape = matrix_of<T>(lu, begin), right = matrix_of<T>(b, begin);
    Rows<T> m(shape.rows, shape.columns);
    Rows<T> x(left ? right.rows : right.columns, left ? right.columns : right.rows);
    Buffer<int> order(std::max<int64_t>(shape.rows, 1));
    for (int64_t at = begin; at < end; ++at) {
      Matrix<T> given = matrix_of<T>(b, at), to = matrix_of<T>(out, at);
      copy_matrix(matrix_of<T>(lu, at), m.matrix());
      copy_matrix(left ? given : turned(given), x.matrix());
      load_pivots("lu_solve", pivots, at, shape.rows, order.data());
      if (conjugated) conjugate(m.matrix());
      if (transposed) solve_lu_transposed(m.read(), order.data(), x.matrix());
      else solve_lu(m.read(), order.data(), x.matrix());
      copy_matrix(x.matrix(), left ? to : turned(to));
    }
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
    int code = interruptible_call(
        cube(m.rows()) / 6,
        [hermitian](Columns<T>& x, Buffer<int>& exchanges) {
          return Lapack<T>::ldl_factor(hermitian, x.rows(), x.data(), x.ld(), exchanges.data());
        },
        m, order);
    set_info(info, at, code);
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
      check(pivot != 0 && pivot >= -rows && pivot <= rows, "linalg.ldl_solve: pivot ", pivot,
            " is none of a matrix of ", rows, " rows");
      if (pivot > 0) continue;
      check(i + 1 < rows && order[i + 1] == pivot, "linalg.ldl_solve: the negative pivot ", pivot,
            " must stand twice in a row, for a block of 2");
      ++i;
    }
    interruptible_call(
        double(rows) * double(rows) * double(x.columns()),
        [hermitian](Columns<T>& factors, Buffer<int>& exchanges, Columns<T>& y) {
          return Lapack<T>::ldl_solve(hermitian, y.rows(), y.columns(), factors.data(),
                                      factors.ld(), exchanges.data(), y.data(), y.ld());
        },
        m, order, x);
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

void solve_triangular(const View& a, const View& b, const View& out, bool upper, bool left,
                      bool unitriangular) {
  if (triangle_in_lanes(a, b, out, upper, left, unitriangular)) return;
  for_matrices("solve_triangular", a, [&](auto tag, int64_t begin, int64_t end) {
    using T = type_of<decltype(tag)>;
    Matrix<T> right = matrix_of<T>(b, begin);
    Rows<T> x(left ? right.rows : right.columns, left ? right.columns : right.rows);
    for (int64_t at = begin; at < end; ++at) {  // x A = b is A^T x^T = b^T
      Matrix<T> given = matrix_of<T>(b, at), to = matrix_of<T>(out, at), m = matrix_of<T>(a, at);
      copy_matrix(left ? given : turned(given), x.matrix());
      solve_triangle(reading(left ? m : turned(m)), upper == left, unitriangular, x.matrix());
      copy_matrix(x.matrix(), left ? to : turned(to));
    }
  });
}

void inverse(const View& a, const View& out, const View& info) {
  if (inverse_in_lanes(a, out, info)) return;
  for_matrices("inverse", a, [&](auto tag, int64_t begin, int64_t end) {
    using T = type_of<decltype(tag)>;
    int64_t n = matrix_of<T>(a, begin).rows;
    RowLu<T> elimination(n, true);
    Rows<T> m(n, n), x(n, n);
    Buffer<int> order(std::max<int64_t>(n, 1));
    for (int64_t at = begin; at < end; ++at) {
      copy_matrix(matrix_of<T>(a, at), m.matrix());
      int code = elimination.factor(m.matrix(), order.data());
      set_info(info, at, code);
      if (code == 0) {
        std::fill_n(x.matrix().data, n * n, T(0));
        for (int64_t i = 0; i < n; ++i) x.matrix()(i, i) = T(1);
        solve_lu(m.read(), order.data(), x.matrix());
      }
      copy_matrix(code == 0 ? x.matrix() : m.matrix(), matrix_of<T>(out, at));
    }
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
