#include "kernels/cpu/sort_network.h"

#include "math/arithmetic.h"

namespace rl::kernels::RL_ISA {
namespace {

// Puts the lesser key of each pair into the first of two arrays and the greater into the second.
void compare_exchange(int64_t* first, int64_t* second, int64_t count) {
  RL_INDEPENDENT
  for (int64_t k = 0; k < count; ++k) {
    int64_t a = first[k], b = second[k];
    first[k] = a < b ? a : b;
    second[k] = a < b ? b : a;
  }
}

void compare_exchange(int64_t* first, int64_t* second, int64_t* first_place, int64_t* second_place,
                      int64_t count) {
  RL_INDEPENDENT
  for (int64_t k = 0; k < count; ++k) {
    int64_t a = first[k], b = second[k], a_place = first_place[k], b_place = second_place[k];
    bool ordered = (a < b) | ((a == b) & (a_place < b_place));
    first[k] = ordered ? a : b;
    second[k] = ordered ? b : a;
    first_place[k] = ordered ? a_place : b_place;
    second_place[k] = ordered ? b_place : a_place;
  }
}

// f(i, j, count) for rows i, i + 1, ... that are to be compared with rows j, j + 1, ...: Batcher's
// odd-even merge sort of n rows (Knuth, The Art of Computer Programming 3, algorithm 5.2.2 M).
template <class F> void for_each_comparison(int64_t n, F&& f) {
  int64_t top = 1;
  while (2 * top < n) top *= 2;
  for (int64_t p = top; p > 0; p /= 2) {
    int64_t distance = p, rest = 0;
    for (int64_t q = top;; q /= 2) {
      for (int64_t i = rest; i < n - distance; i += 2 * p)
        f(i, i + distance, p < n - distance - i ? p : n - distance - i);
      if (q == p) break;
      distance = q - p;
      rest = p;
    }
  }
}

}  // namespace

void sort_columns(int64_t* keys, int64_t* places, int64_t n, int64_t width) {
  for_each_comparison(n, [&](int64_t i, int64_t j, int64_t count) {
    i *= width, j *= width, count *= width;
    if (places) compare_exchange(keys + i, keys + j, places + i, places + j, count);
    else compare_exchange(keys + i, keys + j, count);
  });
}

void count_columns(const int64_t* keys, int64_t last, int64_t n, int64_t width, int64_t* counts) {
  for (int64_t k = 0; k < width; ++k) counts[k] = 0;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t k = 0; k < width; ++k) counts[k] += keys[j * width + k] <= last;
}

void longest_runs(const int64_t* keys, int shift, int64_t last, int64_t n, int64_t width,
                  int64_t* rows) {
  constexpr int64_t block = 64;
  for (int64_t first = 0; first < width; first += block) {
    int64_t m = width - first < block ? width - first : block;
    int64_t length[block], longest[block], row[block];
    for (int64_t k = 0; k < m; ++k) length[k] = longest[k] = 1, row[k] = 0;
    for (int64_t j = 1; j < n; ++j) {
      const int64_t *key = keys + j * width + first, *before = key - width;
      RL_INDEPENDENT
      for (int64_t k = 0; k < m; ++k) {
        int64_t now = key[k], difference = (now ^ before[k]) >> shift;
        int64_t extended = length[k] + 1;
        length[k] = difference == 0 ? extended : 1;
        length[k] = now <= last ? length[k] : 1;
        bool longer = length[k] > longest[k];
        longest[k] = longer ? length[k] : longest[k];
        row[k] = longer ? j : row[k];
      }
    }
    for (int64_t k = 0; k < m; ++k) rows[first + k] = row[k];
  }
}

}  // namespace rl::kernels::RL_ISA
