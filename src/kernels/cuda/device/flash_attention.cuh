// Attention of 16-bit floats on tensor cores, in tiles as in attention.cuh. Blocks have four warps,
// each with 16 rows of a tile of 64; columns of scores come 64 or 32 at a time. Matrices lie in
// shared memory with 8 elements behind each row, so that rows of a fragment are in other banks.
// `width` is the width of heads, padded by zeros.
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

// sums (16 by columns) = rows [row, row + 16) of a times the transpose of `columns` rows of b.
template <int columns, int width, class T>
__device__ void multiply_rows(float (&sums)[columns / 8][4], const T* a, int row, const T* b) {
#pragma unroll
  for (int n = 0; n < columns / 8; ++n)
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
#pragma unroll
  for (int k = 0; k < width; k += 16) {
    FragmentA left = load_a(a, width + 8, row, k);
#pragma unroll
    for (int n = 0; n < columns; n += 16) {
      FragmentsB right = load_rows_as_columns(b, width + 8, n, k);
      multiply_add<T>(sums[n / 8], left, right.first);
      multiply_add<T>(sums[n / 8 + 1], left, right.second);
    }
  }
}
// sums (16 by width) += weights (16 by columns) times `columns` rows of b.
template <int columns, int width, class T>
__device__ void add_weighted_rows(float (&sums)[width / 8][4],
                                  const float (&weights)[columns / 8][4], const T* b) {
#pragma unroll
  for (int k = 0; k < columns / 16; ++k) {
    const float(&low)[4] = weights[2 * k], (&high)[4] = weights[2 * k + 1];
    FragmentA left{{pack_pair<T>(low[0], low[1]), pack_pair<T>(low[2], low[3]),
                    pack_pair<T>(high[0], high[1]), pack_pair<T>(high[2], high[3])}};
#pragma unroll
    for (int n = 0; n < width; n += 16) {
      FragmentsB right = load_columns(b, width + 8, k * 16, n);
      multiply_add<T>(sums[n / 8], left, right.first);
      multiply_add<T>(sums[n / 8 + 1], left, right.second);
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

// Scores and what dropout keeps of weights; only what `masked` and `random` ask for is looked at.
template <bool masked, bool random> class Scores {
 public:
  __device__ Scores(const AttentionArgs& a, int64_t sample)
      : a_(a), sample_(sample), scale_(static_cast<float>(a.scale)), dropped_(a) {}

  __device__ float operator()(bool whole, int64_t head, int64_t query, int64_t key,
                              float product) const {
    if constexpr (masked) return attention_score(a_, sample_, head, query, key, product);
    bool there = whole || (query < a_.queries && key < a_.keys && (!a_.causal || key <= query));
    return there ? product * scale_ : -math::infinity<float>;
  }
  __device__ float kept(int64_t head, int64_t query, int64_t key) {
    if constexpr (random) return dropped_(sample_, head, query, key);
    return 1;
  }
  // The product becomes its weight times what is kept, the weight's gradient the product's.
  __device__ void differentiate(bool whole, int64_t head, int64_t query, int64_t key,
                                float log_sum, float dot, float& product, float& grad) {
    float score = (*this)(whole, head, query, key, product), keep = kept(head, query, key);
    float weight = score == -math::infinity<float> ? 0
                                                   : power_of_two((score - log_sum) * log2_of_e);
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

// The i-th of a lane's columns / 4 scores in a row, in an order in which neighbours share random words:
// columns that are 16 apart.
template <int columns> struct PlaceInRow {
  int block, second;  // of 8 columns, and which of the lane's two in it
  __device__ explicit constexpr PlaceInRow(int i)
      : block(i % (columns / 16) * 2 + i / (columns / 16) % 2), second(i / (columns / 8)) {}
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
template <int columns, int width, class S>
__device__ void soften(const AttentionArgs& a, S& of, int64_t head, int64_t row, int64_t begin,
                       float (&scores)[columns / 8][4], float (&sums)[width / 8][4],
                       float (&largest)[2], float (&total)[2]) {
  int lane = threadIdx.x & 31;
  bool whole = is_whole(a, row, 16, begin, columns);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    int64_t query = row + lane / 4 + r * 8, key = begin + lane % 4 * 2;
    float most = largest[r];
#pragma unroll
    for (int n = 0; n < columns / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& score = scores[n][2 * r + c];
        score = of(whole, head, query, key + n * 8 + c, score);
        most = math::maximum(most, score);
      }
    most = join_lanes_of_row(most, true);
    float base = most == -math::infinity<float> ? 0 : most, sum = 0;
    float correction = power_of_two((largest[r] - base) * log2_of_e);
#pragma unroll
    for (int i = 0; i < columns / 4; ++i) {
      PlaceInRow<columns> at(i);
      float& score = scores[at.block][2 * r + at.second];
      float weight = power_of_two((score - base) * log2_of_e);
      sum += weight;
      score = weight * of.kept(head, query, key + at.block * 8 + at.second);
    }
    total[r] = total[r] * correction + join_lanes_of_row(sum, false);
    largest[r] = most;
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) sums[n][2 * r + c] *= correction;
  }
}

// Shared memory: the queries' tile, the keys', the values'.
template <class T, int width, int columns, bool masked, bool random>
__global__ void __launch_bounds__(flash_threads) flash_forward(const __grid_constant__ AttentionArgs a) {
  RL_DYNAMIC_SHARED(T, queries);
  T *keys = queries + flash_rows * (width + 8), *values = keys + columns * (width + 8);
  int64_t blocks = (a.queries + flash_rows - 1) / flash_rows, group = a.heads / a.shared_heads;
  int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  FlashTask task{blockIdx.x / blocks / a.heads, blockIdx.x / blocks % a.heads,
                 (blocks - 1 - blockIdx.x % blocks) * flash_rows};
  int64_t shared = task.head / group, row = task.first + warp * 16;
  int64_t end = a.causal && task.first + flash_rows < a.keys ? task.first + flash_rows : a.keys;
  Scores<masked, random> scores_of(a, task.sample);
  float sums[width / 8][4], largest[2] = {-math::infinity<float>, -math::infinity<float>},
                            total[2] = {0, 0};
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  copy_tile<flash_rows, width>(queries, a.query, task.sample, task.head, task.first, a.queries,
                               a.width);
  copy_tile<columns, width>(keys, a.key, task.sample, shared, 0, a.keys, a.width);
  commit_copies();
  for (int64_t begin = 0; begin < end; begin += columns) {
    wait_for_copies<0>();
    __syncthreads();  // the keys are there, the last values were read
    copy_tile<columns, width>(values, a.value, task.sample, shared, begin, a.keys, a.value_width);
    commit_copies();
    float scores[columns / 8][4];
    multiply_rows<columns, width>(scores, queries, warp * 16, keys);
    wait_for_copies<0>();
    __syncthreads();  // the values are there, the keys were read
    if (begin + columns < end) {
      copy_tile<columns, width>(keys, a.key, task.sample, shared, begin + columns, a.keys, a.width);
      commit_copies();
    }
    soften<columns, width>(a, scores_of, task.head, row, begin, scores, sums, largest, total);
    add_weighted_rows<columns, width>(sums, scores, values);
  }
  for (int r = 0; r < 2; ++r) {
    bool dead = largest[r] == -math::infinity<float>;
    int64_t query = row + lane / 4 + r * 8;
    if (lane % 4 == 0 && query < a.queries)
      static_cast<float*>(a.log_sum)[(task.sample * a.heads + task.head) * a.queries + query] =
          dead ? -math::infinity<float> : largest[r] + math::log(total[r]);
    float factor = dead ? 0 : 1 / total[r];
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
      for (int c = 0; c < 2; ++c) sums[n][2 * r + c] *= factor;
  }
  write_rows<width, T>(a.out, task.sample, task.head, row, a.queries, a.value_width, sums);
}

// The gradients of a tile of queries. Shared memory: queries, their results' gradients, keys, values.
template <class T, int width, int columns, bool masked, bool random>
__global__ void __launch_bounds__(flash_threads) flash_query_gradients(const __grid_constant__ AttentionArgs a) {
  RL_DYNAMIC_SHARED(T, queries);
  T *grads = queries + flash_rows * (width + 8), *keys = grads + flash_rows * (width + 8),
    *values = keys + columns * (width + 8);
  int64_t blocks = (a.queries + flash_rows - 1) / flash_rows, group = a.heads / a.shared_heads;
  int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  FlashTask task{blockIdx.x / blocks / a.heads, blockIdx.x / blocks % a.heads,
                 (blocks - 1 - blockIdx.x % blocks) * flash_rows};
  int64_t shared = task.head / group, row = task.first + warp * 16;
  int64_t end = a.causal && task.first + flash_rows < a.keys ? task.first + flash_rows : a.keys;
  int64_t line = (task.sample * a.heads + task.head) * a.queries;
  Scores<masked, random> scores_of(a, task.sample);
  float sums[width / 8][4], log_sum[2], dot[2];
  for (int r = 0; r < 2; ++r) {
    int64_t query = row + lane / 4 + r * 8;
    bool inside = query < a.queries;
    log_sum[r] = inside ? static_cast<const float*>(a.log_sum)[line + query] : 0;
    dot[r] = inside ? static_cast<const float*>(a.dots)[line + query] : 0;
  }
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  copy_tile<flash_rows, width>(queries, a.query, task.sample, task.head, task.first, a.queries,
                               a.width);
  copy_tile<flash_rows, width>(grads, a.grad, task.sample, task.head, task.first, a.queries,
                               a.value_width);
  for (int64_t begin = 0; begin < end; begin += columns) {
    __syncthreads();  // the last tiles were read
    copy_tile<columns, width>(keys, a.key, task.sample, shared, begin, a.keys, a.width);
    copy_tile<columns, width>(values, a.value, task.sample, shared, begin, a.keys, a.value_width);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    float products[columns / 8][4], slopes[columns / 8][4];
    multiply_rows<columns, width>(products, queries, warp * 16, keys);
    multiply_rows<columns, width>(slopes, grads, warp * 16, values);
    bool whole = is_whole(a, row, 16, begin, columns);
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int i = 0; i < columns / 4; ++i) {
        PlaceInRow<columns> at(i);
        int c = 2 * r + at.second;
        scores_of.differentiate(whole, task.head, row + lane / 4 + r * 8,
                                begin + at.block * 8 + lane % 4 * 2 + at.second, log_sum[r], dot[r],
                                products[at.block][c], slopes[at.block][c]);
      }
    add_weighted_rows<columns, width>(sums, slopes, keys);
  }
  write_rows<width, T>(a.grad_query, task.sample, task.head, row, a.queries, a.width, sums);
}

// The gradients of a tile of keys and values: rows of tiles are keys, columns queries. Shared memory:
// keys, values, queries, their results' gradients, and log_sum and dots of those.
template <class T, int width, int columns, bool masked, bool random>
__global__ void __launch_bounds__(flash_threads) flash_key_gradients(const __grid_constant__ AttentionArgs a) {
  RL_DYNAMIC_SHARED(T, keys);
  T *values = keys + flash_rows * (width + 8), *queries = values + flash_rows * (width + 8),
    *grads = queries + columns * (width + 8);
  auto* log_sums = reinterpret_cast<float*>(grads + columns * (width + 8));
  float* dots = log_sums + columns;
  int64_t blocks = (a.keys + flash_rows - 1) / flash_rows, group = a.heads / a.shared_heads;
  int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  int64_t sample = blockIdx.x / blocks / a.shared_heads;
  int64_t shared = blockIdx.x / blocks % a.shared_heads, first = blockIdx.x % blocks * flash_rows;
  int64_t row = first + warp * 16;
  Scores<masked, random> scores_of(a, sample);
  float key_sums[width / 8][4], value_sums[width / 8][4];
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
    for (int i = 0; i < 4; ++i) key_sums[n][i] = value_sums[n][i] = 0;
  copy_tile<flash_rows, width>(keys, a.key, sample, shared, first, a.keys, a.width);
  copy_tile<flash_rows, width>(values, a.value, sample, shared, first, a.keys, a.value_width);
  for (int64_t head = shared * group; head < (shared + 1) * group; ++head)
    for (int64_t begin = a.causal ? first : 0; begin < a.queries; begin += columns) {
      __syncthreads();  // the last tiles were read
      copy_tile<columns, width>(queries, a.query, sample, head, begin, a.queries, a.width);
      copy_tile<columns, width>(grads, a.grad, sample, head, begin, a.queries, a.value_width);
      commit_copies();
      if (threadIdx.x < columns) {
        int64_t query = begin + threadIdx.x, line = (sample * a.heads + head) * a.queries + query;
        bool inside = query < a.queries;
        log_sums[threadIdx.x] = inside ? static_cast<const float*>(a.log_sum)[line] : 0;
        dots[threadIdx.x] = inside ? static_cast<const float*>(a.dots)[line] : 0;
      }
      wait_for_copies<0>();
      __syncthreads();
      float products[columns / 8][4], slopes[columns / 8][4];
      multiply_rows<columns, width>(products, keys, warp * 16, queries);
      multiply_rows<columns, width>(slopes, values, warp * 16, grads);
      bool whole = is_whole(a, begin, columns, row, 16);
#pragma unroll
      for (int n = 0; n < columns / 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            int column = n * 8 + lane % 4 * 2 + c;
            scores_of.differentiate(whole, head, begin + column, row + lane / 4 + r * 8,
                                    log_sums[column], dots[column], products[n][2 * r + c],
                                    slopes[n][2 * r + c]);
          }
      add_weighted_rows<columns, width>(value_sums, products, grads);
      add_weighted_rows<columns, width>(key_sums, slopes, queries);
    }
  write_rows<width, T>(a.grad_key, sample, shared, row, a.keys, a.width, key_sums);
  write_rows<width, T>(a.grad_value, sample, shared, row, a.keys, a.value_width, value_sums);
}

}  // namespace rl::cuda
