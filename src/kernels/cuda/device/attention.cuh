// Attention in tiles: the scores of `tile` queries and `tile` keys at a time, a running maximum and
// a running sum of exponentials for each query. Sums are in an order that sizes alone decide.
//
// Blocks have 256 threads, 16 by 16: thread (x, y) has the rows y + 16 i and the columns x + 16 j
// of each tile. `width` is the largest width of heads that the sums have room for.
#pragma once
#include "kernels/cuda/device/attention.h"
#include "kernels/cuda/device/prelude.cuh"
#include "math/philox.h"

namespace rl::cuda {

constexpr int tile_side = 16, tile_depth = 32;

// Rows from `begin` on of one matrix.
template <class T> struct TileRows {
  const T* data;
  int64_t row, column, begin, rows, columns;

  __device__ TileRows(const HeadMatrices& m, int64_t sample, int64_t head, int64_t first,
                      int64_t row_count, int64_t column_count)
      : data(static_cast<const T*>(m.data) + sample * m.sample + head * m.head),
        row(m.row),
        column(m.column),
        begin(first),
        rows(row_count),
        columns(column_count) {}

  // Columns [at, at + tile_depth) of `tile` rows; zeros where there are none.
  template <int tile, class C> __device__ void load(C* to, int64_t at) const {
    for (int i = threadIdx.x; i < tile * tile_depth; i += tile_side * tile_side) {
      int64_t r = begin + i / tile_depth, c = at + i % tile_depth;
      to[i / tile_depth * (tile_depth + 1) + i % tile_depth] =
          r < rows && c < columns ? static_cast<C>(data[r * row + c * column]) : C(0);
    }
  }
};

// sums = a b^T.
template <int tile, class T, class C>
__device__ void tile_products(C (&sums)[tile / tile_side][tile / tile_side], const TileRows<T>& a,
                              const TileRows<T>& b, C* left, C* right) {
  constexpr int own = tile / tile_side;
  int x = threadIdx.x % tile_side, y = threadIdx.x / tile_side;
  for (int i = 0; i < own; ++i)
    for (int j = 0; j < own; ++j) sums[i][j] = C(0);
  for (int64_t at = 0; at < a.columns; at += tile_depth) {
    __syncthreads();  // the last tiles were read
    a.template load<tile>(left, at);
    b.template load<tile>(right, at);
    __syncthreads();
    for (int k = 0; k < tile_depth; ++k) {
      C u[own], v[own];
      for (int i = 0; i < own; ++i) u[i] = left[(y + i * tile_side) * (tile_depth + 1) + k];
      for (int j = 0; j < own; ++j) v[j] = right[(x + j * tile_side) * (tile_depth + 1) + k];
      for (int i = 0; i < own; ++i)
        for (int j = 0; j < own; ++j) sums[i][j] = math::plus_product(sums[i][j], u[i], v[j]);
    }
  }
}

// sums += weights b, of the weights that all threads wrote to [tile][tile + 1].
template <int tile, int width, class T, class C>
__device__ void tile_accumulate(C (&sums)[tile / tile_side][width / tile_side], const C* weights,
                                const TileRows<T>& b, C* right) {
  constexpr int own = tile / tile_side, parts = tile_depth / tile_side;
  int x = threadIdx.x % tile_side, y = threadIdx.x / tile_side;
#pragma unroll
  for (int c = 0; c < width / tile_depth; ++c) {
    if (c * tile_depth >= b.columns) break;
    __syncthreads();  // the weights are written, the last tile was read
    b.template load<tile>(right, c * tile_depth);
    __syncthreads();
    for (int k = 0; k < tile; ++k) {
      C v[parts];
      for (int j = 0; j < parts; ++j) v[j] = right[k * (tile_depth + 1) + x + j * tile_side];
      for (int i = 0; i < own; ++i) {
        C u = weights[(y + i * tile_side) * (tile + 1) + k];
        for (int j = 0; j < parts; ++j)
          sums[i][c * parts + j] = math::plus_product(sums[i][c * parts + j], u, v[j]);
      }
    }
  }
}

// What a product of query i and key j becomes before its exponential.
template <class C>
__device__ C attention_score(const AttentionArgs& a, int64_t sample, int64_t head, int64_t i,
                             int64_t j, C product) {
  if (i >= a.queries || j >= a.keys || (a.causal && j > i)) return -math::infinity<C>;
  C score = product * static_cast<C>(a.scale);
  if (!a.mask.data) return score;
  int64_t at = sample * a.mask.sample + head * a.mask.head + i * a.mask.row + j * a.mask.column;
  if (a.mask_dtype == ElementBool)
    return static_cast<const Bool*>(a.mask.data)[at] ? score : -math::infinity<C>;
  return score + load_as<C>(a.mask.data, a.mask_dtype, at);
}

// What dropout multiplies weights by: 0 or kept_scale.
template <class C> class Dropped {
 public:
  __device__ explicit Dropped(const AttentionArgs& a)
      : a_(a), draws_(a.state ? a.state[0] : 0, a.state ? a.state[1] : 0, a.kept_scale) {}

  __device__ C operator()(int64_t sample, int64_t head, int64_t i, int64_t j) const {
    if (i >= a_.queries || j >= a_.keys) return C(0);
    if (a_.state)
      return factor(draws_(line(sample, head), static_cast<uint64_t>(i), static_cast<uint64_t>(j)));
    if (!a_.kept.data) return C(1);
    const HeadMatrices& k = a_.kept;
    return factor(static_cast<const Bool*>(
        k.data)[sample * k.sample + head * k.head + i * k.row + j * k.column]);
  }
  // Of (i, j), (i, j + 8), (i + 8, j) and (i + 8, j + 8), where i and j are of the first 8 of 16.
  __device__ void group(C (&factors)[4], int64_t sample, int64_t head, int64_t i, int64_t j) const {
    if (a_.state) {
      uint32_t words[4];
      draws_.draw(words, line(sample, head), static_cast<uint64_t>(i), static_cast<uint64_t>(j));
      for (int k = 0; k < 4; ++k) factors[k] = factor(draws_.keeps(words[k]));
    } else {
      for (int k = 0; k < 4; ++k)
        factors[k] = (*this)(sample, head, i + k / 2 * 8, j + k % 2 * 8);
    }
  }

 private:
  __device__ C factor(bool kept) const { return kept ? static_cast<C>(a_.kept_scale) : C(0); }
  __device__ uint64_t line(int64_t sample, int64_t head) const {
    return static_cast<uint64_t>((sample * a_.heads + head) * a_.queries);
  }
  const AttentionArgs& a_;
  math::KeptWeights draws_;
};

template <class C, bool maximum> __device__ C join_row(C value) {  // over the threads of a row
  for (int step = tile_side / 2; step > 0; step /= 2) {
    C other = __shfl_xor_sync(0xffffffffu, value, step);
    value = maximum ? math::maximum(value, other) : value + other;
  }
  return value;
}

// The rows of a tile of queries, divided by their sums, and the logarithms of those.
template <class T, class C, int own, int wide>
__device__ void attention_write(const AttentionArgs& a, int64_t sample, int64_t head, int64_t first,
                                const C (&sums)[own][wide], const C (&largest)[own],
                                const C (&total)[own]) {
  int x = threadIdx.x % tile_side, y = threadIdx.x / tile_side;
  for (int i = 0; i < own; ++i) {
    int64_t query = first + y + i * tile_side;
    if (query >= a.queries) continue;
    bool dead = largest[i] == -math::infinity<C>;
    T* out =
        static_cast<T*>(a.out.data) + sample * a.out.sample + head * a.out.head + query * a.out.row;
    for (int j = 0; j < wide; ++j) {
      int64_t column = x + j * tile_side;
      if (column < a.value_width)
        out[column * a.out.column] = static_cast<T>(dead ? C(0) : sums[i][j] / total[i]);
    }
    if (x == 0)
      static_cast<C*>(a.log_sum)[(sample * a.heads + head) * a.queries + query] =
          dead ? -math::infinity<C> : largest[i] + math::log(total[i]);
  }
}

template <class T, int tile, int width> __global__ void attention_forward(AttentionArgs a) {
  using C = compute_t<T>;
  constexpr int own = tile / tile_side, wide = width / tile_side;
  __shared__ C left[tile * (tile_depth + 1)], right[tile * (tile_depth + 1)],
      weights[tile * (tile + 1)];
  int x = threadIdx.x % tile_side, y = threadIdx.x / tile_side;
  int64_t blocks = (a.queries + tile - 1) / tile, group = a.heads / a.shared_heads;
  Dropped<C> dropped(a);
  for (int64_t task = blockIdx.x; task < blocks * a.heads * a.samples; task += gridDim.x) {
    int64_t first = (blocks - 1 - task % blocks) * tile;  // the longest of a causal head come first
    int64_t head = task / blocks % a.heads, sample = task / blocks / a.heads;
    C sums[own][wide], largest[own], total[own];
    for (int i = 0; i < own; ++i) {
      largest[i] = -math::infinity<C>;
      total[i] = C(0);
      for (int j = 0; j < wide; ++j) sums[i][j] = C(0);
    }
    int64_t end = a.causal && first + tile < a.keys ? first + tile : a.keys;
    for (int64_t begin = 0; begin < end; begin += tile) {
      C scores[own][own];
      tile_products<tile>(scores,
                          TileRows<T>(a.query, sample, head, first, a.queries, a.width),
                          TileRows<T>(a.key, sample, head / group, begin, a.keys, a.width), left,
                          right);
      for (int i = 0; i < own; ++i) {
        int64_t query = first + y + i * tile_side;
        C most = largest[i];
        for (int j = 0; j < own; ++j) {
          scores[i][j] = attention_score(a, sample, head, query, begin + x + j * tile_side,
                                         scores[i][j]);
          most = math::maximum(most, scores[i][j]);
        }
        most = join_row<C, true>(most);
        C base = most == -math::infinity<C> ? C(0) : most, sum = C(0);
        C correction = math::exp(largest[i] - base);
        for (int j = 0; j < own; ++j) {
          C weight = math::exp(scores[i][j] - base);
          sum += weight;
          weights[(y + i * tile_side) * (tile + 1) + x + j * tile_side] =
              weight * dropped(sample, head, query, begin + x + j * tile_side);
        }
        total[i] = total[i] * correction + join_row<C, false>(sum);
        largest[i] = most;
        for (int j = 0; j < wide; ++j) sums[i][j] *= correction;
      }
      tile_accumulate<tile, width>(
          sums, weights,
          TileRows<T>(a.value, sample, head / group, begin, a.keys, a.value_width), right);
    }
    attention_write<T>(a, sample, head, first, sums, largest, total);
  }
}

// For each query, the product of its result and the result's gradient. One warp each.
template <class T> __global__ void attention_dots(AttentionArgs a) {
  using C = compute_t<T>;
  int64_t rows = a.samples * a.heads * a.queries, warps = thread_count() / 32;
  for (int64_t row = thread_id() / 32; row < rows; row += warps) {
    int64_t i = row % a.queries, head = row / a.queries % a.heads,
            sample = row / a.queries / a.heads;
    const T* out = static_cast<const T*>(a.out.data) + sample * a.out.sample +
                   head * a.out.head + i * a.out.row;
    const T* grad = static_cast<const T*>(a.grad.data) + sample * a.grad.sample +
                    head * a.grad.head + i * a.grad.row;
    C sum = C(0);
    for (int64_t c = threadIdx.x & 31; c < a.value_width; c += 32)
      sum += static_cast<C>(out[c * a.out.column]) * static_cast<C>(grad[c * a.grad.column]);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if ((threadIdx.x & 31) == 0) static_cast<C*>(a.dots)[row] = sum;
  }
}

// The weight of a score, before dropout, and the gradient of the score times `scale`.
template <class C> struct WeightAndSlope {
  C weight, slope;
  __device__ WeightAndSlope(const AttentionArgs& a, int64_t row, C score, C grad, C kept) {
    weight = slope = C(0);
    if (score == -math::infinity<C>) return;
    weight = math::exp(score - static_cast<const C*>(a.log_sum)[row]);
    slope = weight * (grad * kept - static_cast<const C*>(a.dots)[row]) * static_cast<C>(a.scale);
    weight *= kept;
  }
};

// The gradients of `tile` keys and values: rows of tiles are keys, columns queries.
template <class T, int tile, int width> __global__ void attention_key_gradients(AttentionArgs a) {
  using C = compute_t<T>;
  constexpr int own = tile / tile_side, wide = width / tile_side;
  __shared__ C left[tile * (tile_depth + 1)], right[tile * (tile_depth + 1)],
      weights[tile * (tile + 1)];
  int x = threadIdx.x % tile_side, y = threadIdx.x / tile_side;
  int64_t blocks = (a.keys + tile - 1) / tile, group = a.heads / a.shared_heads;
  Dropped<C> dropped(a);
  for (int64_t task = blockIdx.x; task < blocks * a.shared_heads * a.samples; task += gridDim.x) {
    int64_t first = task % blocks * tile, shared = task / blocks % a.shared_heads,
            sample = task / blocks / a.shared_heads;
    C key_sums[own][wide], value_sums[own][wide];
    for (int i = 0; i < own; ++i)
      for (int j = 0; j < wide; ++j) key_sums[i][j] = value_sums[i][j] = C(0);
    for (int64_t head = shared * group; head < (shared + 1) * group; ++head)
      for (int64_t begin = a.causal ? first : 0; begin < a.queries; begin += tile) {
        C scores[own][own], grads[own][own];
        TileRows<T> queries(a.query, sample, head, begin, a.queries, a.width);
        TileRows<T> outward(a.grad, sample, head, begin, a.queries, a.value_width);
        tile_products<tile>(scores, TileRows<T>(a.key, sample, shared, first, a.keys, a.width),
                            queries, left, right);
        tile_products<tile>(grads,
                            TileRows<T>(a.value, sample, shared, first, a.keys, a.value_width),
                            outward, left, right);
        for (int j = 0; j < own; ++j)
          for (int i = 0; i < own; ++i) {
            int64_t query = begin + x + j * tile_side, key = first + y + i * tile_side;
            WeightAndSlope<C> w(a, (sample * a.heads + head) * a.queries + query,
                                attention_score(a, sample, head, query, key, scores[i][j]),
                                grads[i][j], dropped(sample, head, query, key));
            weights[(y + i * tile_side) * (tile + 1) + x + j * tile_side] = w.weight;
            scores[i][j] = w.slope;
          }
        tile_accumulate<tile, width>(value_sums, weights, outward, right);
        __syncthreads();  // the weights were read
        for (int j = 0; j < own; ++j)
          for (int i = 0; i < own; ++i)
            weights[(y + i * tile_side) * (tile + 1) + x + j * tile_side] = scores[i][j];
        tile_accumulate<tile, width>(key_sums, weights, queries, right);
      }
    for (int i = 0; i < own; ++i)
      for (int j = 0; j < wide; ++j) {
        int64_t key = first + y + i * tile_side, column = x + j * tile_side;
        if (key >= a.keys) continue;
        const HeadMatrices &k = a.grad_key, &v = a.grad_value;
        if (column < a.width)
          static_cast<T*>(k.data)[sample * k.sample + shared * k.head + key * k.row +
                                  column * k.column] = static_cast<T>(key_sums[i][j]);
        if (column < a.value_width)
          static_cast<T*>(v.data)[sample * v.sample + shared * v.head + key * v.row +
                                  column * v.column] = static_cast<T>(value_sums[i][j]);
      }
  }
}

template <class T, int tile, int width>
__global__ void attention_query_gradients(AttentionArgs a) {
  using C = compute_t<T>;
  constexpr int own = tile / tile_side, wide = width / tile_side;
  __shared__ C left[tile * (tile_depth + 1)], right[tile * (tile_depth + 1)],
      weights[tile * (tile + 1)];
  int x = threadIdx.x % tile_side, y = threadIdx.x / tile_side;
  int64_t blocks = (a.queries + tile - 1) / tile, group = a.heads / a.shared_heads;
  Dropped<C> dropped(a);
  for (int64_t task = blockIdx.x; task < blocks * a.heads * a.samples; task += gridDim.x) {
    int64_t first = (blocks - 1 - task % blocks) * tile, head = task / blocks % a.heads,
            sample = task / blocks / a.heads;
    C sums[own][wide];
    for (int i = 0; i < own; ++i)
      for (int j = 0; j < wide; ++j) sums[i][j] = C(0);
    int64_t end = a.causal && first + tile < a.keys ? first + tile : a.keys;
    for (int64_t begin = 0; begin < end; begin += tile) {
      C scores[own][own], grads[own][own];
      TileRows<T> keys(a.key, sample, head / group, begin, a.keys, a.width);
      tile_products<tile>(scores, TileRows<T>(a.query, sample, head, first, a.queries, a.width),
                          keys, left, right);
      tile_products<tile>(
          grads, TileRows<T>(a.grad, sample, head, first, a.queries, a.value_width),
          TileRows<T>(a.value, sample, head / group, begin, a.keys, a.value_width), left, right);
      for (int i = 0; i < own; ++i)
        for (int j = 0; j < own; ++j) {
          int64_t query = first + y + i * tile_side, key = begin + x + j * tile_side;
          WeightAndSlope<C> w(a, (sample * a.heads + head) * a.queries + query,
                              attention_score(a, sample, head, query, key, scores[i][j]),
                              grads[i][j], dropped(sample, head, query, key));
          weights[(y + i * tile_side) * (tile + 1) + x + j * tile_side] = w.slope;
        }
      tile_accumulate<tile, width>(sums, weights, keys, right);
    }
    const HeadMatrices& g = a.grad_query;
    for (int i = 0; i < own; ++i)
      for (int j = 0; j < wide; ++j) {
        int64_t query = first + y + i * tile_side, column = x + j * tile_side;
        if (query < a.queries && column < a.width)
          static_cast<T*>(g.data)[sample * g.sample + head * g.head + query * g.row +
                                  column * g.column] = static_cast<T>(sums[i][j]);
      }
  }
}

// kept (N, H, L, S), contiguous: what the kernels above draw.
template <class T> __global__ void attention_draw(Strided kept, const int64_t* state, T scale) {
  math::KeptWeights draws(state[0], state[1], scale);
  auto queries = static_cast<uint64_t>(kept.sizes[2]), keys = static_cast<uint64_t>(kept.sizes[3]);
  for (int64_t i = thread_id(); i < kept.numel; i += thread_count()) {
    uint64_t row = static_cast<uint64_t>(i) / keys, column = static_cast<uint64_t>(i) % keys;
    static_cast<Bool*>(kept.data)[offset_of(kept, i)] =
        draws(row / queries * queries, row % queries, column);
  }
}

}  // namespace rl::cuda
