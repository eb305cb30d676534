// Attention of 16-bit floats on tensor cores, in tiles as in attention.cuh. Blocks have four warps,
// each with 16 rows of a tile of 64, or in the forward pass `tiles` times as many; columns of scores
// come 64 or 32 at a time, and the next ones are copied meanwhile. Matrices lie in shared memory with
// 8 elements behind each row, so that rows of a fragment are in other banks. `width` is the width of
// heads, padded by zeros.
#pragma once
#include "kernels/cuda/device/attention.cuh"
#include "kernels/cuda/device/matrix_units.cuh"

namespace rl::cuda {

constexpr int flash_rows = 64, flash_threads = 128;
constexpr float log2_of_e = 1.44269504088896341f;

// What a block works on.
struct FlashTask {
  int64_t sample, head, first;
};

// Begins to copy rows [begin, begin + rows) of a head's matrix; zeros beyond its rows and columns.
template <int rows, int width, class T>
__device__ void copy_tile(T* to, const HeadMatrices& m, int64_t sample, int64_t head, int64_t begin,
                          int64_t row_count, int64_t column_count) {
  const T* from = static_cast<const T*>(m.data) + sample * m.sample + head * m.head;
#pragma unroll
  for (int i = threadIdx.x; i < rows * (width / 8); i += flash_threads) {
    int row = i / (width / 8), column = i % (width / 8) * 8;
    bool inside = begin + row < row_count && column < column_count;
    copy_async(to + row * (width + 8) + column,
               inside ? from + (begin + row) * m.row + column : from, inside);
  }
}

// The same of keys, and behind them of their values.
template <int columns, int width, class T>
__device__ void copy_keys_and_values(T* to, const AttentionArgs& a, int64_t sample, int64_t head,
                                     int64_t begin) {
  copy_tile<columns, width>(to, a.key, sample, head, begin, a.keys, a.width);
  copy_tile<columns, width>(to + columns * (width + 8), a.value, sample, head, begin, a.keys,
                            a.value_width);
  commit_copies();
}

// Tiles of 16 rows; left(tile, k) is the fragment of columns [k, k + 16) of one of them.
// sums (16 by columns each) = the tiles times the transpose of `columns` rows of b.
template <int tiles, int columns, int width, class T, class Left>
__device__ void multiply_tiles(float (&sums)[tiles][columns / 8][4], const Left& left, const T* b) {
#pragma unroll
  for (int t = 0; t < tiles; ++t)
#pragma unroll
    for (int n = 0; n < columns / 8; ++n)
      for (int i = 0; i < 4; ++i) sums[t][n][i] = 0;
#pragma unroll
  for (int k = 0; k < width; k += 16) {
    FragmentA rows[tiles];
#pragma unroll
    for (int t = 0; t < tiles; ++t) rows[t] = left(t, k);
#pragma unroll
    for (int n = 0; n < columns; n += 16) {
      FragmentsB right = load_rows_as_columns(b, width + 8, n, k);
#pragma unroll
      for (int t = 0; t < tiles; ++t) {
        multiply_add<T>(sums[t][n / 8], rows[t], right.first);
        multiply_add<T>(sums[t][n / 8 + 1], rows[t], right.second);
      }
    }
  }
}
// The same of rows [row, row + 16) of a.
template <int columns, int width, class T>
__device__ void multiply_rows(float (&sums)[1][columns / 8][4], const T* a, int row, const T* b) {
  multiply_tiles<1, columns, width>(
      sums, [&](int, int k) { return load_a(a, width + 8, row, k); }, b);
}
// sums (16 by width each) += weights (16 by columns) times `columns` rows of b.
template <int tiles, int columns, int width, class T>
__device__ void add_weighted_rows(float (&sums)[tiles][width / 8][4],
                                  const float (&weights)[tiles][columns / 8][4], const T* b) {
#pragma unroll
  for (int k = 0; k < columns / 16; ++k) {
    FragmentA left[tiles];
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      const float(&low)[4] = weights[t][2 * k], (&high)[4] = weights[t][2 * k + 1];
      left[t] = {{pack_pair<T>(low[0], low[1]), pack_pair<T>(low[2], low[3]),
                  pack_pair<T>(high[0], high[1]), pack_pair<T>(high[2], high[3])}};
    }
#pragma unroll
    for (int n = 0; n < width; n += 16) {
      FragmentsB right = load_columns(b, width + 8, k * 16, n);
#pragma unroll
      for (int t = 0; t < tiles; ++t) {
        multiply_add<T>(sums[t][n / 8], left[t], right.first);
        multiply_add<T>(sums[t][n / 8 + 1], left[t], right.second);
      }
    }
  }
}

template <int width, class T>
__device__ void write_rows(const HeadMatrices& m, int64_t sample, int64_t head, int64_t row,
                           int64_t row_count, int64_t column_count,
                           const float (&sums)[width / 8][4]) {
  int lane = threadIdx.x & 31;
  for (int half_of = 0; half_of < 2; ++half_of) {
    int64_t at = row + lane / 4 + half_of * 8;
    if (at >= row_count) continue;
    T* to = static_cast<T*>(m.data) + sample * m.sample + head * m.head + at * m.row;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      int column = n * 8 + lane % 4 * 2;
      if (column < column_count)
        *reinterpret_cast<uint32_t*>(to + column) =
            pack_pair<T>(sums[n][2 * half_of], sums[n][2 * half_of + 1]);
    }
  }
}

// Whether all of these keys are there for all of these queries.
__device__ inline bool is_whole(const AttentionArgs& a, int64_t query, int64_t queries, int64_t key,
                                int64_t keys) {
  return query + queries <= a.queries && key + keys <= a.keys &&
         (!a.causal || key + keys - 1 <= query);
}

// How many of the keys from `begin` on a query sees.
__device__ inline int seen_keys(const AttentionArgs& a, int64_t query, int64_t begin) {
  if (query >= a.queries) return 0;
  int64_t end = a.causal && query < a.keys ? query + 1 : a.keys;
  return end <= begin ? 0 : static_cast<int>(end - begin < 4096 ? end - begin : 4096);
}

// Scores, in powers of two, and what dropout keeps of weights; only what `masked` and `random` ask
// for is looked at, and of whether a key is there only where `masked`.
template <bool masked, bool random> class Scores {
 public:
  __device__ Scores(const AttentionArgs& a, int64_t sample)
      : a_(a), sample_(sample), scale_(static_cast<float>(a.scale)), dropped_(a) {}

  __device__ float operator()(int64_t head, int64_t query, int64_t key, float product) const {
    if constexpr (masked)
      return attention_score(a_, sample_, head, query, key, product) * log2_of_e;
    return product * (scale_ * log2_of_e);
  }
  // What dropout multiplies the weights of a query and the eighth after it by, for a key and the
  // eighth after it: (query, key), (query, key + 8), (query + 8, key), (query + 8, key + 8).
  __device__ void group(float (&factors)[4], int64_t head, int64_t query, int64_t key) const {
    if constexpr (random) dropped_.group(factors, sample_, head, query, key);
    else
      for (float& factor : factors) factor = 1;
  }
  // The product becomes its weight times `keep`, the weight's gradient the product's.
  __device__ void differentiate(bool there, int64_t head, int64_t query, int64_t key,
                                float log_sum, float dot, float keep, float& product,
                                float& grad) const {
    float score = (*this)(head, query, key, product);
    if constexpr (masked) there = score != -math::infinity<float>;
    float weight = there ? power_of_two(score - log_sum * log2_of_e) : 0;
    grad = weight * (grad * keep - dot) * scale_;
    product = weight * keep;
  }

 private:
  struct KeepsAll {
    __device__ explicit KeepsAll(const AttentionArgs&) {}
  };
  const AttentionArgs& a_;
  int64_t sample_;
  float scale_;
  std::conditional_t<random, Dropped<float>, KeepsAll> dropped_;
};

__device__ inline float join_lanes_of_row(float value, bool maximum) {
  for (int step = 1; step < 4; step *= 2) {
    float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = maximum ? math::maximum(value, other) : value + other;
  }
  return value;
}

// Scores of a tile become weights: the running largest and sum of each of the lane's two rows follow,
// and what was summed so far is corrected.
template <int columns, int width, bool masked, bool random>
__device__ void soften(const AttentionArgs& a, const Scores<masked, random>& of, int64_t head,
                       int64_t row, int64_t begin, float (&scores)[columns / 8][4],
                       float (&sums)[width / 8][4], float (&largest)[2], float (&total)[2]) {
  int lane = threadIdx.x & 31;
  bool whole = masked || is_whole(a, row, 16, begin, columns);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    int64_t query = row + lane / 4 + r * 8, key = begin + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < columns / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        scores[n][2 * r + c] = of(head, query, key + n * 8 + c, scores[n][2 * r + c]);
    if (!whole) {
      int seen = seen_keys(a, query, begin) - lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < columns / 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c)
          if (n * 8 + c >= seen) scores[n][2 * r + c] = -math::infinity<float>;
    }
    float most = largest[r];
#pragma unroll
    for (int n = 0; n < columns / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) most = math::maximum(most, scores[n][2 * r + c]);
    most = join_lanes_of_row(most, true);
    float base = most == -math::infinity<float> ? 0 : most, sum = 0;
    float correction = power_of_two(largest[r] - base);
#pragma unroll
    for (int n = 0; n < columns / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        sum += scores[n][2 * r + c] = power_of_two(scores[n][2 * r + c] - base);
    total[r] = total[r] * correction + join_lanes_of_row(sum, false);
    largest[r] = most;
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) sums[n][2 * r + c] *= correction;
  }
  if constexpr (random)
#pragma unroll
    for (int n = 0; n < columns / 8; n += 2)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float factors[4];
        of.group(factors, head, row + lane / 4, begin + n * 8 + lane % 4 * 2 + c);
        for (int k = 0; k < 4; ++k) scores[n + k % 2][k / 2 * 2 + c] *= factors[k];
      }
}

// Divides 16 rows of sums by the totals of their weights, and writes them and their log_sum.
template <int width, class T>
__device__ void finish_rows(const AttentionArgs& a, const FlashTask& task, int64_t row,
                            float (&sums)[width / 8][4], const float (&largest)[2],
                            const float (&total)[2]) {
  int lane = threadIdx.x & 31;
  for (int r = 0; r < 2; ++r) {
    bool dead = largest[r] == -math::infinity<float>;
    int64_t query = row + lane / 4 + r * 8;
    if (lane % 4 == 0 && query < a.queries)
      static_cast<float*>(a.log_sum)[(task.sample * a.heads + task.head) * a.queries + query] =
          dead ? -math::infinity<float> : largest[r] / log2_of_e + math::log(total[r]);
    float factor = dead ? 0 : 1 / total[r];
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
      for (int c = 0; c < 2; ++c) sums[n][2 * r + c] *= factor;
  }
  write_rows<width, T>(a.out, task.sample, task.head, row, a.queries, a.value_width, sums);
}

// Shared memory: the queries' tile, then twice the keys' and the values'.
template <class T, int width, int columns, bool masked, bool random, int tiles>
__global__ void __launch_bounds__(flash_threads) flash_forward(const __grid_constant__ AttentionArgs a) {
  RL_DYNAMIC_SHARED(T, queries);
  constexpr int rows = flash_rows * tiles, step = columns * (width + 8);
  T* others = queries + rows * (width + 8);
  int64_t blocks = (a.queries + rows - 1) / rows, group = a.heads / a.shared_heads;
  int warp = threadIdx.x / 32;
  FlashTask task{blockIdx.x / blocks / a.heads, blockIdx.x / blocks % a.heads,
                 (blocks - 1 - blockIdx.x % blocks) * rows};
  int64_t shared = task.head / group, row = task.first + warp * 16 * tiles;
  int64_t end = a.causal && task.first + rows < a.keys ? task.first + rows : a.keys;
  Scores<masked, random> scores_of(a, task.sample);
  float sums[tiles][width / 8][4], largest[tiles][2], total[tiles][2];
  FragmentA left[tiles][width / 16];
#pragma unroll
  for (int t = 0; t < tiles; ++t) {
    for (int r = 0; r < 2; ++r) {
      largest[t][r] = -math::infinity<float>;
      total[t][r] = 0;
    }
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
      for (int i = 0; i < 4; ++i) sums[t][n][i] = 0;
  }
  copy_tile<rows, width>(queries, a.query, task.sample, task.head, task.first, a.queries, a.width);
  copy_keys_and_values<columns, width>(others, a, task.sample, shared, 0);
  for (int64_t begin = 0, turn = 0; begin < end; begin += columns, turn ^= 1) {
    const T *keys = others + turn * 2 * step, *values = keys + step;
    wait_for_copies<0>();
    __syncthreads();  // these are there, the others were read
    if (begin + columns < end)
      copy_keys_and_values<columns, width>(others + (turn ^ 1) * 2 * step, a, task.sample, shared,
                                           begin + columns);
    if (begin == 0)
#pragma unroll
      for (int t = 0; t < tiles; ++t)
#pragma unroll
        for (int k = 0; k < width / 16; ++k)
          left[t][k] = load_a(queries, width + 8, (warp * tiles + t) * 16, k * 16);
    float scores[tiles][columns / 8][4];
    multiply_tiles<tiles, columns, width>(
        scores, [&](int t, int k) { return left[t][k / 16]; }, keys);
#pragma unroll
    for (int t = 0; t < tiles; ++t)
      soften<columns, width>(a, scores_of, task.head, row + t * 16, begin, scores[t], sums[t],
                             largest[t], total[t]);
    add_weighted_rows<tiles, columns, width>(sums, scores, values);
  }
#pragma unroll
  for (int t = 0; t < tiles; ++t)
    finish_rows<width, T>(a, task, row + t * 16, sums[t], largest[t], total[t]);
}

// Of 16 queries and `columns` keys, products become weights and slopes the products' gradients.
template <int columns, bool masked, bool random>
__device__ void differentiate_rows(const AttentionArgs& a, const Scores<masked, random>& of,
                                   int64_t head, int64_t row, int64_t begin,
                                   const float (&log_sum)[2], const float (&dot)[2],
                                   float (&products)[columns / 8][4],
                                   float (&slopes)[columns / 8][4]) {
  int lane = threadIdx.x & 31;
  bool whole = is_whole(a, row, 16, begin, columns);
  int64_t query = row + lane / 4, key = begin + lane % 4 * 2;
  int seen[2];
  for (int r = 0; r < 2; ++r)
    seen[r] = whole ? columns : seen_keys(a, query + r * 8, begin) - lane % 4 * 2;
#pragma unroll
  for (int n = 0; n < columns / 8; n += 2)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float factors[4];
      of.group(factors, head, query, key + n * 8 + c);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        int r = k / 2, block = n + k % 2, column = block * 8 + c;
        of.differentiate(column < seen[r], head, query + r * 8, key + column, log_sum[r], dot[r],
                         factors[k], products[block][2 * r + c], slopes[block][2 * r + c]);
      }
    }
}

// The gradients of a tile of queries. Shared memory: queries, their results' gradients, then twice
// keys and values.
template <class T, int width, int columns, bool masked, bool random>
__global__ void __launch_bounds__(flash_threads) flash_query_gradients(const __grid_constant__ AttentionArgs a) {
  RL_DYNAMIC_SHARED(T, queries);
  constexpr int step = columns * (width + 8);
  T *grads = queries + flash_rows * (width + 8), *others = grads + flash_rows * (width + 8);
  int64_t blocks = (a.queries + flash_rows - 1) / flash_rows, group = a.heads / a.shared_heads;
  int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  FlashTask task{blockIdx.x / blocks / a.heads, blockIdx.x / blocks % a.heads,
                 (blocks - 1 - blockIdx.x % blocks) * flash_rows};
  int64_t shared = task.head / group, row = task.first + warp * 16;
  int64_t end = a.causal && task.first + flash_rows < a.keys ? task.first + flash_rows : a.keys;
  int64_t line = (task.sample * a.heads + task.head) * a.queries;
  Scores<masked, random> scores_of(a, task.sample);
  float sums[1][width / 8][4], log_sum[2], dot[2];
  for (int r = 0; r < 2; ++r) {
    int64_t query = row + lane / 4 + r * 8;
    bool inside = query < a.queries;
    log_sum[r] = inside ? static_cast<const float*>(a.log_sum)[line + query] : 0;
    dot[r] = inside ? static_cast<const float*>(a.dots)[line + query] : 0;
  }
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
    for (int i = 0; i < 4; ++i) sums[0][n][i] = 0;
  copy_tile<flash_rows, width>(queries, a.query, task.sample, task.head, task.first, a.queries,
                               a.width);
  copy_tile<flash_rows, width>(grads, a.grad, task.sample, task.head, task.first, a.queries,
                               a.value_width);
  copy_keys_and_values<columns, width>(others, a, task.sample, shared, 0);
  for (int64_t begin = 0, turn = 0; begin < end; begin += columns, turn ^= 1) {
    const T *keys = others + turn * 2 * step, *values = keys + step;
    wait_for_copies<0>();
    __syncthreads();  // these are there, the others were read
    if (begin + columns < end)
      copy_keys_and_values<columns, width>(others + (turn ^ 1) * 2 * step, a, task.sample, shared,
                                           begin + columns);
    float products[1][columns / 8][4], slopes[1][columns / 8][4];
    multiply_rows<columns, width>(products, queries, warp * 16, keys);
    multiply_rows<columns, width>(slopes, grads, warp * 16, values);
    differentiate_rows<columns>(a, scores_of, task.head, row, begin, log_sum, dot, products[0],
                                slopes[0]);
    add_weighted_rows<1, columns, width>(sums, slopes, keys);
  }
  write_rows<width, T>(a.grad_query, task.sample, task.head, row, a.queries, a.width, sums[0]);
}

// The same of 16 keys as rows and `columns` queries.
template <int columns, bool masked, bool random>
__device__ void differentiate_columns(const AttentionArgs& a, const Scores<masked, random>& of,
                                      int64_t head, int64_t begin, int64_t row,
                                      const float* log_sums, const float* dots,
                                      float (&products)[columns / 8][4],
                                      float (&slopes)[columns / 8][4]) {
  int lane = threadIdx.x & 31;
  bool whole = is_whole(a, begin, columns, row, 16);
#pragma unroll
  for (int n = 0; n < columns / 8; n += 2)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float factors[4];
      of.group(factors, head, begin + n * 8 + lane % 4 * 2 + c, row + lane / 4);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        int r = k % 2, block = n + k / 2, column = block * 8 + lane % 4 * 2 + c;
        int64_t query = begin + column, key = row + lane / 4 + r * 8;
        bool there = whole || (query < a.queries && key < a.keys && (!a.causal || key <= query));
        of.differentiate(there, head, query, key, log_sums[column], dots[column], factors[k],
                         products[block][2 * r + c], slopes[block][2 * r + c]);
      }
    }
}

// Copies of `columns` queries, their results' gradients, and log_sum and dots of those.
template <int columns, int width, class T>
__device__ void copy_queries_and_grads(T* to, const AttentionArgs& a, int64_t sample, int64_t head,
                                       int64_t begin) {
  constexpr int tile = columns * (width + 8);
  copy_tile<columns, width>(to, a.query, sample, head, begin, a.queries, a.width);
  copy_tile<columns, width>(to + tile, a.grad, sample, head, begin, a.queries, a.value_width);
  commit_copies();
  if (threadIdx.x >= columns) return;
  auto* numbers = reinterpret_cast<float*>(to + 2 * tile) + threadIdx.x;
  int64_t query = begin + threadIdx.x, line = (sample * a.heads + head) * a.queries + query;
  bool inside = query < a.queries;
  numbers[0] = inside ? static_cast<const float*>(a.log_sum)[line] : 0;
  numbers[columns] = inside ? static_cast<const float*>(a.dots)[line] : 0;
}

// The gradients of a tile of keys and values: rows of tiles are keys, columns queries. Shared memory:
// keys, values, then twice queries, their results' gradients, and log_sum and dots of those.
template <class T, int width, int columns, bool masked, bool random>
__global__ void __launch_bounds__(flash_threads) flash_key_gradients(const __grid_constant__ AttentionArgs a) {
  RL_DYNAMIC_SHARED(T, keys);
  constexpr int tile = columns * (width + 8), step = 2 * tile + 4 * columns;  // floats are two
  T *values = keys + flash_rows * (width + 8), *others = values + flash_rows * (width + 8);
  int64_t blocks = (a.keys + flash_rows - 1) / flash_rows, group = a.heads / a.shared_heads;
  int warp = threadIdx.x / 32;
  int64_t sample = blockIdx.x / blocks / a.shared_heads;
  int64_t shared = blockIdx.x / blocks % a.shared_heads, first = blockIdx.x % blocks * flash_rows;
  int64_t row = first + warp * 16;
  Scores<masked, random> scores_of(a, sample);
  float key_sums[1][width / 8][4], value_sums[1][width / 8][4];
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
    for (int i = 0; i < 4; ++i) key_sums[0][n][i] = value_sums[0][n][i] = 0;
  copy_tile<flash_rows, width>(keys, a.key, sample, shared, first, a.keys, a.width);
  copy_tile<flash_rows, width>(values, a.value, sample, shared, first, a.keys, a.value_width);
  int64_t start = a.causal ? first / columns * columns : 0, head = shared * group;
  if (start < a.queries)
    copy_queries_and_grads<columns, width>(others, a, sample, head, start);
  for (int64_t begin = start, turn = 0; begin < a.queries; turn ^= 1) {
    const T *queries = others + turn * step, *grads = queries + tile;
    const auto* log_sums = reinterpret_cast<const float*>(grads + tile);
    const float* dots = log_sums + columns;
    int64_t of_head = head, of_begin = begin;
    begin += columns;
    if (begin >= a.queries && head + 1 < (shared + 1) * group) {
      ++head;
      begin = start;
    }
    wait_for_copies<0>();
    __syncthreads();  // these are there, the others were read
    if (begin < a.queries)
      copy_queries_and_grads<columns, width>(others + (turn ^ 1) * step, a, sample, head, begin);
    float products[1][columns / 8][4], slopes[1][columns / 8][4];
    multiply_rows<columns, width>(products, keys, warp * 16, queries);
    multiply_rows<columns, width>(slopes, values, warp * 16, grads);
    differentiate_columns<columns>(a, scores_of, of_head, of_begin, row, log_sums, dots,
                                   products[0], slopes[0]);
    add_weighted_rows<1, columns, width>(value_sums, products, grads);
    add_weighted_rows<1, columns, width>(key_sums, slopes, queries);
  }
  write_rows<width, T>(a.grad_key, sample, shared, row, a.keys, a.width, key_sums[0]);
  write_rows<width, T>(a.grad_value, sample, shared, row, a.keys, a.value_width, value_sums[0]);
}

}  // namespace rl::cuda
