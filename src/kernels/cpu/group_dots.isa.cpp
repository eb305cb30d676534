#include "kernels/cpu/group_dots.h"

#include <algorithm>

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int64_t half_block = group_block / 2, width = Vector<float>::lanes;

struct Pair {
  vec<float> first, second;  // of the halves of a block
};
vec<float> to_floats(vec<int32_t> v) { return __builtin_convertvector(v, vec<float>); }

// Those of lanes i of both halves of block b.
Pair weights_at(const int8_t* row, int64_t b, int64_t i) {
  const int8_t* p = row + b * group_block + i;
  return {to_floats(widened_bytes(p)), to_floats(widened_bytes(p + half_block))};
}
Pair weights_at(const uint8_t* row, int64_t b, int64_t i) {
  vec<int32_t> both = widened_bytes(row + b * half_block + i);
  return {to_floats((both & 15) - 8), to_floats((both >> 4) - 8)};
}

// `rows` rows from `row` on, by column j.
template <int rows, class W> void tile(const GroupDots& p, int64_t row, int64_t j) {
  const int64_t blocks = p.group / group_block, groups = p.terms / p.group;
  const int64_t bytes = p.terms / (std::is_same_v<W, uint8_t> ? 2 : 1);
  const W* weights = static_cast<const W*>(p.weights) + j * bytes;
  const float* x = p.x + row * p.terms;
  vec<float> totals[rows] = {};
  for (int64_t g = 0; g < groups; ++g) {
    vec<float> first[rows] = {}, second[rows] = {};
    for (int64_t b = g * blocks; b < (g + 1) * blocks; ++b)
#pragma GCC unroll 4
      for (int64_t i = 0; i < half_block; i += width) {
        Pair w = weights_at(weights, b, i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
          const float* at = x + r * p.terms + b * group_block + i;
          first[r] = mul_add(load(at), w.first, first[r]);
          second[r] = mul_add(load(at + half_block), w.second, second[r]);
        }
      }
    const float scale = p.scales[j * groups + g];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) totals[r] = mul_add(first[r] + second[r], scale, totals[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    float sum;
    fold_lanes<Add, float>(totals[r], &sum);
    p.out[(row + r) * p.columns + j] = sum;
  }
}

// As many rows at a time as stay in the first cache while all columns pass them: 32 rows of 768
// took twice as long otherwise.
template <class W> void columns(const GroupDots& p, int64_t begin, int64_t end) {
  constexpr int64_t cached_floats = 12288;
  int64_t together = std::max<int64_t>(4, cached_floats / p.terms / 4 * 4);
  for (int64_t first = 0; first < p.rows; first += together) {
    int64_t last = std::min(p.rows, first + together);
    for (int64_t j = begin; j < end; ++j) {
      int64_t row = first;
      for (; row + 4 <= last; row += 4) tile<4, W>(p, row, j);
      for (; row < last; ++row) tile<1, W>(p, row, j);
    }
  }
}

}  // namespace

void group_dots(const GroupDots& p, int64_t begin, int64_t end) {
  p.four_bits ? columns<uint8_t>(p, begin, end) : columns<int8_t>(p, begin, end);
}

}  // namespace rl::kernels::RL_ISA
