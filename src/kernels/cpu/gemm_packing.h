// Blocks of both matrices of a product, copied into the order in which its tiles read them; for
// *.isa.cpp files.
#pragma once
#include "kernels/cpu/gemm_problem.h"
#include "kernels/cpu/transpose_square.h"

namespace rl::kernels::RL_ISA {
namespace {

// How many of the `left` vectors the next tile takes: one alone would be slow.
template <class T> int64_t next_width(int64_t left) {
  constexpr int most = width_of<T>;
  return left > most + 1 || left == most ? most : left > 1 ? 2 : 1;
}

// Rows [k, last) of the panel that starts at b, as wide as a tile, padded with zeros.
template <class T> void pack_panel(const Problem<T>& p, const T* b, int64_t k, int64_t last,
                                   int64_t columns, int64_t width, T* to) {
  int64_t used = std::min(columns, width);
  if constexpr (complex<T>) {
    using R = RealOf<T>;
    for (; k < last; ++k) {
      R *real = reinterpret_cast<R*>(to + k * width), *imaginary = real + width;
      int64_t j = 0;
      if (p.b_col == 1)
        for (; j + lanes<T> <= used; j += lanes<T>) {
          Parts<R> parts = load_pairs(reinterpret_cast<const R*>(b + k * p.b_row + j));
          store(real + j, parts.real);
          store(imaginary + j, parts.imaginary);
        }
      for (; j < width; ++j) {
        T x = j < used ? b[k * p.b_row + j * p.b_col] : T(0);
        real[j] = x.real();
        imaginary[j] = x.imag();
      }
    }
    return;
  }
  if constexpr (!complex<T> && sizeof(T) >= 4) {
    constexpr int64_t n = lanes<T>, item = sizeof(T);
    if (p.b_row == 1 && used == width)
      for (; k + n <= last; k += n)
        for (int64_t j = 0; j < width; j += n)
          transpose_square<T>(reinterpret_cast<const char*>(b + k + j * p.b_col), p.b_col * item,
                              reinterpret_cast<char*>(to + k * width + j), width * item);
  }
  for (int64_t j = 0; j < used; ++j)
    for (int64_t i = k; i < last; ++i) to[i * width + j] = b[i * p.b_row + j * p.b_col];
  if (used < width)
    for (; k < last; ++k) std::fill(to + k * width + used, to + (k + 1) * width, T(0));
}

// Columns [0, columns) of the rows [first, last) of the `depth` that start at b, as panels as wide
// as the tiles that will read them.
template <class T> void pack_right(const Problem<T>& p, const T* b, int64_t first, int64_t last,
                                   int64_t depth, int64_t columns, T* to) {
  constexpr int64_t n = lanes<T>;
  int64_t vectors = (columns + n - 1) / n, v = 0;
  if (!complex<T> && p.b_col == 1) {  // along the rows, as memory lies
    int64_t whole = columns / n;
    for (int64_t k = first; k < last; ++k) {
      const T* from = b + k * p.b_row;
      for (int64_t w, at = 0; at < vectors; at += w) {
        w = next_width<T>(vectors - at);
        T* row = to + at * n * depth + k * w * n;
        for (int64_t x = 0; x < w; ++x)
          if (at + x < whole)
            std::memcpy(static_cast<void*>(row + x * n), from + (at + x) * n, n * sizeof(T));
          else
            for (int64_t j = 0; j < n; ++j)
              row[x * n + j] = (at + x) * n + j < columns ? from[(at + x) * n + j] : T(0);
      }
    }
    return;
  }
  for (int64_t w; v < vectors; v += w) {
    w = next_width<T>(vectors - v);
    pack_panel(p, b + v * n * p.b_col, first, last, columns - v * n, w * n, to + v * n * depth);
  }
}

template <class T> void pack_left(const Problem<T>& p, const T* a, int64_t rows, int64_t depth,
                                  T* to) {
  constexpr int64_t panel = rows_of<T>;
  // A line of the cache holds parts of so many panels.
  constexpr int64_t together = std::max<int64_t>(1, 64 / (panel * int64_t(sizeof(T))));
  int64_t i = 0;
  if (together > 1 && p.a_row == 1)
    for (; i + together * panel <= rows; i += together * panel, to += together * panel * depth)
      for (int64_t k = 0; k < depth; ++k)
#pragma GCC unroll 8
        for (int64_t x = 0; x < together; ++x)
          std::memcpy(static_cast<void*>(to + x * panel * depth + k * panel),
                      a + i + x * panel + k * p.a_col, panel * sizeof(T));
  for (; i < rows; i += panel, to += panel * depth) {
    int64_t used = std::min(panel, rows - i);
    const T* from = a + i * p.a_row;
    if (used == panel && p.a_row == 1)
      for (int64_t k = 0; k < depth; ++k)
        std::memcpy(static_cast<void*>(to + k * panel), from + k * p.a_col, panel * sizeof(T));
    else if (used == panel)
      for (int64_t k = 0; k < depth; ++k)
#pragma GCC unroll 16
        for (int64_t r = 0; r < panel; ++r) to[k * panel + r] = from[r * p.a_row + k * p.a_col];
    else
      for (int64_t r = 0; r < used; ++r)
        for (int64_t k = 0; k < depth; ++k) to[k * panel + r] = from[r * p.a_row + k * p.a_col];
  }
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
