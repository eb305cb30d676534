// Q R of real row-major matrices, on the calling thread: by halves down to panels, whose reflectors
// become H_0 H_1 ... = 1 - V T V^T, so that nearly all work is done by matrix products.
#pragma once
#include <algorithm>

#include "kernels/cpu/row_factor.h"

namespace rl::kernels {

inline void run_tile(const QrPanel<float>& p) { qr_panel_f32(p); }
inline void run_tile(const QrPanel<double>& p) { qr_panel_f64(p); }

// Ones on the diagonal of m, of column_step 1, and zeros elsewhere or above it.
template <class T> void set_identity(const Matrix<T>& m, bool keeps_below = false) {
  for (int64_t i = 0; i < (keeps_below ? std::min(m.rows, m.columns) : m.rows); ++i) {
    T* row = m.data + i * m.row_step;
    int64_t first = keeps_below ? i : 0;
    std::fill_n(row + first, m.columns - first, T(0));
    if (i < m.columns) row[i] = T(1);
  }
}

template <class T> class RowQr {
 public:
  // Of matrices of so many rows, with so many reflectors.
  RowQr(int64_t rows, int64_t count)
      : v_(rows, count),
        t_(count, block),
        tau_(std::max<int64_t>(count, 1)),
        packed_(std::max<int64_t>(rows, 1) * panel_width) {
    if (count > panel_width) fill_zeros(v_.matrix());  // a panel sets all of its own
    fill_zeros(t_.matrix());
  }

  // As LAPACK's geqrf, of a with column_step 1. False where squares of elements leave the range of
  // T; a is then of no use.
  bool factor(const Matrix<T>& a) {
    return for_blocks(false, [&](int64_t at, int64_t width) {
      int64_t rows = a.rows - at, next = at + width;
      if (!factor_columns(part_of(a, at, at, rows, width), at, 0)) return false;
      apply(at, width, part_of(a, at, next, rows, a.columns - next), true);
      return true;
    });
  }
  // The reflectors that geqrf left in `a` and tau.
  void load(const Matrix<T>& a, const T* tau) {
    const Matrix<T>& v = v_.matrix();
    copy_matrix(part_of(a, 0, 0, v.rows, v.columns), v);
    set_identity(v, true);
    std::copy_n(tau, v.columns, tau_.data());
    for_blocks(false, [&](int64_t at, int64_t width) {
      gather(v_of(at, width), t_of(at, width, 0), tau + at);
      return true;
    });
  }

  // x, of column_step 1, becomes Q x or Q^T x.
  void multiply(const Matrix<T>& x, bool transposed) {
    for_blocks(!transposed, [&](int64_t at, int64_t width) {
      apply(at, width, part_of(x, at, 0, x.rows - at, x.columns), transposed);
      return true;
    });
  }
  // q, of column_step 1, becomes the first columns of Q.
  void make_q(const Matrix<T>& q) {
    set_identity(q);
    for_blocks(true, [&](int64_t at, int64_t width) {
      // Above and left of what the blocks after this one made, q is still the identity.
      int64_t next = at + width, below = q.rows - next, right = q.columns - next;
      Matrix<T> v = v_of(at, width);
      Rows<T> sums(width, q.columns - at);
      turn_matrix(part_of(v, 0, 0, width, width), part_of(sums.matrix(), 0, 0, width, width));
      fill_zeros(part_of(sums.matrix(), 0, width, width, right));
      add_product<T>(1, reading(turned(part_of(v, width, 0, below, width))),
                     reading(part_of(q, next, next, below, right)), 0,
                     part_of(sums.matrix(), 0, width, width, right));
      reflect(v, t_of(at, width, 0), sums, part_of(q, at, at, q.rows - at, q.columns - at), false);
      return true;
    });
  }
  const T* tau() const { return tau_.data(); }

 private:
  static constexpr int64_t block = 64;  // reflectors that are applied at once

  static void fill_zeros(const Matrix<T>& m) {
    if (m.row_step == m.columns) std::fill_n(m.data, m.rows * m.columns, T(0));
    else
      for (int64_t i = 0; i < m.rows; ++i) std::fill_n(m.data + i * m.row_step, m.columns, T(0));
  }

  // f(at, width) for the blocks of reflectors, until it is false or Ctrl-C ends it.
  template <class F> bool for_blocks(bool backward, F&& f) {
    int64_t count = v_.matrix().columns, blocks = (count + block - 1) / block;
    Interruption interruption;
    for (int64_t k = 0; k < blocks; ++k) {
      interruption.poll();
      int64_t at = (backward ? blocks - 1 - k : k) * block;
      if (!f(at, std::min(block, count - at))) return false;
    }
    return true;
  }

  // The transpose of T, of a block's reflectors from `first` on.
  Matrix<T> t_of(int64_t at, int64_t width, int64_t first) const {
    return part_of(t_.matrix(), at + first, first, width, width);
  }
  Matrix<T> v_of(int64_t at, int64_t width) const {
    const Matrix<T>& v = v_.matrix();
    return part_of(v, at, at, v.rows - at, width);
  }

  // Columns of the block that begins at `at`, of which they are the `first` and those after it; a
  // begins with the diagonal's row.
  bool factor_columns(const Matrix<T>& a, int64_t at, int64_t first) {
    int64_t place = at + first;
    Matrix<T> v = v_of(place, a.columns), t = t_of(at, a.columns, first);
    if (a.columns <= panel_width) {
      bool in_range = true;
      run_tile(QrPanel<T>{a.data, a.rows, a.columns, a.row_step, tau_.data() + place, v.data,
                          v.row_step, t.data, t.row_step, packed_.data(), &in_range});
      return in_range;
    }
    int64_t left = first_half(a.columns, panel_width);
    int64_t right = a.columns - left, below = a.rows - left;
    if (!factor_columns(part_of(a, 0, 0, a.rows, left), at, first)) return false;
    apply(part_of(v, 0, 0, a.rows, left), part_of(t, 0, 0, left, left),
          part_of(a, 0, left, a.rows, right), true);
    if (!factor_columns(part_of(a, left, left, below, right), at, first + left)) return false;
    join(v, t, left);
    return true;
  }

  // T of the reflectors that stand in v.
  void gather(const Matrix<T>& v, const Matrix<T>& t, const T* tau) {
    if (v.columns <= panel_width) return gather_few(v, t, tau);
    int64_t left = first_half(v.columns, panel_width);
    int64_t right = v.columns - left;
    gather(part_of(v, 0, 0, v.rows, left), part_of(t, 0, 0, left, left), tau);
    gather(part_of(v, left, left, v.rows - left, right), part_of(t, left, left, right, right),
           tau + left);
    join(v, t, left);
  }
  void gather_few(const Matrix<T>& v, const Matrix<T>& t, const T* tau) {
    T products[panel_width * panel_width];
    int64_t width = v.columns;
    add_product<T>(1, reading(turned(v)), reading(v), 0, {products, width, width, width, 1});
    for (int64_t k = 0; k < width; ++k) {
      T row[panel_width] = {};
      for (int64_t j = 0; j < k; ++j) {
        T factor = -tau[k] * products[k * width + j];
        for (int64_t c = 0; c <= j; ++c) row[c] += factor * t(j, c);
      }
      row[k] = tau[k];
      std::copy_n(row, width, &t(k, 0));
    }
  }
  // T of the first `left` reflectors and of the others becomes that of all.
  static void join(const Matrix<T>& v, const Matrix<T>& t, int64_t left) {
    int64_t right = v.columns - left, below = v.rows - left;
    Rows<T> both(right, left), of_first(right, left);
    add_product<T>(1, reading(turned(part_of(v, left, left, below, right))),
                   reading(part_of(v, left, 0, below, left)), 0, both.matrix());
    add_product<T>(1, both.read(), reading(part_of(t, 0, 0, left, left)), 0, of_first.matrix());
    add_product<T>(-1, reading(part_of(t, left, left, right, right)), of_first.read(), 0,
                   part_of(t, left, 0, right, left));
  }

  // x becomes (1 - V T V^T) x, or with T^T, for V and T of a block.
  void apply(int64_t at, int64_t width, const Matrix<T>& x, bool transposed) {
    apply(v_of(at, width), t_of(at, width, 0), x, transposed);
  }
  static void apply(const Matrix<T>& v, const Matrix<T>& t, const Matrix<T>& x, bool transposed) {
    if (x.columns == 0) return;
    Rows<T> sums(v.columns, x.columns);
    add_product<T>(1, reading(turned(v)), reading(x), 0, sums.matrix());
    reflect(v, t, sums, x, transposed);
  }
  // The same with V^T x.
  static void reflect(const Matrix<T>& v, const Matrix<T>& t, const Rows<T>& sums,
                      const Matrix<T>& x, bool transposed) {
    Rows<T> parts(v.columns, x.columns);
    add_product<T>(1, reading(transposed ? t : turned(t)), sums.read(), 0, parts.matrix());
    subtract_product(reading(v), parts.matrix(), x);
  }

  Rows<T> v_, t_;
  Buffer<T> tau_, packed_;
};

// A copy of a matrix in rows, with R on and above its diagonal.
template <class T> struct Factored {
  explicit Factored(const Matrix<T>& a)
      : rows(a.rows, a.columns), reflectors(a.rows, std::min(a.rows, a.columns)) {
    copy_matrix(a, rows.matrix());
    in_range = reflectors.factor(rows.matrix());
  }
  const Matrix<T>& r() const { return rows.matrix(); }

  Rows<T> rows;
  RowQr<T> reflectors;
  bool in_range;  // else nothing of it is of use
};

}  // namespace rl::kernels
