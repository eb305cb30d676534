// LAPACK by element type, column-major, and the matrices of a batch in that order.
#pragma once
#include <algorithm>
#include <complex>

#ifdef RL_WITHOUT_LAPACK
#include "kernels/cpu/small_lapack.h"
#else
#include "kernels/cpu/openblas_lapack.h"
#endif
#include "core/interpreter.h"
#include "kernels/cpu/interruptible_call.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {

// Where one matrix of a batch lies.
template <class T> struct Matrix {
  T* data;
  int64_t rows, columns, row_step, column_step;
  T& operator()(int64_t i, int64_t j) const { return data[i * row_step + j * column_step]; }
};

// First element of item `index` of a batch whose items have `inner` dims.
template <class T> T* item_of(const View& v, int64_t index, int64_t inner) {
  if (v.ndim == inner + 1) return v.ptr<T>() + index * v.strides[0];  // without a division
  int64_t at = 0;
  for (int64_t d = v.ndim - inner - 1; d >= 0; --d) {
    at += index % v.sizes[d] * v.strides[d];
    index /= v.sizes[d];
  }
  return v.ptr<T>() + at;
}
template <class T> Matrix<T> matrix_of(const View& v, int64_t index) {
  int64_t d = v.ndim;
  return {item_of<T>(v, index, 2), v.sizes[d - 2], v.sizes[d - 1], v.strides[d - 2],
          v.strides[d - 1]};
}
template <class T> void store_vector(const T* from, const View& v, int64_t index) {
  T* to = item_of<T>(v, index, 1);
  for (int64_t i = 0; i < v.sizes[v.ndim - 1]; ++i) to[i * v.strides[v.ndim - 1]] = from[i];
}
template <class T> void load_vector(const View& v, int64_t index, T* to) {
  const T* from = item_of<T>(v, index, 1);
  for (int64_t i = 0; i < v.sizes[v.ndim - 1]; ++i) to[i] = from[i * v.strides[v.ndim - 1]];
}

// f(line) for the lines of a matrix, between which Ctrl-C ends the loop.
template <class F>
void for_lines(int64_t lines, int64_t length, F&& f) {
  const int64_t part = std::max<int64_t>((1 << 20) / std::max<int64_t>(length, 1), 1);
  for (int64_t begin = 0, end; begin < lines; begin = end) {
    if (begin > 0) Interruption::ask();
    end = std::min(begin + part, lines);
    for (int64_t line = begin; line < end; ++line) f(line);
  }
}

// Copies the part that both matrices have, in squares: whichever order each lies in, what a line of
// the cache holds is used while it is there. Whole columns of 512 took five times as long.
template <class T> void copy_squares(const Matrix<T>& from, const Matrix<T>& to) {
  constexpr int64_t side = 16;
  int64_t rows = std::min(from.rows, to.rows), columns = std::min(from.columns, to.columns);
  for_lines((columns + side - 1) / side, side * rows, [&](int64_t strip) {
    int64_t first = strip * side, end = std::min(first + side, columns);
    for (int64_t top = 0; top < rows; top += side) {
      int64_t bottom = std::min(top + side, rows);
      for (int64_t j = first; j < end; ++j) {
        const T* x = &from(top, j);
        T* y = &to(top, j);
        for (int64_t i = top; i < bottom; ++i, x += from.row_step, y += to.row_step) *y = *x;
      }
    }
  });
}

// A column-major matrix in scratch memory.
template <class T> class Columns {
 public:
  Columns(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), buffer_(std::max<int64_t>(rows * columns, 1)) {}
  int rows() const { return static_cast<int>(rows_); }
  int columns() const { return static_cast<int>(columns_); }
  int ld() const { return std::max(rows(), 1); }  // LAPACK refuses 0
  T* data() const { return buffer_.data(); }
  T& operator()(int64_t i, int64_t j) const { return buffer_[i + j * rows_]; }

  // Copies the part of `m` that fits; `transposed` exchanges rows and columns.
  void load(Matrix<T> m, bool transposed = false) const {
    if (transposed) m = {m.data, m.columns, m.rows, m.column_step, m.row_step};
    copy_squares(m, {data(), rows_, columns_, 1, rows_});
  }
  void store(Matrix<T> m, bool transposed = false) const {
    if (transposed) m = {m.data, m.columns, m.rows, m.column_step, m.row_step};
    copy_squares({data(), rows_, columns_, 1, rows_}, m);
  }
  // Algorithms that iterate until they converge never do on an infinity or NaN.
  bool is_finite() const {
    return sum_of_zeros([](real_t<T> x) { return x * real_t<T>(0); }) == real_t<T>(0);
  }
  bool has_nan() const {
    return sum_of_zeros([](real_t<T> x) { return x == x ? real_t<T>(0) : real_t<T>(1); }) !=
           real_t<T>(0);
  }
  void conjugate() const {
    if constexpr (is_complex_v<T>)
      for (int64_t i = 0; i < rows_ * columns_; ++i) buffer_[i] = std::conj(buffer_[i]);
  }

 private:
  template <class F> real_t<T> sum_of_zeros(F f) const {
    const auto* parts = reinterpret_cast<const real_t<T>*>(data());
    real_t<T> sum(0);
    for (int64_t i = 0; i < rows_ * columns_ * int64_t(sizeof(T) / sizeof(real_t<T>)); ++i)
      sum += f(parts[i]);
    return sum;
  }

  int64_t rows_, columns_;
  Buffer<T> buffer_;
};

inline int64_t batch_count(const View& v, int64_t inner) {
  int64_t count = 1;
  for (int64_t d = 0; d < v.ndim - inner; ++d) count *= v.sizes[d];
  return count;
}

// f(TypeTag, begin, end) for parts of the batch of `a`, which is split over threads.
template <class F> void for_matrices(const char* op, const View& a, F&& f) {
  int64_t rows = a.sizes[a.ndim - 2], columns = a.sizes[a.ndim - 1];
  check(std::max(rows, columns) <= INT32_MAX / 4, op, ": a matrix of ", rows, " by ", columns,
        " is too large");
  prepare_lapack();
  int64_t work = std::max<int64_t>(rows * columns * std::min(rows, columns), 1);
  ScopedGilRelease long_work(4.0 * static_cast<double>(work * batch_count(a, 2)) > long_operations);
  visit<float, double, complex64, complex128>(op, a.dtype, [&](auto tag) {
    parallel_for(0, batch_count(a, 2), std::max<int64_t>(default_grain / work, 1),
                 [&](int64_t begin, int64_t end) {
                   LibraryCall call;
                   f(tag, begin, end);
                 });
  });
}
// f(TypeTag, index) for each matrix.
template <class F> void for_each_matrix(const char* op, const View& a, F&& f) {
  for_matrices(op, a, [&](auto tag, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(tag, i);
  });
}
inline void set_info(const View& info, int64_t index, int code) {
  *item_of<int32_t>(info, index, 0) = code;
}

}  // namespace rl::kernels
