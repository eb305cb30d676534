// The transposition of a square of elements, in registers; for *.isa.cpp files.
#pragma once
#include <utility>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

// The lanes of rows i and i + n / 2 in turn, for each i of n rows, in each 16 bytes of a vector:
// after log2(n) times, n being the elements of 16 bytes, their rows are columns.
template <int n, int times, class V, int... lane>
RL_INLINE void interleave(V* rows, std::integer_sequence<int, lane...> all) {
  constexpr int half = n / 2, width = sizeof...(lane);
  V next[n];
#pragma GCC unroll 8
  for (int i = 0; i < half; ++i) {
    V a = rows[i], b = rows[i + half];
    next[2 * i] = shuffle<(lane / n * n + lane % n / 2 + lane % 2 * width)...>(a, b);
    next[2 * i + 1] = shuffle<(lane / n * n + half + lane % n / 2 + lane % 2 * width)...>(a, b);
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) rows[i] = next[i];
  if constexpr (2 * times < n) interleave<n, 2 * times>(rows, all);
}

// The side of the squares: as many elements as a vector holds, and of small ones 16.
template <class T> constexpr int square_side =
    vector_bytes / sizeof(T) < 16 ? vector_bytes / sizeof(T) : 16;

// Element (c, r) of `to` becomes element (r, c) of `from`; steps in bytes.
template <class T, bool streamed = false>
void transpose_square(const char* from, int64_t from_row, char* to, int64_t to_row) {
  constexpr int side = square_side<T>, n = 16 / sizeof(T);
  using V = vec<T, side * sizeof(T)>;
  V rows[side];
  // All pieces of a row together: where rows lie a power of two apart, they displace each other.
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r)
#pragma GCC unroll 4
    for (int part = 0; part < side; part += n)
      rows[part + r] = load_pieces<V>(from + r * from_row + part * int(sizeof(T)), n * from_row);
#pragma GCC unroll 4
  for (int part = 0; part < side; part += n)
    interleave<n, 1>(rows + part, std::make_integer_sequence<int, side>());
#pragma GCC unroll 16
  for (int r = 0; r < side; ++r) {
    if constexpr (streamed) stream(to + r * to_row, rows[r]);
    else std::memcpy(to + r * to_row, &rows[r], sizeof(V));
  }
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
