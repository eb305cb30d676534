// Attention of 16-bit floats on tensor cores, in tiles as in attention.cuh. Each warp of a block has
// 16 rows, or in the forward pass `tiles` times as many; columns of scores come 64 or 32 at a time,
// and the next ones are copied meanwhile. `width` is the width of heads, padded by zeros. `groups` is
// the number of warpgroups of a block; 0 for four warps without them.
#pragma once
#include "kernels/cuda/device/attention.cuh"
#include "kernels/cuda/device/flash_products.cuh"

namespace rl::cuda {

constexpr float log2_of_e = 1.44269504088896341f;

template <class T, int width, int tiles, int groups>
using ProductsOf = std::conditional_t<groups == 0, WarpProducts<T, width, tiles>,
                                      GroupProducts<T, width, groups == 0 ? 1 : groups>>;

// What a block works on.
struct FlashTask {
  int64_t sample, head, first;
};

// Begins to copy rows [begin, begin + rows) of a head's matrix; zeros beyond its rows and columns. A
// thread takes a pack of 16 bytes in every so many rows.
template <class Products, int rows, int width, class T>
__device__ void copy_tile(T* to, const HeadMatrices& m, int64_t sample, int64_t head, int64_t begin,
                          int64_t row_count, int64_t column_count) {
  constexpr unsigned packs = width / 8, step = Products::threads / packs;
  const T* whole = static_cast<const T*>(m.data) + sample * m.sample + head * m.head;
  unsigned row = threadIdx.x / packs, column = threadIdx.x % packs * 8;
  const T* from = whole + (begin + row) * m.row + column;
  int64_t left = column < column_count ? row_count - begin : 0;
#pragma unroll
  for (unsigned i = 0; i < rows; i += step, from += step * m.row) {
    if (rows % step && row + i >= rows) break;
    bool inside = row + i < left;
    copy_async(to + Products::template place<rows>(row + i, column), inside ? from : whole, inside);
  }
}

// The same of keys, and behind them of their values.
template <class Products, int columns, int width, class T>
__device__ void copy_keys_and_values(T* to, const AttentionArgs& a, int64_t sample, int64_t head,
                                     int64_t begin) {
  copy_tile<Products, columns, width>(to, a.key, sample, head, begin, a.keys, a.width);
  copy_tile<Products, columns, width>(to + Products::template size<columns>, a.value, sample, head,
                                      begin, a.keys, a.value_width);
  commit_copies();
}
// What was copied, but for the last `under_way` commits, is there for all, and what is replaced next
// was read.
template <class Products, int under_way = 0> __device__ void arrive() {
  wait_for_copies<under_way>();
  Products::show();
  __syncthreads();
}

template <int width, class T>
__device__ void write_rows(const HeadMatrices& m, int64_t sample, int64_t head, int64_t row,
                           int64_t row_count, int64_t column_count,
                           const float (&sums)[width / 8][4], float factor) {
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
            pack_pair<T>(sums[n][2 * half_of] * factor, sums[n][2 * half_of + 1] * factor);
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

// Scores, whose `unit` is a power of two (of products, which are not scaled before, a positive one),
// and what dropout keeps of weights; only what `masked` and `random` ask for is looked at, and of
// whether a key is there only where `masked`.
template <bool masked, bool random> class Scores {
 public:
  __device__ Scores(const AttentionArgs& a, int64_t sample)
      : a_(a),
        sample_(sample),
        unit_(masked ? 1 : static_cast<float>(a.scale) * log2_of_e),
        dropped_(a) {}

  __device__ float unit() const { return unit_; }
  __device__ float operator()(int64_t head, int64_t query, int64_t key, float product) const {
    if constexpr (masked)
      return attention_score(a_, sample_, head, query, key, product) * log2_of_e;
    return product;
  }
  // What dropout multiplies the weights of a query and the eighth after it by, for a key and the
  // eighth after it: (query, key), (query, key + 8), (query + 8, key), (query + 8, key + 8).
  __device__ void group(float (&factors)[4], int64_t head, int64_t query, int64_t key) const {
    if constexpr (random) dropped_.group(factors, sample_, head, query, key);
    else
      for (float& factor : factors) factor = 1;
  }
  // The product becomes its weight times `keep`, the weight's gradient the product's before it is
  // scaled. log_sum is that of powers of two.
  __device__ void differentiate(bool there, int64_t head, int64_t query, int64_t key,
                                float log_sum, float dot, float keep, float& product,
                                float& grad) const {
    float score = (*this)(head, query, key, product);
    if constexpr (masked) there = score != -math::infinity<float>;
    float weight = there ? power_of_two(math::product_minus(score, unit_, log_sum)) : 0;
    grad = weight * math::product_minus(grad, keep, dot);
    product = weight * keep;
  }

 private:
  struct KeepsAll {
    __device__ explicit KeepsAll(const AttentionArgs&) {}
  };
  const AttentionArgs& a_;
  int64_t sample_;
  float unit_;
  std::conditional_t<random, Dropped<float>, KeepsAll> dropped_;
};

__device__ inline float join_lanes_of_row(float value, bool maximum) {
  for (int step = 1; step < 4; step *= 2) {
    float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = maximum ? larger_number(value, other) : value + other;
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
    int64_t query = row + lane / 4 + r * 8;
    if constexpr (masked)
#pragma unroll
      for (int n = 0; n < columns / 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c)
          scores[n][2 * r + c] =
              of(head, query, begin + lane % 4 * 2 + n * 8 + c, scores[n][2 * r + c]);
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
      for (int c = 0; c < 2; ++c) most = larger_number(most, scores[n][2 * r + c]);
    most = join_lanes_of_row(most, true);
    float base = most == -math::infinity<float> ? 0 : most * of.unit(), sum = 0;
    float correction = power_of_two(math::product_minus(largest[r], of.unit(), base));
#pragma unroll
    for (int n = 0; n < columns / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        sum += scores[n][2 * r + c] =
            power_of_two(math::product_minus(scores[n][2 * r + c], of.unit(), base));
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
                            float unit, float (&sums)[width / 8][4], const float (&largest)[2],
                            const float (&total)[2]) {
  int lane = threadIdx.x & 31;
  for (int r = 0; r < 2; ++r) {
    bool dead = largest[r] == -math::infinity<float>;
    int64_t query = row + lane / 4 + r * 8;
    if (lane % 4 == 0 && query < a.queries)
      static_cast<float*>(a.log_sum)[(task.sample * a.heads + task.head) * a.queries + query] =
          dead ? -math::infinity<float> : largest[r] * unit / log2_of_e + math::log(total[r]);
    float factor = dead ? 0 : 1 / total[r];
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
      for (int c = 0; c < 2; ++c) sums[n][2 * r + c] *= factor;
  }
  write_rows<width, T>(a.out, task.sample, task.head, row, a.queries, a.value_width, sums, 1);
}

// Shared memory: the queries' tile, then twice the keys' and the values'.
template <class T, int width, int columns, bool masked, bool random, int tiles, int groups>
__global__ void __launch_bounds__(groups ? 128 * groups : 128)
flash_forward(const __grid_constant__ AttentionArgs a) {
  using Products = ProductsOf<T, width, tiles, groups>;
  RL_DYNAMIC_SHARED(T, queries);
  constexpr int rows = Products::rows, step = Products::template size<columns>;
  T* others = queries + Products::template size<rows>;
  int64_t blocks = (a.queries + rows - 1) / rows, group = a.heads / a.shared_heads;
  FlashTask task{blockIdx.x / blocks / a.heads, blockIdx.x / blocks % a.heads,
                 (blocks - 1 - blockIdx.x % blocks) * rows};
  int64_t shared = task.head / group, row = task.first + threadIdx.x / 32 * 16 * tiles;
  int64_t end = a.causal && task.first + rows < a.keys ? task.first + rows : a.keys;
  Scores<masked, random> scores_of(a, task.sample);
  float sums[tiles][width / 8][4], largest[tiles][2], total[tiles][2];
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
  copy_tile<Products, rows, width>(queries, a.query, task.sample, task.head, task.first, a.queries,
                                   a.width);
  commit_copies();
  copy_keys_and_values<Products, columns, width>(others, a, task.sample, shared, 0);
  arrive<Products, 1>();
  typename Products::Left left(queries);
  for (int64_t begin = 0, turn = 0; begin < end; begin += columns, turn ^= 1) {
    const T *keys = others + turn * 2 * step, *values = keys + step;
    arrive<Products>();
    if (begin + columns < end)
      copy_keys_and_values<Products, columns, width>(others + (turn ^ 1) * 2 * step, a, task.sample,
                                                     shared, begin + columns);
    float scores[tiles][columns / 8][4];
    Products::begin();
    Products::template multiply<columns>(scores, left, keys);
    Products::end(scores);
#pragma unroll
    for (int t = 0; t < tiles; ++t)
      soften<columns, width>(a, scores_of, task.head, row + t * 16, begin, scores[t], sums[t],
                             largest[t], total[t]);
    FragmentA weights[tiles][columns / 16];
    pack_weights<T>(weights, scores);
    Products::begin();
    Products::template add_weighted<columns>(sums, weights, values);
    Products::end(sums);
  }
#pragma unroll
  for (int t = 0; t < tiles; ++t)
    finish_rows<width, T>(a, task, row + t * 16, scores_of.unit(), sums[t], largest[t], total[t]);
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
template <class T, int width, int columns, bool masked, bool random, int groups>
__global__ void __launch_bounds__(groups ? 128 * groups : 128)
flash_query_gradients(const __grid_constant__ AttentionArgs a) {
  using Products = ProductsOf<T, width, 1, groups>;
  RL_DYNAMIC_SHARED(T, queries);
  constexpr int rows = Products::rows, step = Products::template size<columns>;
  T *grads = queries + Products::template size<rows>, *others = grads + Products::template size<rows>;
  int64_t blocks = (a.queries + rows - 1) / rows, group = a.heads / a.shared_heads;
  int lane = threadIdx.x & 31;
  FlashTask task{blockIdx.x / blocks / a.heads, blockIdx.x / blocks % a.heads,
                 (blocks - 1 - blockIdx.x % blocks) * rows};
  int64_t shared = task.head / group, row = task.first + threadIdx.x / 32 * 16;
  int64_t end = a.causal && task.first + rows < a.keys ? task.first + rows : a.keys;
  int64_t line = (task.sample * a.heads + task.head) * a.queries;
  Scores<masked, random> scores_of(a, task.sample);
  float sums[1][width / 8][4], log_sum[2], dot[2];
  for (int r = 0; r < 2; ++r) {
    int64_t query = row + lane / 4 + r * 8;
    bool inside = query < a.queries;
    log_sum[r] = inside ? static_cast<const float*>(a.log_sum)[line + query] * log2_of_e : 0;
    dot[r] = inside ? static_cast<const float*>(a.dots)[line + query] : 0;
  }
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
    for (int i = 0; i < 4; ++i) sums[0][n][i] = 0;
  copy_tile<Products, rows, width>(queries, a.query, task.sample, task.head, task.first, a.queries,
                                   a.width);
  copy_tile<Products, rows, width>(grads, a.grad, task.sample, task.head, task.first, a.queries,
                                   a.value_width);
  copy_keys_and_values<Products, columns, width>(others, a, task.sample, shared, 0);
  for (int64_t begin = 0, turn = 0; begin < end; begin += columns, turn ^= 1) {
    const T *keys = others + turn * 2 * step, *values = keys + step;
    arrive<Products>();
    if (begin + columns < end)
      copy_keys_and_values<Products, columns, width>(others + (turn ^ 1) * 2 * step, a, task.sample,
                                                     shared, begin + columns);
    float products[1][columns / 8][4], slopes[1][columns / 8][4];
    Products::begin();
    Products::template multiply<columns>(products, queries, keys);
    Products::template multiply<columns>(slopes, grads, values);
    Products::end(products, slopes);
    differentiate_rows<columns>(a, scores_of, task.head, row, begin, log_sum, dot, products[0],
                                slopes[0]);
    FragmentA packed[1][columns / 16];
    pack_weights<T>(packed, slopes);
    Products::begin();
    Products::template add_weighted<columns>(sums, packed, keys);
    Products::end(sums);
  }
  write_rows<width, T>(a.grad_query, task.sample, task.head, row, a.queries, a.width, sums[0],
                       static_cast<float>(a.scale));
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

// Copies of `columns` queries and their results' gradients, and to `numbers` log_sum, of powers of
// two, and dots of those.
template <class Products, int columns, int width, class T>
__device__ void copy_queries_and_grads(T* to, float* numbers, const AttentionArgs& a,
                                       int64_t sample, int64_t head, int64_t begin) {
  copy_tile<Products, columns, width>(to, a.query, sample, head, begin, a.queries, a.width);
  copy_tile<Products, columns, width>(to + Products::template size<columns>, a.grad, sample, head,
                                      begin, a.queries, a.value_width);
  commit_copies();
  if (threadIdx.x >= columns) return;
  int64_t query = begin + threadIdx.x, line = (sample * a.heads + head) * a.queries + query;
  bool inside = query < a.queries;
  numbers[threadIdx.x] = inside ? static_cast<const float*>(a.log_sum)[line] * log2_of_e : 0;
  numbers[threadIdx.x + columns] = inside ? static_cast<const float*>(a.dots)[line] : 0;
}

// The gradients of a tile of keys and values: rows of tiles are keys, columns queries. Shared memory:
// keys, values, twice queries and their results' gradients, and twice log_sum and dots of those.
template <class T, int width, int columns, bool masked, bool random, int groups>
__global__ void __launch_bounds__(groups ? 128 * groups : 128)
flash_key_gradients(const __grid_constant__ AttentionArgs a) {
  using Products = ProductsOf<T, width, 1, groups>;
  RL_DYNAMIC_SHARED(T, keys);
  constexpr int rows = Products::rows, tile = Products::template size<columns>, step = 2 * tile;
  T *values = keys + Products::template size<rows>, *others = values + Products::template size<rows>;
  auto* numbers = reinterpret_cast<float*>(others + 2 * step);
  int64_t blocks = (a.keys + rows - 1) / rows, group = a.heads / a.shared_heads;
  int64_t sample = blockIdx.x / blocks / a.shared_heads;
  int64_t shared = blockIdx.x / blocks % a.shared_heads, first = blockIdx.x % blocks * rows;
  int64_t row = first + threadIdx.x / 32 * 16;
  Scores<masked, random> scores_of(a, sample);
  float key_sums[1][width / 8][4], value_sums[1][width / 8][4];
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
    for (int i = 0; i < 4; ++i) key_sums[0][n][i] = value_sums[0][n][i] = 0;
  copy_tile<Products, rows, width>(keys, a.key, sample, shared, first, a.keys, a.width);
  copy_tile<Products, rows, width>(values, a.value, sample, shared, first, a.keys, a.value_width);
  int64_t start = a.causal ? first / columns * columns : 0, head = shared * group;
  if (start < a.queries)
    copy_queries_and_grads<Products, columns, width>(others, numbers, a, sample, head, start);
  for (int64_t begin = start, turn = 0; begin < a.queries; turn ^= 1) {
    const T *queries = others + turn * step, *grads = queries + tile;
    const float *log_sums = numbers + turn * 2 * columns, *dots = log_sums + columns;
    int64_t of_head = head, of_begin = begin;
    begin += columns;
    if (begin >= a.queries && head + 1 < (shared + 1) * group) {
      ++head;
      begin = start;
    }
    arrive<Products>();
    if (begin < a.queries)
      copy_queries_and_grads<Products, columns, width>(others + (turn ^ 1) * step,
                                                       numbers + (turn ^ 1) * 2 * columns, a,
                                                       sample, head, begin);
    float products[1][columns / 8][4], slopes[1][columns / 8][4];
    Products::begin();
    Products::template multiply<columns>(products, keys, queries);
    Products::template multiply<columns>(slopes, values, grads);
    Products::end(products, slopes);
    differentiate_columns<columns>(a, scores_of, of_head, of_begin, row, log_sums, dots,
                                   products[0], slopes[0]);
    FragmentA weights[1][columns / 16], packed[1][columns / 16];
    pack_weights<T>(weights, products);
    pack_weights<T>(packed, slopes);
    Products::begin();
    Products::template add_weighted<columns>(value_sums, weights, grads);
    Products::template add_weighted<columns>(key_sums, packed, queries);
    Products::end(value_sums, key_sums);
  }
  write_rows<width, T>(a.grad_key, sample, shared, row, a.keys, a.width, key_sums[0],
                       static_cast<float>(a.scale));
  write_rows<width, T>(a.grad_value, sample, shared, row, a.keys, a.value_width, value_sums[0], 1);
}

}  // namespace rl::cuda
