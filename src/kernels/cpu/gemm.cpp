#include "kernels/gemm.h"

#include <algorithm>

#include "kernels/cpu/threads.h"
#include "kernels/gemm_tiles.h"
#include "kernels/workspace.h"

namespace rl::kernels {

namespace {

// The m by n elements of c from (i, j) on.
GemmProblem part_of(const GemmProblem& whole, int64_t i, int64_t j, int64_t m, int64_t n) {
  GemmProblem p = whole;
  int64_t size = itemsize(p.dtype);
  p.m = m, p.n = n;
  p.a = static_cast<const char*>(p.a) + i * p.a_row * size;
  p.b = static_cast<const char*>(p.b) + j * p.b_col * size;
  p.c = static_cast<char*>(p.c) + (i * p.c_row + j * p.c_col) * size;
  if (p.added)
    p.added = static_cast<const char*>(p.added) + (i * p.added_row + j * p.added_col) * size;
  return p;
}

constexpr int64_t packed_bytes = int64_t(8) << 20;  // of b at a time, for all threads

// The grid of tiles that one product is cut into, for threads. Tiles begin at multiples of 16.
struct Tiling {
  int64_t rows = 1, cols = 1;
  Tiling(const GemmProblem& p, int64_t most) {
    double operations =
        2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    // Matrix-vector products are bound by memory: fewer operations fill a thread's while.
    bool vector = p.m == 1 || p.n == 1;
    int64_t least = vector ? 512 : 64;
    double wanted = std::min(static_cast<double>(most), operations / (vector ? 1e6 : 2e6));
    while (static_cast<double>(rows * cols) < wanted) {
      bool by_rows = p.m / rows >= p.n / cols;
      if (std::max(p.m / rows, p.n / cols) < 2 * least) break;
      (by_rows ? rows : cols) *= 2;
    }
  }
  int64_t count() const { return rows * cols; }

  static int64_t border(int64_t n, int64_t index, int64_t parts) {
    return index == parts ? n : n * index / parts / 16 * 16;
  }
  GemmProblem tile(const GemmProblem& whole, int64_t index) const {
    int64_t i = border(whole.m, index / cols, rows), j = border(whole.n, index % cols, cols);
    GemmProblem p = part_of(whole, i, j, border(whole.m, index / cols + 1, rows) - i,
                            border(whole.n, index % cols + 1, cols) - j);
    p.deepest = deepest_block(whole.m, whole.n);
    return p;
  }

  // Would several tiles pack the same part of b?
  bool shares_packing(const GemmProblem& p) const {
    return rows > 1 && p.c_col == 1 && p.n >= 64 &&
           packed_size(p.k, 64) * itemsize(p.dtype) <= packed_bytes;
  }
  GemmProblem packed_tile(const GemmProblem& whole, int64_t index) const {
    int64_t i = border(whole.m, index / cols, rows);
    GemmProblem p = part_of(whole, i, 0, border(whole.m, index / cols + 1, rows) - i, whole.n);
    p.first = border(whole.n, index % cols, cols);
    p.last = border(whole.n, index % cols + 1, cols);
    return p;
  }
};

// `count` products of the batch, from `first` on.
GemmProblem some_of(const GemmProblem& batch, int64_t first, int64_t count) {
  GemmProblem p = batch;
  int64_t size = itemsize(p.dtype);
  p.count = count;
  p.a = static_cast<const char*>(p.a) + first * p.a_step * size;
  p.b = static_cast<const char*>(p.b) + first * p.b_step * size;
  p.c = static_cast<char*>(p.c) + first * p.c_step * size;
  if (p.added) p.added = static_cast<const char*>(p.added) + first * p.added_step * size;
  return p;
}

// One product in tiles that share rows of b, which is packed once for all of them: at 128 rows per
// tile, packing took 40 % of the time. A part of b that is not too large for a copy at a time.
void run_packed(const GemmProblem& whole, const Tiling& tiling) {
  int64_t most = packed_bytes / (whole.k * itemsize(whole.dtype)) / 64 * 64;
  GemmProblem all = whole;
  all.deepest = deepest_block(whole.m, whole.n);
  Workspace packed(packed_size(whole.k, std::min(most, whole.n)) * itemsize(whole.dtype));
  for (int64_t j = 0; j < whole.n; j += most) {
    GemmProblem p = part_of(all, 0, j, whole.m, std::min(most, whole.n - j));
    int64_t units = (p.k + pack_rows - 1) / pack_rows;
    int64_t grain = std::max<int64_t>(1, default_grain / (pack_rows * p.n));
    parallel_for(0, units, grain, [&](int64_t begin, int64_t end) {
      gemm_pack(p, packed.data(), begin * pack_rows, std::min(p.k, end * pack_rows));
    });
    p.packed = packed.data();
    parallel_for(0, tiling.count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) gemm_tiles(tiling.packed_tile(p, i));
    });
  }
}

void run(const GemmProblem& batch) {
  int64_t operations = batch.m * batch.n * batch.k;
  if (batch.count * operations <= 16384) return gemm_tiles(batch);
  int threads = in_parallel_region() ? 1 : num_threads();
  // Two tiles for each thread even out odd numbers of them; a batch is cut as it is.
  Tiling tiling(batch, threads == 1 || batch.count >= 2 * threads ? 1 : 8 * threads);
  int64_t tiles = tiling.count();
  LongWork long_work(2.0 * static_cast<double>(batch.count * batch.m * batch.n) *
                         static_cast<double>(batch.k) >
                     long_operations);
  if (tiling.shares_packing(batch)) {
    for (int64_t i = 0; i < batch.count; ++i) run_packed(some_of(batch, i, 1), tiling);
    return;
  }
  int64_t work = std::max<int64_t>(1, operations / tiles);
  int64_t grain = std::max<int64_t>(1, 4 * default_grain / work);
  parallel_for(0, batch.count * tiles, grain, [&](int64_t begin, int64_t end) {
    if (tiles == 1) return gemm_tiles(some_of(batch, begin, end - begin));
    for (int64_t i = begin; i < end; ++i)
      gemm_tiles(tiling.tile(some_of(batch, i / tiles, 1), i % tiles));
  });
}

// out = beta * out.
template <class T> void scale_values(const View& out, T beta) {
  int64_t d0 = out.ndim == 3 ? out.sizes[0] : 1, s0 = out.ndim == 3 ? out.strides[0] : 0;
  int64_t rows = out.sizes[out.ndim - 2], cols = out.sizes[out.ndim - 1];
  int64_t row = out.strides[out.ndim - 2], col = out.strides[out.ndim - 1];
  for (int64_t b = 0; b < d0; ++b)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) {
        T& x = out.ptr<T>()[b * s0 + i * row + j * col];
        x = beta == T(0) ? T(0) : static_cast<T>(x * beta);
      }
}

void scale_output(const View& out, const Scalar& beta) {
  visit<float, double, int64_t, int32_t, half, bfloat16, uint8_t, int8_t, int16_t, complex64,
        complex128>("matmul", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    scale_values<T>(out, beta.to<T>());
  });
}

bool is_narrow(DType t) { return t == DType::Int8 || t == DType::UInt8 || t == DType::Int16; }

// A matrix, or a batch of them, whose neighbours along `dim` make a pair; after an odd number
// stands a zero.
RowMajor paired(const View& v, int64_t dim) {
  int64_t r = v.ndim - 2, c = v.ndim - 1, terms = v.sizes[dim], size = itemsize(v.dtype);
  Dims sizes(v.shape());
  sizes[dim] = (terms + 1) / 2;
  RowMajor out(sizes, DType::Int32);
  int64_t batches = v.ndim == 3 ? v.sizes[0] : 1, batch = v.ndim == 3 ? v.strides[0] : 0;
  int64_t rows = sizes[r], count = sizes[c], row = v.strides[r], step = v.strides[c];
  (dim == r ? row : step) *= 2;
  const char* next = static_cast<const char*>(v.data) + v.strides[dim] * size;
  int64_t whole_rows = dim == r ? terms / 2 : rows, whole = dim == c ? terms / 2 : count;
  for (int64_t b = 0; b < batches; ++b) {
    auto pair = [&](int64_t i, int64_t j, int64_t m, int64_t n, bool both) {
      int64_t at = (b * batch + i * row + j * step) * size;
      pair_up({v.dtype, static_cast<const char*>(v.data) + at, both ? next + at : nullptr, m, n,
               row, step, out.ptr<uint32_t>() + (b * rows + i) * count + j, count});
    };
    pair(0, 0, whole_rows, whole, true);
    if (whole_rows < rows) pair(rows - 1, 0, 1, count, false);
    if (whole < count) pair(0, count - 1, rows, 1, false);
  }
  return out;
}

// The batch as one matrix of all rows, where they lie evenly apart.
struct Stacked {
  int64_t sizes[2];
  View view;
  explicit Stacked(const View& v)
      : sizes{v.sizes[0] * v.sizes[1], v.sizes[2]},
        view{v.data, sizes, v.strides + 1, 2, v.numel, v.dtype} {}
  static bool can(const View& v) { return v.strides[0] == v.sizes[1] * v.strides[1]; }
};

void multiply(const View& a, const View& b, const View& out, const GemmScale& scale,
              const View& plus, bool pairs) {
  int64_t r = out.ndim - 2, c = out.ndim - 1;
  // One matrix for the whole batch: a single product of all rows.
  if (out.ndim == 3 && a.sizes[0] > 1 && b.strides[0] == 0 && Stacked::can(a) &&
      Stacked::can(out) && Stacked::can(plus)) {
    Stacked sum(plus);
    View one{b.data, b.sizes + 1, b.strides + 1, 2, b.sizes[1] * b.sizes[2], b.dtype};
    return multiply(Stacked(a).view, one, Stacked(out).view, scale, sum.view, pairs);
  }
  GemmProblem batch;
  batch.dtype = out.dtype, batch.pairs = pairs;
  batch.m = out.sizes[r], batch.n = out.sizes[c], batch.k = a.sizes[c];
  batch.a = a.data, batch.a_row = a.strides[r], batch.a_col = a.strides[c];
  batch.b = b.data, batch.b_row = b.strides[r], batch.b_col = b.strides[c];
  batch.c = out.data, batch.c_row = out.strides[r], batch.c_col = out.strides[c];
  batch.alpha = scale.alpha, batch.beta = scale.beta;
  if (scale.finish) batch.finish = find_strip(*scale.finish, out.dtype);
  batch.added = plus.data, batch.added_row = plus.strides[r], batch.added_col = plus.strides[c];
  if (out.ndim == 3) {
    batch.count = out.sizes[0];
    batch.a_step = a.strides[0];
    batch.b_step = b.strides[0];
    batch.c_step = out.strides[0];
    batch.added_step = plus.strides[0];
  }
  run(batch);
}

}  // namespace

void gemm(const View& a, const View& b, const View& out, const GemmScale& scale,
          const View* added) {
  int64_t r = out.ndim - 2, c = out.ndim - 1;
  check(a.ndim == out.ndim && b.ndim == out.ndim && a.dtype == out.dtype && b.dtype == out.dtype &&
            a.sizes[r] == out.sizes[r] && b.sizes[c] == out.sizes[c] && a.sizes[c] == b.sizes[r],
        "matmul: shapes ", a.shape(), " and ", b.shape(), " do not give ", out.shape(),
        ", or dtypes ", a.dtype, ", ", b.dtype, " and ", out.dtype, " differ");
  if (out.numel == 0) return;
  bool pairs =
      is_narrow(out.dtype) && std::min(out.sizes[r], out.sizes[c]) >= 16 && a.sizes[c] >= 16;
  // What is converted after the product is finished as it is then.
  if (scale.finish && (a.sizes[c] == 0 || is_reduced(out.dtype) || pairs)) {
    gemm(a, b, out, {scale.alpha, scale.beta}, added);
    DType compute = is_reduced(out.dtype) ? DType::Float32 : out.dtype;
    return run_loop(*scale.finish, compute, LoopResult::Same, out, &out, 1, nullptr);
  }
  if (a.sizes[c] == 0) {
    if (added && !scale.beta.equals(0)) copy(*added, out);
    return scale_output(out, scale.beta);
  }
  if (is_reduced(out.dtype)) {
    RowMajor a32 = RowMajor::copy_of(a, DType::Float32), b32 = RowMajor::copy_of(b, DType::Float32);
    RowMajor out32(out.shape(), DType::Float32);
    if (!scale.beta.equals(0)) copy(added ? *added : out, out32.view());
    gemm(a32.view(), b32.view(), out32.view(), scale);
    return copy(out32.view(), out);
  }
  // Products of 16 bits are added up in pairs: 3.3 times as fast as those of 8 bits alone, where
  // every pair is used often.
  if (pairs) {
    RowMajor pairs_a = paired(a, c), pairs_b = paired(b, r), out32(out.shape(), DType::Int32);
    if (!scale.beta.equals(0)) copy(added ? *added : out, out32.view());
    multiply(pairs_a.view(), pairs_b.view(), out32.view(), scale, out32.view(), true);
    return copy(out32.view(), out);
  }
  multiply(a, b, out, scale, added ? *added : out, false);
}

void matvec(const View& a, const View& x, const View& out, const GemmScale& scale) {
  int64_t x_sizes[2] = {x.sizes[0], 1}, x_strides[2] = {x.strides[0], 1};
  int64_t out_sizes[2] = {out.sizes[0], 1}, out_strides[2] = {out.strides[0], 1};
  gemm(a, {x.data, x_sizes, x_strides, 2, x.numel, x.dtype},
       {out.data, out_sizes, out_strides, 2, out.numel, out.dtype}, scale);
}

void dot(const View& a, const View& b, const View& out) {
  int64_t n = a.sizes[0], a_sizes[2] = {1, n}, a_strides[2] = {n, a.strides[0]};
  int64_t b_sizes[2] = {n, 1}, b_strides[2] = {b.strides[0], 1}, one[2] = {1, 1};
  gemm({a.data, a_sizes, a_strides, 2, a.numel, a.dtype},
       {b.data, b_sizes, b_strides, 2, b.numel, b.dtype}, {out.data, one, one, 2, 1, out.dtype},
       {});
}

}  // namespace rl::kernels
