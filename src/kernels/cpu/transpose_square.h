// The transposition of a square of elements, in registers; for *.isa.cpp files.
#pragma once
#include <utility>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

// Exchanges, between rows `apart` from each other, the elements whose column differs in that bit.
template <int apart, class V, int... column>
void exchange(V* rows, std::integer_sequence<int, column...>) {
  constexpr int n = sizeof...(column);
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) {
    if (r & apart) continue;
    V a = rows[r], b = rows[r + apart];
    rows[r] = shuffle<(column & apart ? n + column - apart : column)...>(a, b);
    rows[r + apart] = shuffle<(column & apart ? n + column : column + apart)...>(a, b);
  }
}

// The lanes of rows i and i + n / 2 in turn, for each i: after log2(n) times, rows are columns.
template <int times, class V, int... column>
void interleave(V* rows, std::integer_sequence<int, column...> all) {
  constexpr int n = sizeof...(column), half = n / 2;
  V next[n];
#pragma GCC unroll 8
  for (int i = 0; i < half; ++i) {
    V a = rows[i], b = rows[i + half];
    next[2 * i] = shuffle<(column / 2 + column % 2 * n)...>(a, b);
    next[2 * i + 1] = shuffle<(half + column / 2 + column % 2 * n)...>(a, b);
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) rows[i] = next[i];
  if constexpr (2 * times < n) interleave<2 * times>(rows, all);
}

// The side of the squares: as many elements as a vector holds, and of small ones 16.
template <class T> constexpr int square_side =
    vector_bytes / sizeof(T) < 16 ? vector_bytes / sizeof(T) : 16;

// Element (c, r) of `to` becomes element (r, c) of `from`; steps in bytes.
template <class T, bool streamed = false>
void transpose_square(const char* from, int64_t from_row, char* to, int64_t to_row) {
  constexpr int n = square_side<T>;
  constexpr auto columns = std::make_integer_sequence<int, n>();
  using V = vec<T, n * sizeof(T)>;
  V rows[n];
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) std::memcpy(&rows[r], from + r * from_row, sizeof(V));
  if constexpr (sizeof(V) == 16) {
    interleave<1>(rows, columns);
  } else {
    exchange<1>(rows, columns);
    if constexpr (n > 2) exchange<2>(rows, columns);
    if constexpr (n > 4) exchange<4>(rows, columns);
    if constexpr (n > 8) exchange<8>(rows, columns);
  }
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) {
    if constexpr (streamed) stream(to + r * to_row, rows[r]);
    else std::memcpy(to + r * to_row, &rows[r], sizeof(V));
  }
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
