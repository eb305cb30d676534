// Matrix products of any strides, in batches: 64 by 64 tiles of the result, 16 of the depth at a
// time, 4 by 4 elements a thread; and for small ones a thread an element.
#pragma once
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

// Lines of neighbours to where lines lie at other steps; a thread has eight elements of a line.
template <class T>
__global__ void copy_lines(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t lines,
                           int64_t length) {
  constexpr int each = 8;
  for (int64_t line = blockIdx.y; line < lines; line += gridDim.y)
    for (int64_t begin = blockIdx.x * blockDim.x * each + threadIdx.x; begin < length;
         begin += static_cast<int64_t>(gridDim.x) * blockDim.x * each) {
      T values[each];
#pragma unroll
      for (int k = 0; k < each; ++k) {
        int64_t i = begin + k * blockDim.x;
        if (i < length) values[k] = from[line * from_step + i];
      }
#pragma unroll
      for (int k = 0; k < each; ++k) {
        int64_t i = begin + k * blockDim.x;
        if (i < length) to[line * to_step + i] = values[k];
      }
    }
}

template <class T> struct Multiply {
  using C = compute_t<T>;
  static __device__ C load(const T* p) { return static_cast<C>(*p); }
  static __device__ C add(C sum, C x, C y) {
    if constexpr (std::is_integral_v<C>) {
      using U = math::wrapping_t<C>;
      return static_cast<C>(static_cast<U>(sum) + static_cast<U>(x) * static_cast<U>(y));
    } else {
      return math::plus_product(sum, x, y);
    }
  }
  static __device__ void write(const Product& p, int64_t batch, int64_t row, int64_t column,
                               C sum) {
    C alpha, beta;
    __builtin_memcpy(&alpha, p.alpha, sizeof(C));
    __builtin_memcpy(&beta, p.beta, sizeof(C));
    C value = math::product(alpha, sum);
    if (p.has_added) {
      const T* added = static_cast<const T*>(p.added) + batch * p.added_batch + row * p.added_row +
                       column * p.added_column;
      value = add(static_cast<C>(value), beta, load(added));
    }
    static_cast<T*>(p.out)[batch * p.out_batch + row * p.out_row + column * p.out_column] =
        static_cast<T>(value);
  }
};

template <class T> __global__ void gemm_elements(Product p, int64_t batches) {
  using M = Multiply<T>;
  using C = typename M::C;
  int64_t total = batches * p.rows * p.columns;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t column = i % p.columns, row = i / p.columns % p.rows, batch = i / p.columns / p.rows;
    const T* a = static_cast<const T*>(p.a) + batch * p.a_batch + row * p.a_row;
    const T* b = static_cast<const T*>(p.b) + batch * p.b_batch + column * p.b_column;
    C sum = C(0);
    for (int64_t k = 0; k < p.depth; ++k)
      sum = M::add(sum, M::load(a + k * p.a_column), M::load(b + k * p.b_row));
    M::write(p, batch, row, column, sum);
  }
}

template <class T> __global__ void gemm_tiled(Product p, int64_t batches) {
  using M = Multiply<T>;
  using C = typename M::C;
  constexpr int tile = 64, depth = 16, side = 16, own = 4;
  __shared__ __align__(16) unsigned char memory[2 * depth * (tile + 1) * sizeof(C)];
  C* left = reinterpret_cast<C*>(memory);  // [depth][tile + 1]
  C* right = left + depth * (tile + 1);
  int x = threadIdx.x % side, y = threadIdx.x / side;
  int64_t first_row = int64_t(blockIdx.y) * tile, first_column = int64_t(blockIdx.x) * tile;
  for (int64_t batch = blockIdx.z; batch < batches; batch += gridDim.z) {
    const T* a = static_cast<const T*>(p.a) + batch * p.a_batch;
    const T* b = static_cast<const T*>(p.b) + batch * p.b_batch;
    C sums[own][own];
    for (int i = 0; i < own; ++i)
      for (int j = 0; j < own; ++j) sums[i][j] = C(0);
    for (int64_t begin = 0; begin < p.depth; begin += depth) {
      __syncthreads();  // the last tile was read
      for (int i = threadIdx.x; i < tile * depth; i += side * side) {
        // Neighbouring threads read along the dim in which elements lie side by side.
        bool by_depth = p.a_column == 1;
        int k = by_depth ? i % depth : i / tile, r = by_depth ? i / depth : i % tile;
        int64_t row = first_row + r, at = begin + k;
        left[k * (tile + 1) + r] = row < p.rows && at < p.depth
                                       ? M::load(a + row * p.a_row + at * p.a_column)
                                       : C(0);
        by_depth = p.b_row == 1;
        k = by_depth ? i % depth : i / tile;
        r = by_depth ? i / depth : i % tile;
        int64_t column = first_column + r;
        at = begin + k;
        right[k * (tile + 1) + r] = column < p.columns && at < p.depth
                                        ? M::load(b + at * p.b_row + column * p.b_column)
                                        : C(0);
      }
      __syncthreads();
      for (int k = 0; k < depth; ++k) {
        C u[own], v[own];
        for (int i = 0; i < own; ++i) u[i] = left[k * (tile + 1) + y + i * side];
        for (int j = 0; j < own; ++j) v[j] = right[k * (tile + 1) + x + j * side];
        for (int i = 0; i < own; ++i)
          for (int j = 0; j < own; ++j) sums[i][j] = M::add(sums[i][j], u[i], v[j]);
      }
    }
    for (int i = 0; i < own; ++i)
      for (int j = 0; j < own; ++j) {
        int64_t row = first_row + y + i * side, column = first_column + x + j * side;
        if (row < p.rows && column < p.columns) M::write(p, batch, row, column, sums[i][j]);
      }
  }
}

}  // namespace rl::cuda
