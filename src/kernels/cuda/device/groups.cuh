// Products with rows of small integers that have a scale for each group of neighbours.
#pragma once
#include "kernels/cuda/device/groups.h"
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

// Word `place` of a row of integers: four of 8 bits, or eight of 4 bits and 8 too large, the first
// in the lowest bits. All are of one group.
template <bool four_bits> struct Word {
  static constexpr int count = four_bits ? 8 : 4;
  float values[count];

  __device__ Word(const GroupDots& p, int64_t column, int64_t place) {
    uint32_t word = p.integers[column * (p.terms / count) + place];
    float scale = p.scales[column * (p.terms / p.group) + place * count / p.group];
    for (int j = 0; j < count; ++j) {
      int value = four_bits ? static_cast<int>(word >> 4 * j & 15u) - 8
                            : static_cast<int>(static_cast<int8_t>(word >> 8 * j & 255u));
      values[j] = static_cast<float>(value) * scale;
    }
  }
};

// A warp takes a column, and up to 8 rows together.
template <bool four_bits> __global__ void group_dots(GroupDots p) {
  constexpr int together = 8, count = Word<four_bits>::count;
  int lane = static_cast<int>(threadIdx.x & 31);
  int64_t tasks = p.columns * ((p.rows + together - 1) / together), words = p.terms / count;
  for (int64_t task = thread_id() / 32; task < tasks; task += thread_count() / 32) {
    int64_t column = task % p.columns, first = task / p.columns * together;
    float sums[together] = {};
    for (int64_t k = lane; k < words; k += 32) {
      Word<four_bits> word(p, column, k);
      for (int r = 0; r < together; ++r) {
        if (first + r >= p.rows) break;
        const float* x = p.x + (first + r) * p.terms + k * count;
        for (int j = 0; j < count; ++j) sums[r] = math::plus_product(sums[r], x[j], word.values[j]);
      }
    }
    for (int r = 0; r < together; ++r) {
      for (int step = 16; step > 0; step /= 2) sums[r] += shuffle_down(sums[r], step);
      if (lane == 0 && first + r < p.rows) p.out[(first + r) * p.columns + column] = sums[r];
    }
  }
}

// The matrix of integers itself, as floats.
template <bool four_bits> __global__ void group_values(GroupDots p) {
  constexpr int count = Word<four_bits>::count;
  int64_t words = p.terms / count;
  for (int64_t i = thread_id(); i < p.columns * words; i += thread_count()) {
    Word<four_bits> word(p, i / words, i % words);
    for (int j = 0; j < count; ++j) p.out[i * count + j] = word.values[j];
  }
}

}  // namespace rl::cuda
