// Where the sums of a product go; for *.isa.cpp files.
#pragma once
#include "kernels/cpu/gemm_problem.h"

namespace rl::kernels::RL_ISA {
namespace {

// A line of sums to its place, beside what is added; neither has steps.
template <class T> void put_line(const T* values, int64_t i, int64_t columns, const Target<T>& t) {
  constexpr int64_t n = complex<T> ? max_numel : lanes<T>;
  T* c = t.c + i * t.row;
  const T* added = t.added + i * t.added_row;
  int64_t j = 0;
  if constexpr (!complex<T>)
    for (; j + n <= columns; j += n) {
      vec<T> sum = load(values + j) * t.alpha;
      if (t.beta != T(0)) sum = mul_add(load(added + j), t.beta, sum);
      store(c + j, sum);
    }
  for (; j < columns; ++j) {
    T sum = scaled(t.alpha, values[j]);
    c[j] = t.beta != T(0) ? plus_scaled(sum, t.beta, added[j]) : sum;
  }
}

template <class T>
void put_finished_tile(T* values, int64_t rows, int64_t row, int64_t columns, const Target<T>& t);

template <class T> [[gnu::noinline]] void put_tile(T* values, int64_t rows, int64_t row,
                                                   int64_t columns, const Target<T>& t) {
  if (t.ends()) return put_finished_tile(values, rows, row, columns, t);
  if (t.col == 1 && (t.beta == T(0) || t.added_col == 1))
    for (int64_t i = 0; i < rows; ++i) put_line(values + i * row, i, columns, t);
  else if (t.row < t.col)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) t.put(i, j, values[i * row + j]);
  else
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) t.put(i, j, values[i * row + j]);
}

// A tile of floats that lie as their 16-bit floats will.
[[gnu::noinline]] inline void round_tile(const float* values, int64_t rows, int64_t row,
                                         int64_t columns, const Target<float>& t) {
  constexpr int64_t n = Vector<float>::lanes;
  with_rounded(t.rounded, 0, 0, [&](auto* first) {
    for (int64_t i = 0; i < rows; ++i) {
      const float *from = values + i * row, *added = t.added + i * t.added_row;
      auto* to = first + i * t.rounded.row;
      int64_t j = 0;
      for (; j < columns; j += n) {
        int64_t count = std::min(n, columns - j);
        vec<float> sum = load_part(from + j, count) * t.alpha;
        if (t.beta != 0) sum = mul_add(load_part(added + j, count), t.beta, sum);
        std::remove_reference_t<decltype(*to)> near[n];
        store_narrow(near, sum);
        std::memcpy(static_cast<void*>(to + j), near, static_cast<size_t>(count) * sizeof *near);
      }
    }
  });
}

// Of a tile of floats that is rounded, row by row: one element at a time took 40 % of the product
// of 32 rows by the transpose of a matrix 768 wide.
[[gnu::noinline]] void put_rounded_tile(float* values, int64_t rows, int64_t row, int64_t columns,
                                        const Target<float>& t) {
  for (int64_t i = 0; i < rows; ++i) {
    float* line = values + i * row;
    const float* added = t.added + i * t.added_row;
    if (t.alpha != 1)
      for (int64_t j = 0; j < columns; ++j) line[j] *= t.alpha;
    if (t.beta != 0 && t.added_col == 0)
      for (int64_t j = 0; j < columns; ++j) line[j] = mul_add(t.beta, *added, line[j]);
    else if (t.beta != 0 && t.added_col == 1)
      for (int64_t j = 0; j < columns; ++j) line[j] = mul_add(t.beta, added[j], line[j]);
    else if (t.beta != 0)
      for (int64_t j = 0; j < columns; ++j)
        line[j] = mul_add(t.beta, added[j * t.added_col], line[j]);
    t.finish_line(line, columns);
  }
  round_rows(t.rounded, values, row, rows, columns);
}

template <class T> [[gnu::noinline]] void put_finished_tile(T* values, int64_t rows, int64_t row,
                                                            int64_t columns, const Target<T>& t) {
  if constexpr (std::is_same_v<T, float>)
    if (t.rounded.data) {
      bool plain = !t.finish && t.rounded.col == 1 && (t.beta == 0 || t.added_col == 1);
      return plain ? round_tile(values, rows, row, columns, t)
                   : put_rounded_tile(values, rows, row, columns, t);
    }
  Target<T> here = t;
  here.c = values, here.row = row, here.col = 1, here.finish = nullptr;
  put_tile(values, rows, row, columns, here);
  for (int64_t i = 0; i < rows; ++i) t.finish_line(values + i * row, columns);
  put_tile(values, rows, row, columns, Target<T>{t.c, t.row, t.col, t.c, 0, 0, 1, 0});
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
