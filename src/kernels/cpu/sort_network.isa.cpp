#include "kernels/cpu/sort_network.h"

#include <type_traits>

#include "math/arithmetic.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class Key> void find_range(const Key* keys, int64_t count, KeyRange* range) {
  Key least = keys[0], greatest = keys[0], differing = 0;
  const Key first = keys[0];
  for (int64_t i = 0; i < count; ++i) {
    least = keys[i] < least ? keys[i] : least;
    greatest = keys[i] > greatest ? keys[i] : greatest;
    differing |= keys[i] ^ first;
  }
  *range = {least, greatest, differing};
}

template <class Key, class Packed>
void pack_rows(const Key* keys, const Packing& packing, int64_t n, int64_t width, Packed* packed) {
  using Bits = std::make_unsigned_t<Packed>;
  const Bits least = static_cast<Bits>(packing.least);
  const int shift = packing.shift;
  for (int64_t j = 0; j < n; ++j, keys += width, packed += width)
    for (int64_t k = 0; k < width; ++k) {
      Bits high = (keys[k] - least) << shift >> 1 & ~static_cast<Bits>(Packing::last_place);
      packed[k] = static_cast<Packed>(high | static_cast<Bits>(j));
    }
}

// Puts the lesser key of each pair into the first of two arrays and the greater into the second.
template <class T> void compare_exchange(T* first, T* second, int64_t count) {
  RL_INDEPENDENT
  for (int64_t k = 0; k < count; ++k) {
    T a = first[k], b = second[k];
    first[k] = a < b ? a : b;
    second[k] = a < b ? b : a;
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

template <class T> void sort_columns(T* packed, int64_t n, int64_t width) {
  for_each_comparison(n, [&](int64_t i, int64_t j, int64_t count) {
    compare_exchange(packed + i * width, packed + j * width, count * width);
  });
}

}  // namespace

void find_range_narrow(const uint32_t* keys, int64_t count, KeyRange* range) {
  find_range(keys, count, range);
}
void find_range_wide(const uint64_t* keys, int64_t count, KeyRange* range) {
  find_range(keys, count, range);
}
void pack_rows_narrow(const uint32_t* keys, const Packing& packing, int64_t n, int64_t width,
                      int32_t* packed) {
  pack_rows(keys, packing, n, width, packed);
}
void pack_rows_widened(const uint32_t* keys, const Packing& packing, int64_t n, int64_t width,
                       int64_t* packed) {
  pack_rows(keys, packing, n, width, packed);
}
void pack_rows_wide(const uint64_t* keys, const Packing& packing, int64_t n, int64_t width,
                    int64_t* packed) {
  pack_rows(keys, packing, n, width, packed);
}
void sort_columns_narrow(int32_t* packed, int64_t n, int64_t width) {
  sort_columns(packed, n, width);
}
void sort_columns_wide(int64_t* packed, int64_t n, int64_t width) {
  sort_columns(packed, n, width);
}

void find_equals(const int64_t* keys, int shift, int64_t n, int64_t width, bool* found) {
  int64_t any = 0;
  for (int64_t i = 0; i < (n - 1) * width; ++i) any |= ((keys[i] ^ keys[i + width]) >> shift) == 0;
  *found = any != 0;
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
