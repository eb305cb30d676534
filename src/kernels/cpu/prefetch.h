// Rows of a table, in any order, that are asked for before they are needed: the processor finds
// only those that follow each other. Sums into 8192 rows of 128 floats took 5 times as long
// without.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace rl::kernels {

inline constexpr int prefetched_rows = 8;  // how far ahead

// Of a row that will be written: its first lines. The processor finds the rest of a long one.
inline void prefetch_row(const char* row, int64_t bytes) {
  constexpr int64_t cache_line = 64, most = 1024;
  int64_t n = std::min(std::abs(bytes), most);
  for (int64_t i = 0; i < n; i += cache_line) __builtin_prefetch(bytes < 0 ? row - i : row + i, 1);
}

}  // namespace rl::kernels
