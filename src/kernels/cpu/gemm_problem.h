// A matrix product of one dtype, as the loops of gemm_tiles see it; for *.isa.cpp files.
#pragma once
#include <algorithm>
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/dtype.h"
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/pairs.h"
#include "kernels/cpu/reduced_floats.h"
#include "kernels/elementwise.h"
#include "math/complex.h"

namespace rl::kernels::RL_ISA {
namespace {

// The tile of c that registers hold: rows, and vectors of columns.
constexpr int tile_rows = vector_registers == 32 ? 8 : 4, tile_width = fused_vectors ? 3 : 2;

// Integers multiply as unsigned ones, whose overflow is defined. A complex number is two reals.
template <class T, bool = std::is_integral_v<T>> struct Element {
  using type = T;
  using Real = T;
};
template <class T> struct Element<T, true> {
  using type = std::make_unsigned_t<T>;
  using Real = type;
};
template <class R> struct Element<std::complex<R>, false> {
  using type = std::complex<R>;
  using Real = R;
};
template <class T> using RealOf = typename Element<T>::Real;
template <class T> constexpr bool complex = !std::is_same_v<T, RealOf<T>>;
template <class T> constexpr int lanes = Vector<RealOf<T>>::lanes;
// A complex tile has two registers for each of its vectors.
template <class T> constexpr int rows_of = complex<T> ? tile_rows / 2 : tile_rows;
template <class T> constexpr int width_of = complex<T> ? 2 : tile_width;

// Narrow unsigned integers would be promoted to int, whose overflow is not defined; complex numbers
// would be examined for NaNs.
template <class T> T times(T a, T b) {
  if constexpr (complex<T>) return math::times(a, b);
  else {
    using Wide = std::common_type_t<T, unsigned>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  }
}

// Of complex numbers, 1 times infinity would have a part that is not a number.
template <class T> T scaled(T factor, T x) {
  return complex<T> && factor == T(1) ? x : times(factor, x);
}

// sum + a * b
template <class T> T plus_product(T sum, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return mul_add(a, b, sum);
  else return static_cast<T>(sum + times(a, b));
}
template <class T> T plus_scaled(T sum, T factor, T x) {
  if constexpr (complex<T>) return sum + scaled(factor, x);
  else return plus_product(sum, factor, x);
}

// f(pointer) to the element (i, j) of a rounded product.
template <class F> void with_rounded(const Rounding& to, int64_t i, int64_t j, F f) {
  uint16_t* at = to.data + i * to.row + j * to.col;
  if (to.dtype == DType::BFloat16) f(reinterpret_cast<bfloat16*>(at));
  else f(reinterpret_cast<half*>(at));
}

// `count` values to a row of a rounded product.
void round_line(const Rounding& to, int64_t i, int64_t j, const float* values, int64_t count) {
  constexpr int64_t n = Vector<float>::lanes;
  with_rounded(to, i, j, [&](auto* out) {
    int64_t x = 0;
    if (to.col == 1)
      for (; x + n <= count; x += n) store_narrow(out + x, load(values + x));
    for_rest(x, count, [&](int64_t rest) { out[rest * to.col] = values[rest]; });
  });
}

// The nearest 16-bit floats to `values`.
void round_values(DType dtype, float* values, int64_t count) {
  auto round = [&](auto tag) {
    using H = decltype(tag);
    constexpr int64_t n = Vector<float>::lanes;
    int64_t x = 0;
    for (H some[n]; x + n <= count; x += n) {
      store_narrow(some, load(values + x));
      store(values + x, load_wide(some));
    }
    for_rest(x, count, [&](int64_t i) { values[i] = H(values[i]); });
  };
  dtype == DType::BFloat16 ? round(bfloat16()) : round(half());
}

// Where a part of c goes: c = finish(alpha * sums + beta * added).
template <class T> struct Target {
  T* c;
  int64_t row, col;
  const T* added;
  int64_t added_row, added_col;
  T alpha, beta;
  StripFunction finish = nullptr;  // none: c is the sum
  Rounding rounded = {};

  Target at(int64_t i, int64_t j) const {
    Target t = *this;
    t.c += i * row + j * col;
    t.added += i * added_row + j * added_col;
    if (rounded.data) t.rounded.data += i * rounded.row + j * rounded.col;
    return t;
  }
  // The same place for a part of the sums: the first finds what is added, the last finishes.
  Target part(bool first, bool last) const {
    Target t = first ? *this : Target{c, row, col, c, row, col, alpha, T(1), finish, rounded};
    if (!last) t.finish = nullptr, t.rounded.data = nullptr;
    return t;
  }
  Target transposed() const {
    Target t = *this;
    std::swap(t.row, t.col);
    std::swap(t.added_row, t.added_col);
    std::swap(t.rounded.row, t.rounded.col);
    return t;
  }
  // To the next one of a batch.
  void advance(int64_t step, int64_t added_step) {
    c += step;
    added += added_step;
    if (rounded.data) rounded.data += rounded.step;
  }
  bool ends() const { return finish || rounded.data; }
  // Without the end.
  void put(int64_t i, int64_t j, T value) const {
    T sum = scaled(alpha, value);
    if (beta != T(0)) sum = plus_scaled(sum, beta, added[i * added_row + j * added_col]);
    c[i * row + j * col] = sum;
  }
  // What is rounded was so before it is finished, too.
  void finish_line(T* values, int64_t count) const {
    if (!finish) return;
    if constexpr (std::is_same_v<T, float>)
      if (rounded.data) round_values(rounded.dtype, values, count);
    void* operands[] = {values, values};
    finish(count, operands, nullptr);
  }
};

template <class T> struct Problem {
  int64_t m, n, k, deepest;
  const T *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  Target<T> target;
  int64_t count, a_step, b_step, c_step, added_step;  // of a batch
  int group;
  DType pairs;
  const T* packed;      // all of b, if another call did so
  int64_t first, last;  // the columns of c whose panels are asked for

  void advance() {
    a += a_step;
    b += b_step;
    target.advance(c_step, added_step);
  }
  // c^T = b^T a^T
  void transpose() {
    std::swap(m, n);
    std::swap(a, b);
    std::swap(a_row, b_col);
    std::swap(a_col, b_row);
    target = target.transposed();
    std::swap(a_step, b_step);
  }
};

template <class T> Problem<typename Element<T>::type> typed(const GemmProblem& g) {
  using W = typename Element<T>::type;
  Problem<W> p;
  p.m = g.m, p.n = g.n, p.k = g.k;
  p.deepest = g.deepest > 0 ? g.deepest : deepest_block(g.m, g.n);
  p.a = static_cast<const W*>(g.a), p.a_row = g.a_row, p.a_col = g.a_col;
  p.b = static_cast<const W*>(g.b), p.b_row = g.b_row, p.b_col = g.b_col;
  Target<W>& to = p.target;
  to.c = static_cast<W*>(g.c), to.row = g.c_row, to.col = g.c_col;
  to.added = g.added ? static_cast<const W*>(g.added) : to.c;
  to.added_row = g.added ? g.added_row : to.row, to.added_col = g.added ? g.added_col : to.col;
  to.alpha = static_cast<W>(g.alpha.to<T>()), to.beta = static_cast<W>(g.beta.to<T>());
  to.finish = g.finish;
  p.count = g.count, p.a_step = g.a_step, p.b_step = g.b_step, p.c_step = g.c_step;
  p.added_step = g.added ? g.added_step : g.c_step;
  p.group = g.group, p.pairs = g.pairs;
  to.rounded = g.rounded;
  p.packed = static_cast<const W*>(g.packed), p.first = g.first, p.last = g.last;
  return p;
}

// n cut into equal parts of at most `most`, and of whole `unit`s.
int64_t part(int64_t n, int64_t most, int64_t unit) {
  int64_t parts = (n + most - 1) / most;
  return ((n + parts - 1) / parts + unit - 1) / unit * unit;
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
