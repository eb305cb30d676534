// The transposition of a square of vectors, in registers; for *.isa.cpp files.
#pragma once
#include <utility>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

// Exchanges, between rows `apart` from each other, the elements whose column differs in that bit.
template <class T, int apart, int... column>
void exchange(vec<T>* rows, std::integer_sequence<int, column...>) {
  constexpr int n = Vector<T>::lanes;
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) {
    if (r & apart) continue;
    vec<T> a = rows[r], b = rows[r + apart];
    rows[r] = __builtin_shufflevector(a, b, (column & apart ? n + column - apart : column)...);
    rows[r + apart] =
        __builtin_shufflevector(a, b, (column & apart ? n + column : column + apart)...);
  }
}

// to[c * to_step + r] = from[r * from_step + c] for as many rows and columns as a vector has lanes:
// elements of 4 or 8 bytes.
template <class T>
void transpose_square(const T* from, int64_t from_step, T* to, int64_t to_step) {
  constexpr int lanes = Vector<T>::lanes;
  constexpr auto columns = std::make_integer_sequence<int, lanes>();
  vec<T> rows[lanes];
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) rows[r] = load(from + r * from_step);
  exchange<T, 1>(rows, columns);
  if constexpr (lanes > 2) exchange<T, 2>(rows, columns);
  if constexpr (lanes > 4) exchange<T, 4>(rows, columns);
  if constexpr (lanes > 8) exchange<T, 8>(rows, columns);
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) store(to + r * to_step, rows[r]);
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
