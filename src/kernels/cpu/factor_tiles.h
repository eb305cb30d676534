// The innermost loops of factorisations and triangular solves of row-major matrices, over float32
// or float64 data.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Columns that one panel has at most, in every instruction set.
inline constexpr int64_t panel_width = 16;

// Gaussian elimination of a (rows, columns <= panel_width), rows `step` apart, as LAPACK's getrf:
// 1-based pivots, L below and U on and above the diagonal. zero_pivot is set to the 1-based place
// of the first pivot that is zero, if there is one. `packed` has room for rows * panel_width.
template <class T> struct LuPanel {
  T* a;
  int64_t rows, columns, step;
  int* pivots;
  bool exchange;
  int* zero_pivot;
  T* packed;
};
RL_ISA_KERNEL(lu_panel_f32, (const LuPanel<float>& panel))
RL_ISA_KERNEL(lu_panel_f64, (const LuPanel<double>& panel))

// U of a = U^T U for a (n, n), n <= panel_width, read and written on and above the diagonal; rows
// `step` apart. zero_pivot as above, of the first minor that is not positive definite.
template <class T> struct CholeskyTile {
  T* a;
  int64_t n, step;
  int* zero_pivot;
};
RL_ISA_KERNEL(cholesky_tile_f32, (const CholeskyTile<float>& tile))
RL_ISA_KERNEL(cholesky_tile_f64, (const CholeskyTile<double>& tile))

// Householder's reflectors of a (rows, columns), rows >= columns <= panel_width, as LAPACK's geqrf
// keeps them below the diagonal of a and in tau. Their product H_0 H_1 ... is 1 - V T V^T: to v go
// the rows of V with its ones and zeros, to t those of T's transpose. `packed` is as above. False
// is set where a sum of squares leaves the range of T, as that of zeros does.
template <class T> struct QrPanel {
  T* a;
  int64_t rows, columns, step;
  T *tau, *v;
  int64_t v_step;
  T* t;
  int64_t t_step;
  T* packed;
  bool* in_range;
};
RL_ISA_KERNEL(qr_panel_f32, (const QrPanel<float>& panel))
RL_ISA_KERNEL(qr_panel_f64, (const QrPanel<double>& panel))

// n is at most so much, or any of a vector x in one piece with a matrix whose rows or columns are.
inline constexpr int64_t triangle_rows = 32;
// x (n, columns), rows x_step apart, becomes the solution of a x = b that it held; a (n, n) is
// triangular, elements `row` and `column` apart, with ones for its diagonal if `unit`.
template <class T> struct TriangleTile {
  const T* a;
  int64_t row, column, n;
  bool upper, unit;
  T* x;
  int64_t x_step, columns;
};
RL_ISA_KERNEL(triangle_tile_f32, (const TriangleTile<float>& tile))
RL_ISA_KERNEL(triangle_tile_f64, (const TriangleTile<double>& tile))

}  // namespace rl::kernels
