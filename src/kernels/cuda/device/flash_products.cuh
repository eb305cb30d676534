// How the blocks of flash_attention.cuh multiply: their shape, where tiles lie in shared memory, and
// the two products that attention is made of. Each warp has 16 rows.
#pragma once
#include "kernels/cuda/device/warpgroup.cuh"

namespace rl::cuda {

// Four warps for themselves, of compute capability 8.0, with `tiles` times 16 rows each. Rows have 8
// elements behind them, so that the rows of a fragment are in other banks.
template <class T, int width, int tiles_of_warp> struct WarpProducts {
  static constexpr int threads = 128, tiles = tiles_of_warp, rows = 64 * tiles;

  template <int count> static constexpr int size = count * (width + 8);
  template <int count> static __device__ unsigned place(unsigned row, unsigned column) {
    return row * (width + 8) + column;
  }
  static __device__ void begin() {}
  template <class... Sums> static __device__ void end(Sums&...) {}
  static __device__ void show() {}

  // The warp's rows of a matrix of `rows` rows: in registers, for products that repeat.
  struct Left {
    FragmentA parts[tiles][width / 16];
    __device__ explicit Left(const T* matrix) {
#pragma unroll
      for (int t = 0; t < tiles; ++t)
#pragma unroll
        for (int k = 0; k < width / 16; ++k)
          parts[t][k] = load_a(matrix, width + 8, (threadIdx.x / 32 * tiles + t) * 16, k * 16);
    }
  };

  // sums = those times the transpose of b, of 16 `tiles` rows and `columns` columns.
  template <int columns>
  static __device__ void multiply(float (&sums)[tiles][columns / 8][4], const Left& a, const T* b) {
    multiply_fragments<columns>(sums, [&](int t, int k) { return a.parts[t][k / 16]; }, b);
  }
  // The same of the warp's rows of a, a matrix of `rows` rows.
  template <int columns>
  static __device__ void multiply(float (&sums)[tiles][columns / 8][4], const T* a, const T* b) {
    int first = threadIdx.x / 32 * 16 * tiles;
    multiply_fragments<columns>(
        sums, [&](int t, int k) { return load_a(a, width + 8, first + t * 16, k); }, b);
  }
  // sums += weights (as fragments) times b, of `columns` rows.
  template <int columns>
  static __device__ void add_weighted(float (&sums)[tiles][width / 8][4],
                                      const FragmentA (&weights)[tiles][columns / 16],
                                      const T* b) {
#pragma unroll
    for (int k = 0; k < columns / 16; ++k)
#pragma unroll
      for (int n = 0; n < width; n += 16) {
        FragmentsB right = load_columns(b, width + 8, k * 16, n);
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
          multiply_add<T>(sums[t][n / 8], weights[t][k], right.first);
          multiply_add<T>(sums[t][n / 8 + 1], weights[t][k], right.second);
        }
      }
  }

 private:
  template <int columns, class Left>
  static __device__ void multiply_fragments(float (&sums)[tiles][columns / 8][4], const Left& left,
                                            const T* b) {
#pragma unroll
    for (int t = 0; t < tiles; ++t)
#pragma unroll
      for (int n = 0; n < columns / 8; ++n)
        for (int i = 0; i < 4; ++i) sums[t][n][i] = 0;
#pragma unroll
    for (int k = 0; k < width; k += 16) {
      FragmentA own[tiles];
#pragma unroll
      for (int t = 0; t < tiles; ++t) own[t] = left(t, k);
#pragma unroll
      for (int n = 0; n < columns; n += 16) {
        FragmentsB right = load_rows_as_columns(b, width + 8, n, k);
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
          multiply_add<T>(sums[t][n / 8], own[t], right.first);
          multiply_add<T>(sums[t][n / 8 + 1], own[t], right.second);
        }
      }
    }
  }
};

// `groups` warpgroups, of compute capability 9.0. Products run on while the thread does, from begin()
// to end().
template <class T, int width, int groups> struct GroupProducts {
  static constexpr int threads = 128 * groups, tiles = 1, rows = 64 * groups;

  template <int count> static constexpr int size = count * width;
  template <int count> static __device__ unsigned place(unsigned row, unsigned column) {
    return group_place<count>(row, column);
  }
  static __device__ void begin() { begin_products(); }
  template <class... Sums> static __device__ void end(Sums&... sums) {
    end_products();
    (settle(sums[0]), ...);
  }
  static __device__ void show() { show_to_products(); }
  // In shared memory: registers that products have read are not kept for the next ones by ptxas 13.0.
  using Left = const T*;

  template <int columns>
  static __device__ void multiply(float (&sums)[1][columns / 8][4], const T* a, const T* b) {
#pragma unroll
    for (int k = 0; k < width; k += 16)
      group_multiply_add<T, rows, columns>(sums[0], a, threadIdx.x / 128 * 64, b, k, k > 0);
  }
  template <int columns>
  static __device__ void add_weighted(float (&sums)[1][width / 8][4],
                                      const FragmentA (&weights)[1][columns / 16], const T* b) {
#pragma unroll
    for (int k = 0; k < columns; k += 16)
      group_multiply_add<T, columns>(sums[0], weights[0][k / 16], b, k, true);
  }
};

// Weights, two neighbours a word, as fragments.
template <class T, int tiles, int n>
__device__ void pack_weights(FragmentA (&packed)[tiles][n / 2], const float (&weights)[tiles][n][4]) {
#pragma unroll
  for (int t = 0; t < tiles; ++t)
#pragma unroll
    for (int k = 0; k < n / 2; ++k) {
      const float(&low)[4] = weights[t][2 * k], (&high)[4] = weights[t][2 * k + 1];
      packed[t][k] = {{pack_pair<T>(low[0], low[1]), pack_pair<T>(low[2], low[3]),
                       pack_pair<T>(high[0], high[1]), pack_pair<T>(high[2], high[3])}};
    }
}

}  // namespace rl::cuda
