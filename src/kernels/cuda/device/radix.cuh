// Sorting and selection by digits of keys: of 8 bits, the last one first where lines are sorted, the
// first one first where one key is searched. Stable, and the same each time.
#pragma once
#include "kernels/cuda/device/prelude.cuh"
#include "kernels/cuda/device/radix.h"

namespace rl::cuda {

// ---- keys: unsigned integers that are ordered as the elements. NaN is the greatest; zeros are equal

template <int bytes> struct UnsignedOf;
template <> struct UnsignedOf<1> { using type = uint8_t; };
template <> struct UnsignedOf<2> { using type = uint16_t; };
template <> struct UnsignedOf<4> { using type = uint32_t; };
template <> struct UnsignedOf<8> { using type = uint64_t; };
template <class T> using sort_key_t = typename UnsignedOf<sizeof(T)>::type;
template <class T> inline constexpr bool has_nan = math::is_float_v<compute_t<T>>;
template <class K> inline constexpr K top_bit = static_cast<K>(K(1) << (8 * sizeof(K) - 1));
template <class K> inline constexpr K nan_key = static_cast<K>(~K(0));

template <class T> __device__ sort_key_t<T> sort_key(T x, bool descending) {
  using K = sort_key_t<T>;
  constexpr K top = top_bit<K>;
  K bits;
  if constexpr (std::is_same_v<T, Bool>) bits = static_cast<bool>(x);
  else __builtin_memcpy(&bits, &x, sizeof(T));
  if constexpr (has_nan<T>) {
    if (math::isnan(static_cast<compute_t<T>>(x))) bits = nan_key<K>;
    else if (static_cast<K>(bits & ~top) == 0) bits = top;
    else bits = static_cast<K>(bits & top ? ~bits : bits | top);
  } else if constexpr (std::is_signed_v<T>) {
    bits = static_cast<K>(bits ^ top);
  }
  return descending ? static_cast<K>(~bits) : bits;
}
// The element of a key, but for zeros and NaNs, of which a key keeps no sign: false.
template <class T> __device__ bool element_of(sort_key_t<T> key, bool descending, T& x) {
  using K = sort_key_t<T>;
  constexpr K top = top_bit<K>;
  K bits = descending ? static_cast<K>(~key) : key;
  if constexpr (std::is_same_v<T, Bool>) {
    x = Bool(bits != 0);
    return true;
  } else if constexpr (has_nan<T>) {
    if (bits == top || bits == nan_key<K>) return false;
    bits = static_cast<K>(bits & top ? bits ^ top : ~bits);
  } else if constexpr (std::is_signed_v<T>) {
    bits = static_cast<K>(bits ^ top);
  }
  __builtin_memcpy(&x, &bits, sizeof(T));
  return true;
}
template <class K> __device__ unsigned digit_of(K key, int shift) {
  return static_cast<unsigned>(key >> shift) & (radix_digits - 1);
}

// ---- threads of a block

// Sums of the values up to each thread's, over a warp or the block: whatever a row of threads is.
template <class T> __device__ T scan_threads(T value, T& total) {
  __shared__ T of_warps[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int step = 1; step < 32; step *= 2) {
    T before = __shfl_up_sync(0xffffffffu, value, step);
    if (lane >= step) value += before;
  }
  if (warps == 1) {
    total = __shfl_sync(0xffffffffu, value, 31);
    return value;
  }
  __syncthreads();  // those of the call before were read
  if (lane == 31) of_warps[warp] = value;
  __syncthreads();
  total = 0;
  T below = 0;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) below = total;
    total += of_warps[w];
  }
  return value + below;
}
// Those of the lanes `active` that have the same digit.
__device__ inline unsigned peers_of(unsigned digit, unsigned active) {
  for (int bit = 0; bit < 8; ++bit) {
    bool set = digit >> bit & 1;
    unsigned with = __ballot_sync(0xffffffffu, set);
    active &= set ? with : ~with;
  }
  return active;
}
__device__ inline unsigned lanes_below() { return (1u << (threadIdx.x & 31)) - 1; }
// Counts the digits of a warp, each kind of digit by one addition.
__device__ inline void count_digit(unsigned* counts, unsigned digit, bool inside) {
  unsigned active = __ballot_sync(0xffffffffu, inside);
  if (!active) return;
  unsigned peers = peers_of(digit, active);
  if (inside && !(peers & lanes_below()))
    atomicAdd(counts + digit, static_cast<unsigned>(__popc(peers)));
}

// ---- sorting: for each digit, counts in each tile, where each tile's begin, and the move

template <class K, class P>
inline constexpr int largest_size = sizeof(K) > sizeof(P) ? sizeof(K) : sizeof(P);

struct KeyBits {
  uint64_t set = 0, unset = 0;
  static __device__ KeyBits join(KeyBits a, KeyBits b) {
    a.set |= b.set;
    a.unset |= b.unset;
    return a;
  }
};
__device__ inline void add_bits(uint64_t* to, uint64_t bits) {
  if (bits & ~*to)
    atomicOr(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(bits));
}
__device__ inline bool has_pass(const RadixBuffers& b, int shift) {
  return (b.bits[0] & b.bits[1]) >> shift & (radix_digits - 1);
}
// How many passes there are below a shift: of them, the keys lie in the last one's result.
__device__ inline int passes_below(const RadixBuffers& b, int shift) {
  int passes = 0;
  for (int s = 0; s < shift; s += 8) passes += has_pass(b, s);
  return passes;
}

// Buffers are chosen by a condition: a variable index would copy their pointers to local memory.
template <class K> __device__ K* keys_in(const RadixBuffers& b, int second) {
  return static_cast<K*>(second ? b.keys[1] : b.keys[0]);
}
template <class P> __device__ P* places_in(const RadixBuffers& b, int second) {
  return static_cast<P*>(second ? b.places[1] : b.places[0]);
}

template <class T, class P>
__global__ void radix_load(Strided input, RadixLines lines, RadixBuffers buffers) {
  using K = sort_key_t<T>;
  constexpr int items = radix_items(largest_size<T, P>);
  K* keys = keys_in<K>(buffers, 0);
  for (int64_t job = blockIdx.x; job < input.numel * lines.tiles; job += gridDim.x) {
    int64_t row = job / lines.tiles, i = job % lines.tiles * items * radix_digits + threadIdx.x;
    const T* x = static_cast<const T*>(input.data) + offset_of(input, row);
    KeyBits bits;
#pragma unroll
    for (int j = 0; j < items; ++j, i += radix_digits) {
      if (i >= lines.count) continue;
      K key = sort_key(x[i * lines.step], lines.descending);
      bits.set |= key;
      bits.unset |= static_cast<K>(~key);
      keys[row * lines.count + i] = key;
    }
    bits = block_reduce(bits, KeyBits());
    if (threadIdx.x) continue;
    add_bits(buffers.bits, bits.set);
    add_bits(buffers.bits + 1, bits.unset);
  }
}

// counts[line][digit][tile]
template <class K, class P>
__global__ void radix_count(RadixBuffers buffers, int64_t rows, RadixLines lines, int shift,
                            P* counts) {
  constexpr int items = radix_items(largest_size<K, P>);
  if (!has_pass(buffers, shift)) return;
  const K* keys = keys_in<K>(buffers, passes_below(buffers, shift) % 2);
  __shared__ unsigned own[radix_digits];
  for (int64_t job = blockIdx.x; job < rows * lines.tiles; job += gridDim.x) {
    int64_t row = job / lines.tiles, tile = job % lines.tiles;
    int64_t first = tile * items * radix_digits + threadIdx.x;
    K key[items];
#pragma unroll
    for (int j = 0; j < items; ++j) {
      int64_t i = first + j * radix_digits;
      key[j] = i < lines.count ? keys[row * lines.count + i] : K(0);
    }
    __syncthreads();  // the counts of the tile before were read
    own[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < items; ++j)
      count_digit(own, digit_of(key[j], shift), first + j * radix_digits < lines.count);
    __syncthreads();
    counts[(row * radix_digits + threadIdx.x) * lines.tiles + tile] = own[threadIdx.x];
  }
}

// Of each row of counts: the sums before each, and that of all. Rows of threads take one each.
template <class P>
__global__ void radix_offsets(RadixBuffers buffers, int shift, P* counts, int64_t rows,
                              int64_t tiles, P* totals) {
  if (buffers.bits && !has_pass(buffers, shift)) return;
  for (int64_t row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += int64_t(gridDim.x) * blockDim.y) {
    P carry = 0;
    for (int64_t begin = 0; begin < tiles; begin += blockDim.x) {
      int64_t i = begin + threadIdx.x;
      P value = i < tiles ? counts[row * tiles + i] : P(0), total;
      P sum = scan_threads(value, total);
      if (i < tiles) counts[row * tiles + i] = carry + sum - value;
      carry += total;
    }
    if (threadIdx.x == 0) totals[row] = carry;
  }
}

// How many keys of the tile come before each of a thread's: those with smaller digits, and those
// with its digit before it. ranks[warp][digit] is 0 before, begins where the tile's digits begin.
template <class K, int items>
__device__ void rank_digits(const K (&key)[items], int first, int size, int shift,
                            unsigned (*ranks)[radix_digits], unsigned& begins, unsigned (&at)[items]) {
  int warp = threadIdx.x >> 5;
#pragma unroll
  for (int j = 0; j < items; ++j) {
    bool inside = first + j * 32 < size;
    unsigned digit = digit_of(key[j], shift);
    unsigned peers = peers_of(digit, __ballot_sync(0xffffffffu, inside));
    unsigned below = __popc(peers & lanes_below()), before = inside ? ranks[warp][digit] : 0;
    __syncwarp();
    if (inside && !below) ranks[warp][digit] = before + __popc(peers);
    __syncwarp();
    at[j] = before + below;
  }
  __syncthreads();
  unsigned sum = 0, total;
  for (int w = 0; w < radix_digits / 32; ++w) {
    unsigned own = ranks[w][threadIdx.x];
    ranks[w][threadIdx.x] = sum;
    sum += own;
  }
  begins = scan_threads(sum, total) - sum;
  for (int w = 0; w < radix_digits / 32; ++w) ranks[w][threadIdx.x] += begins;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < items; ++j)
    if (first + j * 32 < size) at[j] += ranks[warp][digit_of(key[j], shift)];
}

// The keys and places of a tile in the order of a digit, first within shared memory, so that
// neighbours there go to neighbours.
template <class K, class P>
__global__ void __launch_bounds__(radix_digits, 3)
    radix_scatter(RadixBuffers buffers, int64_t rows, RadixLines lines, int shift, const P* counts,
                  const P* totals) {
  constexpr int items = radix_items(largest_size<K, P>), tile_size = items * radix_digits;
  __shared__ P own_places[tile_size];
  __shared__ K own_keys[tile_size];
  __shared__ unsigned ranks[radix_digits / 32][radix_digits];
  __shared__ P bases[radix_digits];  // where a digit's keys go, less where they lie in the tile
  if (!has_pass(buffers, shift)) return;
  int passes = passes_below(buffers, shift), from = passes % 2;
  const K* keys = keys_in<K>(buffers, from);
  const P* places = passes ? places_in<P>(buffers, from) : nullptr;
  K* keys_to = keys_in<K>(buffers, 1 - from);
  P* places_to = places_in<P>(buffers, 1 - from);
  for (int64_t job = blockIdx.x; job < rows * lines.tiles; job += gridDim.x) {
    int64_t row = job / lines.tiles, tile = job % lines.tiles, left = lines.count - tile * tile_size;
    int64_t line = row * lines.count, begin = line + tile * tile_size;
    int size = left < tile_size ? static_cast<int>(left) : tile_size;
    int first = (threadIdx.x >> 5) * items * 32 + (threadIdx.x & 31);
    K key[items];
    unsigned at[items], begins;
    P total, of_digit = totals[row * radix_digits + threadIdx.x];
#pragma unroll
    for (int j = 0; j < items; ++j)
      key[j] = first + j * 32 < size ? keys[begin + first + j * 32] : K(0);
    for (int w = 0; w < radix_digits / 32; ++w) ranks[w][threadIdx.x] = 0;
    __syncthreads();
    rank_digits(key, first, size, shift, ranks, begins, at);
    bases[threadIdx.x] = scan_threads(of_digit, total) - of_digit - begins +
                         counts[(row * radix_digits + threadIdx.x) * lines.tiles + tile];
#pragma unroll
    for (int j = 0; j < items; ++j) {
      int i = first + j * 32;
      if (i >= size) continue;
      own_keys[at[j]] = key[j];
      own_places[at[j]] = places ? places[begin + i] : static_cast<P>(begin - line + i);
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < items; ++j) {
      int i = threadIdx.x + j * radix_digits;
      if (i >= size) continue;
      K moved = own_keys[i];
      P to = bases[digit_of(moved, shift)] + i;
      keys_to[line + to] = moved;
      places_to[line + to] = own_places[i];
    }
    __syncthreads();  // before the next tile's
  }
}

// The `take` elements from `first` on of each sorted line. Places lead through `through` if it is
// there: it has the lines' places in others.
template <class T, class P>
__global__ void radix_store(RadixBuffers buffers, Strided input, RadixLines lines, int64_t first,
                            int64_t take, const int64_t* through, Strided values,
                            int64_t value_step, Strided indices, int64_t index_step) {
  constexpr int64_t tile = 4 * radix_digits;
  int passes = passes_below(buffers, 8 * sizeof(T));
  const auto* keys = keys_in<sort_key_t<T>>(buffers, passes % 2);
  const P* places = places_in<P>(buffers, passes % 2);
  int64_t tiles = (take + tile - 1) / tile;
  for (int64_t job = blockIdx.x; job < input.numel * tiles; job += gridDim.x) {
    int64_t row = job / tiles, k = job % tiles * tile + threadIdx.x;
    int64_t index_begin = offset_of(indices, row), value_begin = 0;
    if (values.data) value_begin = offset_of(values, row);
    const T* x = static_cast<const T*>(input.data) + offset_of(input, row);
#pragma unroll
    for (int j = 0; j < 4; ++j, k += radix_digits) {
      if (k >= take) continue;
      int64_t at = row * lines.count + first + k;
      int64_t place = passes ? static_cast<int64_t>(places[at]) : first + k;
      if (values.data) {
        T value;
        if (!element_of<T>(keys[at], lines.descending, value)) value = x[place * lines.step];
        static_cast<T*>(values.data)[value_begin + k * value_step] = value;
      }
      if (through) place = through[row * lines.count + place];
      static_cast<int64_t*>(indices.data)[index_begin + k * index_step] = place;
    }
  }
}

// ---- selection: the key of a rank, digit by digit

template <class T> __global__ void count_nans(Strided input, RadixLines lines, SelectState* states) {
  constexpr int items = radix_items(sizeof(T));
  for (int64_t job = blockIdx.x; job < input.numel * lines.tiles; job += gridDim.x) {
    int64_t row = job / lines.tiles, i = job % lines.tiles * items * radix_digits + threadIdx.x;
    const T* x = static_cast<const T*>(input.data) + offset_of(input, row);
    unsigned nans = 0;
#pragma unroll
    for (int j = 0; j < items; ++j, i += radix_digits)
      if (i < lines.count) nans += math::isnan(static_cast<compute_t<T>>(x[i * lines.step]));
    nans = block_sum(nans);
    if (threadIdx.x == 0 && nans) add_at(&states[row].nans, static_cast<int64_t>(nans));
  }
}
template <int unused>
__global__ void select_begin(SelectState* states, int64_t rows, int64_t count, int64_t rank,
                             int kind) {
  for (int64_t row = thread_id(); row < rows; row += thread_count()) {
    int64_t nans = states[row].nans, numbers = count - nans;
    if (kind == SelectMedian) rank = nans ? numbers : (count - 1) / 2;  // the first NaN
    if (kind == SelectMedianOfNumbers) rank = numbers ? (numbers - 1) / 2 : 0;
    states[row].rank = rank;
  }
}

// counts[line][digit], of the keys that begin as the one that is searched.
template <class T>
__global__ void select_count(Strided input, RadixLines lines, int64_t parts, int shift,
                             const SelectState* states, uint64_t* counts) {
  using K = sort_key_t<T>;
  constexpr int ahead = 8;
  __shared__ unsigned own[radix_digits];
  for (int64_t job = blockIdx.x; job < input.numel * parts; job += gridDim.x) {
    int64_t row = job / parts, part = job % parts;
    const T* x = static_cast<const T*>(input.data) + offset_of(input, row);
    if (states[row].done) continue;
    K searched = static_cast<K>(states[row].key), mask = static_cast<K>(states[row].mask);
    __syncthreads();  // the counts of the part before were read
    own[threadIdx.x] = 0;
    __syncthreads();
    int64_t end = lines.count * (part + 1) / parts;
    for (int64_t begin = lines.count * part / parts; begin < end; begin += ahead * radix_digits) {
      K key[ahead];
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        int64_t i = begin + threadIdx.x + j * radix_digits;
        key[j] = i < end ? sort_key(x[i * lines.step], lines.descending) : K(0);
      }
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        bool inside = begin + threadIdx.x + j * radix_digits < end;
        count_digit(own, digit_of(key[j], shift),
                    inside && static_cast<K>(key[j] & mask) == searched);
      }
    }
    __syncthreads();
    if (own[threadIdx.x])
      add_at(counts + row * radix_digits + threadIdx.x, static_cast<uint64_t>(own[threadIdx.x]));
  }
}
template <int unused>
__global__ void select_digit(SelectState* states, int64_t rows, int shift, int only,
                             uint64_t* counts) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    if (states[row].done) continue;
    uint64_t* own = counts + row * radix_digits + threadIdx.x;
    uint64_t equal = *own, total, end = scan_threads(equal, total), begin = end - equal;
    uint64_t rank = static_cast<uint64_t>(states[row].rank);
    *own = 0;  // for the next digit
    __syncthreads();
    if (rank < begin || rank >= end) continue;
    states[row].key |= static_cast<uint64_t>(threadIdx.x) << shift;
    states[row].mask |= uint64_t(radix_digits - 1) << shift;
    states[row].done = only ? equal == 1 : rank - begin + 1 == equal;
    states[row].below += static_cast<int64_t>(begin);
    states[row].equal = static_cast<int64_t>(equal);
    states[row].rank = static_cast<int64_t>(rank - begin);
  }
}

// All equals are taken.
__device__ inline bool takes_all(const SelectState& s) { return s.rank + 1 == s.equal; }

// Of each tile, how many keys are below the one that was found, and how many are equal:
// counts[line][0 or 1][tile].
template <class T>
__global__ void select_tally(Strided input, RadixLines lines, const SelectState* states,
                             int any_order, uint64_t* counts) {
  using K = sort_key_t<T>;
  constexpr int items = radix_items(sizeof(T));
  for (int64_t job = blockIdx.x; job < input.numel * lines.tiles; job += gridDim.x) {
    int64_t row = job / lines.tiles, tile = job % lines.tiles;
    int64_t i = tile * items * radix_digits + threadIdx.x;
    const T* x = static_cast<const T*>(input.data) + offset_of(input, row);
    if (any_order && takes_all(states[row])) continue;
    K found = static_cast<K>(states[row].key), mask = static_cast<K>(states[row].mask);
    unsigned both = 0;  // those that are equal in the upper half
#pragma unroll
    for (int j = 0; j < items; ++j, i += radix_digits) {
      if (i >= lines.count) continue;
      K key = sort_key(x[i * lines.step], lines.descending) & mask;
      both += key < found ? 1u : key == found ? 1u << 16 : 0u;
    }
    both = block_sum(both);
    if (threadIdx.x) continue;
    counts[row * 2 * lines.tiles + tile] = both & 0xffff;
    counts[(row * 2 + 1) * lines.tiles + tile] = both >> 16;
  }
}

// A tile's elements up to the one that was found, in any order.
template <class T>
__device__ void gather_any(const T* x, RadixLines lines, int64_t tile, SelectState* s, T* value_to,
                           int64_t value_step, int64_t* index_to, int64_t index_step) {
  using K = sort_key_t<T>;
  constexpr int items = radix_items(sizeof(T));
  K found = static_cast<K>(s->key), mask = static_cast<K>(s->mask);
  int64_t first = tile * items * radix_digits + threadIdx.x;
  T value[items];
#pragma unroll
  for (int j = 0; j < items; ++j) {
    int64_t i = first + j * radix_digits;
    if (i < lines.count) value[j] = x[i * lines.step];
  }
#pragma unroll
  for (int j = 0; j < items; ++j) {
    int64_t i = first + j * radix_digits;
    if (i >= lines.count || K(sort_key(value[j], lines.descending) & mask) > found) continue;
    auto* taken = reinterpret_cast<unsigned long long*>(&s->taken);
    int64_t to = static_cast<int64_t>(atomicAdd(taken, 1ull));
    value_to[to * value_step] = value[j];
    index_to[to * index_step] = i;
  }
}

// A bit for each of a thread's elements: is it below the one that was found, is it equal? And how many
// of a warp's are below, and, in the upper half, equal.
template <class T>
__device__ unsigned compare_keys(const T* x, RadixLines lines, int64_t first, const SelectState& s,
                                 unsigned& less, unsigned& same) {
  using K = sort_key_t<T>;
  unsigned found = 0;
  less = same = 0;
#pragma unroll
  for (int j = 0; j < radix_items(sizeof(T)); ++j) {
    int64_t i = first + j * 32;
    K key = i < lines.count ? sort_key(x[i * lines.step], lines.descending) & K(s.mask) : K(0);
    bool is_less = i < lines.count && key < K(s.key), is_same = i < lines.count && key == K(s.key);
    less |= unsigned(is_less) << j;
    same |= unsigned(is_same) << j;
    found += __popc(__ballot_sync(0xffffffffu, is_less));
    found += __popc(__ballot_sync(0xffffffffu, is_same)) << 16;
  }
  return found;
}

// The elements up to the one that was found, those below it before its equals, both in the order of
// the line.
template <class T>
__global__ void select_gather(Strided input, RadixLines lines, SelectState* states,
                              const uint64_t* offsets, SelectTaken taken, Strided values,
                              int64_t value_step, Strided indices, int64_t index_step) {
  constexpr int items = radix_items(sizeof(T));
  __shared__ unsigned of_warps[radix_digits / 32];
  int warp = threadIdx.x >> 5;
  for (int64_t job = blockIdx.x; job < input.numel * lines.tiles; job += gridDim.x) {
    int64_t row = job / lines.tiles, tile = job % lines.tiles;
    SelectState s = states[row];
    T* value_to = static_cast<T*>(values.data) + offset_of(values, row);
    int64_t* index_to = static_cast<int64_t*>(indices.data) + offset_of(indices, row);
    for (int64_t i = taken.take + threadIdx.x; tile == 0 && i < taken.padded; i += radix_digits)
      index_to[i * index_step] = -1;
    const T* x = static_cast<const T*>(input.data) + offset_of(input, row);
    if (taken.any_order && takes_all(s)) {
      gather_any(x, lines, tile, states + row, value_to, value_step, index_to, index_step);
      continue;
    }
    const uint64_t* at = offsets + row * 2 * lines.tiles + tile;
    int64_t below = at[0], equal = at[lines.tiles];
    bool last = tile + 1 == lines.tiles;
    bool has_below = !taken.only && (last ? s.below : int64_t(at[1])) > below;
    bool has_equal = equal <= s.rank && (last ? s.equal : int64_t(at[lines.tiles + 1])) > equal;
    if (!has_below && !has_equal) continue;
    int64_t first = (tile * radix_digits + warp * 32) * items + (threadIdx.x & 31);
    unsigned less, same, found = compare_keys(x, lines, first, s, less, same);
    __syncthreads();  // those of the tile before were read
    if ((threadIdx.x & 31) == 0) of_warps[warp] = found;
    __syncthreads();
    for (int w = 0; w < warp; ++w) {
      below += of_warps[w] & 0xffff;
      equal += of_warps[w] >> 16;
    }
    for (int j = 0; j < items; ++j) {
      bool is_less = less >> j & 1, is_same = same >> j & 1;
      unsigned all_less = __ballot_sync(0xffffffffu, is_less);
      unsigned all_same = __ballot_sync(0xffffffffu, is_same);
      int64_t rank = equal + __popc(all_same & lanes_below()), to = -1, i = first + j * 32;
      if (taken.only) to = is_same && rank == s.rank ? 0 : -1;
      else if (is_less) to = below + __popc(all_less & lanes_below());
      else if (is_same && rank <= s.rank) to = s.below + rank;
      if (to >= 0) {
        value_to[to * value_step] = x[i * lines.step];
        index_to[to * index_step] = i;
      }
      below += __popc(all_less);
      equal += __popc(all_same);
    }
  }
}

}  // namespace rl::cuda
