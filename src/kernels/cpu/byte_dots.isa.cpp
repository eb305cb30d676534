#include "kernels/cpu/byte_dots.h"

#include <algorithm>

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

// The sum of so many products is exact in 32 bits.
constexpr int64_t exact_terms = int64_t(1) << 15;

template <class A> uint32_t dot(const A* a, const int8_t* b, int64_t terms) {
  uint32_t all = 0;
  for (int64_t first = 0; first < terms; first += exact_terms) {
    int64_t last = std::min(terms, first + exact_terms);
    int32_t sum = 0;
    for (int64_t k = first; k < last; ++k) sum += int32_t(a[k]) * int32_t(b[k]);
    all += static_cast<uint32_t>(sum);
  }
  return all;
}

template <class A> void columns(const ByteDots& p, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j)
    for (int64_t i = 0; i < p.rows; ++i)
      p.out[i * p.out_row + j] = static_cast<int32_t>(
          dot(static_cast<const A*>(p.a) + i * p.a_row, p.b + j * p.b_row, p.terms));
}

// ---- by the processor's products of groups of bytes, of which the first are unsigned ----

using Sums = vec<uint32_t>;

// Signed rows are raised by 128, which adds 128 times the sum of a column.
template <int rows, int width, bool is_signed>
void tile(const ByteDots& p, int64_t i, int64_t j) {
  const Sums raise = Sums{} + 0x80808080u;
  const char *a = static_cast<const char*>(p.a) + i * p.a_row,
             *b = reinterpret_cast<const char*>(p.b) + j * p.b_row;
  Sums sums[rows][width] = {}, raised[width] = {};
  auto step = [&](auto read) {
    Sums down[width];
#pragma GCC unroll 4
    for (int c = 0; c < width; ++c) {
      down[c] = read(b + c * p.b_row);
      if constexpr (is_signed) raised[c] = add_byte_groups(raised[c], raise, down[c]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      Sums across = read(a + r * p.a_row);
      if constexpr (is_signed) across ^= raise;
#pragma GCC unroll 4
      for (int c = 0; c < width; ++c) sums[r][c] = add_byte_groups(sums[r][c], across, down[c]);
    }
    a += vector_bytes;
    b += vector_bytes;
  };
  auto read_part = [](int64_t bytes) {
    return [bytes](const char* from) {
      Sums v = {};
      std::memcpy(&v, from, static_cast<size_t>(bytes));
      return v;
    };
  };
  int64_t k = p.terms;
  for (; k >= vector_bytes; k -= vector_bytes) step(read_part(vector_bytes));
  if (k > 0) step(read_part(k));
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < width; ++c) {
      uint32_t sum;
      fold_lanes<Add, uint32_t>(sums[r][c] - raised[c], &sum);
      p.out[(i + r) * p.out_row + j + c] = static_cast<int32_t>(sum);
    }
}

template <int width, bool is_signed> void tiles(const ByteDots& p, int64_t j) {
  int64_t i = 0;
  for (; i + 4 <= p.rows; i += 4) tile<4, width, is_signed>(p, i, j);
  for (; i < p.rows; ++i) tile<1, width, is_signed>(p, i, j);
}

template <bool is_signed>
[[maybe_unused]] void tiled_columns(const ByteDots& p, int64_t begin, int64_t end) {
  for (; begin + 4 <= end; begin += 4) tiles<4, is_signed>(p, begin);
  for (; begin < end; ++begin) tiles<1, is_signed>(p, begin);
}

}  // namespace

void byte_dots(const ByteDots& p, int64_t begin, int64_t end) {
  if constexpr (vector_registers == 32) {  // of the sets that may have such products
    if (p.by_groups)
      return p.is_signed ? tiled_columns<true>(p, begin, end) : tiled_columns<false>(p, begin, end);
  }
  p.is_signed ? columns<int8_t>(p, begin, end) : columns<uint8_t>(p, begin, end);
}

}  // namespace rl::kernels::RL_ISA
