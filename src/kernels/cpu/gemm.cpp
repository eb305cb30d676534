#include "kernels/gemm.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/cpu/byte_dots.h"
#include "kernels/cpu/gemm_lanes.h"
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/units.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {

std::atomic<bool> round_float_factors{false};

namespace {

// Of the elements of a and b.
int64_t factor_size(const GemmProblem& p) { return itemsize(p.on_unit ? p.factors : p.dtype); }

// The m by n elements of c from (i, j) on.
GemmProblem part_of(const GemmProblem& whole, int64_t i, int64_t j, int64_t m, int64_t n) {
  GemmProblem p = whole;
  int64_t size = itemsize(p.dtype), factor = factor_size(p);
  p.m = m, p.n = n;
  p.a = static_cast<const char*>(p.a) + i * p.a_row * factor;
  p.b = static_cast<const char*>(p.b) + j * p.b_col * factor;
  p.c = static_cast<char*>(p.c) + (i * p.c_row + j * p.c_col) * size;
  if (p.added)
    p.added = static_cast<const char*>(p.added) + (i * p.added_row + j * p.added_col) * size;
  if (p.rounded.data) p.rounded.data += i * p.rounded.row + j * p.rounded.col;
  return p;
}

constexpr int64_t packed_bytes = int64_t(8) << 20;  // of b at a time, for all threads

// The grid of tiles that one product is cut into, for threads. Tiles begin at multiples of 32.
struct Tiling {
  int64_t rows = 1, cols = 1;
  Tiling(const GemmProblem& p, int64_t most) {
    double operations =
        2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    // Matrix-vector products are bound by memory: fewer operations fill a thread's while.
    bool vector = p.m == 1 || p.n == 1;
    int64_t least = vector ? 512 : 64;
    double wanted = std::min(static_cast<double>(most), operations / (vector ? 1e6 : 2e6));
    if (p.on_unit) {
      cut_for_unit(p, std::max<int64_t>(1, static_cast<int64_t>(wanted)));
      return;
    }
    while (static_cast<double>(rows * cols) < wanted) {
      bool by_rows = p.m / rows >= p.n / cols;
      if (std::max(p.m / rows, p.n / cols) < 2 * least) break;
      (by_rows ? rows : cols) *= 2;
    }
  }
  int64_t count() const { return rows * cols; }

  // Whole rows, which each tile then packs once for all columns: as many as stay in the second
  // cache, or fewer for every thread to have some. Columns where there are too few rows for that.
  void cut_for_unit(const GemmProblem& p, int64_t most) {
    constexpr int64_t least = 128;
    const int64_t threads = std::min<int64_t>(most, num_threads());
    const int64_t block = unit_blocks(p, p.n).rows;
    rows = std::min(threads * ((p.m + threads * block - 1) / (threads * block)), most);
    if (p.m < threads * least) rows = std::max<int64_t>(1, p.m / least);
    while (rows * cols < threads && p.n / cols >= 128) ++cols;
  }

  static int64_t border(int64_t n, int64_t index, int64_t parts) {
    return index == parts ? n : n * index / parts / 32 * 32;
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
    return rows > 1 && p.c_col == 1 && p.n >= 64 && gemm_packed_bytes(p, 64) <= packed_bytes;
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
  int64_t size = itemsize(p.dtype), factor = factor_size(p);
  p.count = count;
  p.a = static_cast<const char*>(p.a) + first * p.a_step * factor;
  p.b = static_cast<const char*>(p.b) + first * p.b_step * factor;
  p.c = static_cast<char*>(p.c) + first * p.c_step * size;
  if (p.added) p.added = static_cast<const char*>(p.added) + first * p.added_step * size;
  if (p.rounded.data) p.rounded.data += first * p.rounded.step;
  return p;
}

// One product, or a part of it, in tiles, for all of which b is packed once.
void run_tiles(GemmProblem p, const Workspace& packed, const Tiling& tiling) {
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

// One product in tiles that share rows of b, which is packed once for all of them: at 128 rows per
// tile, packing took 40 % of the time. A part of b that is not too large for a copy at a time.
void run_packed(const GemmProblem& whole, const Tiling& tiling) {
  int64_t most = packed_bytes / (gemm_packed_bytes(whole, 64) / 64) / 64 * 64;
  GemmProblem all = whole;
  all.deepest = deepest_block(whole.m, whole.n);
  Workspace packed(gemm_packed_bytes(whole, std::min(most, whole.n)));
  for (int64_t j = 0; j < whole.n; j += most) {
    run_tiles(part_of(all, 0, j, whole.m, std::min(most, whole.n - j)), packed, tiling);
  }
}

// One product on the matrix unit, block by block of b, which is packed once for all tiles.
void run_on_unit(const GemmProblem& whole, int most_tiles) {
  UnitBlocks blocks = unit_blocks(whole, whole.n);
  GemmProblem block = whole;
  block.k = blocks.depth;
  Workspace packed(gemm_packed_bytes(block, blocks.columns));
  for (int64_t j = 0; j < whole.n; j += blocks.columns)
    for (int64_t k = 0; k < whole.k; k += blocks.depth) {
      int64_t depth = std::min(blocks.depth, whole.k - k);
      GemmProblem p = part_of(whole, 0, j, whole.m, std::min(blocks.columns, whole.n - j));
      p.a = static_cast<const char*>(p.a) + k * p.a_col * factor_size(p);
      p.b = static_cast<const char*>(p.b) + k * p.b_row * factor_size(p);
      p.k = depth;
      if (k > 0) p.beta = 1, p.added = nullptr;
      if (k + depth < whole.k) p.finish = nullptr, p.rounded.data = nullptr;
      run_tiles(p, packed, Tiling(p, most_tiles));
    }
}

void run(const GemmProblem& batch) {
  int64_t operations = batch.m * batch.n * batch.k;
  if (batch.count * operations <= 16384) return gemm_tiles(batch);
  int threads = in_parallel_region() ? 1 : num_threads();
  // Two tiles for each thread even out odd numbers of them; a batch is cut as it is. One thread
  // works through tiles too where the product takes so long that the user may want to stop it.
  constexpr int64_t most_of_a_tile = int64_t(1) << 32;
  bool whole = threads == 1 || batch.count >= 2 * threads;
  auto most = static_cast<int>(whole ? std::min<int64_t>(1 + operations / most_of_a_tile, 1 << 16)
                                     : 8 * threads);
  Tiling tiling(batch, most);
  int64_t tiles = tiling.count();
  ScopedGilRelease long_work(2.0 * static_cast<double>(batch.count * batch.m * batch.n) *
                                 static_cast<double>(batch.k) >
                             long_operations);
  if (batch.on_unit && tiling.rows > 1) {
    for (int64_t i = 0; i < batch.count; ++i) run_on_unit(some_of(batch, i, 1), most);
    return;
  }
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

// A matrix, or a batch of them, of which `size` neighbours along `dim` make a group; zeros fill the
// last one up. In rows, or in columns.
struct Grouped {
  RowMajor memory;
  bool columns;
  Dims sizes, strides;

  Grouped(Dims physical, bool columns) : memory(physical, DType::Int32), columns(columns) {
    View v = memory.view();
    for (int64_t d = 0; d < v.ndim; ++d)
      sizes.push_back(v.sizes[d]), strides.push_back(v.strides[d]);
    if (!columns) return;
    std::swap(sizes[v.ndim - 2], sizes[v.ndim - 1]);
    std::swap(strides[v.ndim - 2], strides[v.ndim - 1]);
  }
  View view(DType dtype = DType::Int32) const {
    View v = memory.view();
    return {v.data, sizes.data(), strides.data(), v.ndim, v.numel, dtype};
  }
};

Grouped grouped(View v, int64_t dim, int size, int flip = 0, bool columns = false) {
  int64_t r = v.ndim - 2, c = v.ndim - 1;
  Dims given(v.shape()), steps;
  for (int64_t d = 0; d < v.ndim; ++d) steps.push_back(v.strides[d]);
  if (columns) {
    std::swap(given[r], given[c]);
    std::swap(steps[r], steps[c]);
    dim = r + c - dim;
  }
  int64_t whole = given[dim] / size, rest = given[dim] % size, between = steps[dim];
  Dims sizes = given;
  sizes[dim] = (given[dim] + size - 1) / size;
  Grouped out(sizes, columns);
  int64_t batches = v.ndim == 3 ? given[0] : 1, batch = v.ndim == 3 ? steps[0] : 0;
  int64_t rows = sizes[r], count = sizes[c], row = steps[r], step = steps[c];
  (dim == r ? row : step) *= size;
  int64_t grain = 1 + default_grain / (count + 1);
  parallel_for(0, batches * rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      int64_t b = at / rows, i = at % rows;
      auto group = [&](int64_t j, int64_t n, int64_t members) {
        int64_t first = (b * batch + i * row + j * step) * itemsize(v.dtype);
        group_up({v.dtype, static_cast<const char*>(v.data) + first, 1, n, row, step, between, size,
                  static_cast<int>(members), flip, out.memory.ptr<uint32_t>() + at * count + j,
                  count});
      };
      if (dim == r) group(0, count, i < whole ? size : rest);
      else group(0, whole, size);
      if (rest && dim == c) group(whole, 1, rest);
    }
  });
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

// Matrices with rows and columns exchanged.
class Exchanged {
 public:
  explicit Exchanged(const View& v) : sizes_(v.shape()), view_(v) {
    for (int64_t d = 0; d < v.ndim; ++d) strides_.push_back(v.strides[d]);
    std::swap(sizes_[v.ndim - 2], sizes_[v.ndim - 1]);
    std::swap(strides_[v.ndim - 2], strides_[v.ndim - 1]);
    view_.sizes = sizes_.data(), view_.strides = strides_.data();
  }
  Exchanged(const Exchanged&) = delete;
  const View& view() const { return view_; }

 private:
  Dims sizes_, strides_;
  View view_;
};

// What else there is to a product than its operands.
struct Kind {
  int group = 1;
  DType pairs = DType::Float32;
  const View* rounded = nullptr;  // where the result goes as 16-bit floats
  bool on_unit = false;           // of factors that the matrix unit multiplies
  bool rounds_floats = false;
};

bool are_for_unit(const View& a, const View& b) {
  return is_for_unit(a.dtype, a.sizes[a.ndim - 2], b.sizes[b.ndim - 1], a.sizes[a.ndim - 1]);
}

void multiply(const View& a, const View& b, const View& out, const GemmScale& scale,
              const View& plus, const Kind& kind) {
  int64_t r = out.ndim - 2, c = out.ndim - 1;
  // One matrix for the whole batch: a single product of all rows.
  if (out.ndim == 3 && a.sizes[0] > 1 && b.strides[0] == 0 && Stacked::can(a) &&
      Stacked::can(out) && Stacked::can(plus) && (!kind.rounded || Stacked::can(*kind.rounded))) {
    Stacked sum(plus), rounded(kind.rounded ? *kind.rounded : out);
    View one{b.data, b.sizes + 1, b.strides + 1, 2, b.sizes[1] * b.sizes[2], b.dtype};
    Kind stacked = kind;
    if (kind.rounded) stacked.rounded = &rounded.view;
    return multiply(Stacked(a).view, one, Stacked(out).view, scale, sum.view, stacked);
  }
  // Rows of a matrix are read where they lie if it is on the left side.
  if (kind.on_unit && itemsize(a.dtype) <= 2 && a.dtype != DType::Float16 && out.sizes[r] <= 128 &&
      out.sizes[r] < out.sizes[c] && b.strides[r] == 1) {
    Exchanged x(b), y(a), z(out), with(plus), rounded(kind.rounded ? *kind.rounded : out);
    Kind exchanged = kind;
    if (kind.rounded) exchanged.rounded = &rounded.view();
    return multiply(x.view(), y.view(), z.view(), scale, with.view(), exchanged);
  }
  GemmProblem batch;
  batch.dtype = out.dtype, batch.group = kind.group, batch.pairs = kind.pairs;
  batch.on_unit = kind.on_unit, batch.factors = a.dtype, batch.right_factors = b.dtype;
  batch.rounds_floats = kind.rounds_floats;
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
  if (const View* v = kind.rounded)
    batch.rounded = {v->dtype, v->ptr<uint16_t>(), v->strides[r], v->strides[c],
                     out.ndim == 3 ? v->strides[0] : 0};
  run(batch);
}

// out[i][j] = 128 times the sums of the groups of row i of x, the sums of column j of y times
// column_factor, and `constant`.
void fill_with_sums(const View& x, const View& y, int column_factor, uint32_t constant,
                    const View& out) {
  int64_t rows = x.sizes[x.ndim - 2], depth = x.sizes[x.ndim - 1], columns = y.sizes[y.ndim - 1];
  int64_t batches = x.ndim == 3 ? x.sizes[0] : 1;
  std::vector<uint32_t> across(static_cast<size_t>(columns));
  for (int64_t b = 0; b < batches; ++b) {
    const uint8_t* bytes = x.ptr<uint8_t>() + b * rows * depth * 4;
    const int8_t* signed_bytes = y.ptr<int8_t>() + b * depth * columns * 4;
    uint32_t* to = out.ptr<uint32_t>() + b * rows * columns;
    std::fill(across.begin(), across.end(), constant);
    for (int64_t k = 0; column_factor && k < depth; ++k, signed_bytes += columns * 4)
      for (int64_t j = 0; j < columns; ++j)
        across[static_cast<size_t>(j)] += static_cast<uint32_t>(
            column_factor * (signed_bytes[4 * j] + signed_bytes[4 * j + 1] +
                             signed_bytes[4 * j + 2] + signed_bytes[4 * j + 3]));
    for (int64_t i = 0; i < rows; ++i, to += columns) {
      uint32_t sum = 0;
      for (int64_t k = 0; k < 4 * depth; ++k) sum += bytes[i * depth * 4 + k];
      for (int64_t j = 0; j < columns; ++j) to[j] = 128 * sum + across[static_cast<size_t>(j)];
    }
  }
}

// out = x @ y of groups of four unsigned bytes by signed ones; of a `raised` x, 128 times the sums
// of y's columns less, which a row of ones gives.
void multiply_bytes(const View& x, bool raised, const View& y, const View& out) {
  if (!raised) return multiply(x, y, out, {}, out, {4});
  int64_t r = out.ndim - 2, depth = x.sizes[r + 1];
  Dims sizes(out.shape()), ones_sizes(x.shape()), ones_strides(out.ndim, 0), strides;
  sizes[r] = ones_sizes[r] = 1, ones_strides[r + 1] = 1;
  std::vector<uint32_t> ones(static_cast<size_t>(depth), 0x01010101u);
  RowMajor sums(sizes, DType::Int32);
  multiply({ones.data(), ones_sizes.data(), ones_strides.data(), x.ndim, depth, DType::Int32}, y,
           sums.view(), {-128}, sums.view(), {4});
  View added = sums.view();
  for (int64_t d = 0; d < out.ndim; ++d) strides.push_back(d == r ? 0 : added.strides[d]);
  added.sizes = out.sizes, added.strides = strides.data();
  multiply(x, y, out, {1, 1}, added, {4});
}

// `out`, of Int32 and in rows, = a @ b of narrow integers.
void multiply_narrow(const View& a, const View& b, const View& out) {
  int64_t r = out.ndim - 2, c = out.ndim - 1;
  if (itemsize(a.dtype) == 1 && are_for_unit(a, b)) {
    Kind kind;
    kind.on_unit = true;
    return multiply(a, b, out, {}, out, kind);
  }
  if (itemsize(a.dtype) > 1 || !has_byte_products())
    return multiply(grouped(a, c, 2).view(), grouped(b, r, 2).view(), out, {}, out, {2});
  // a' of unsigned bytes, b' of signed ones, where the products of both are to be known:
  // a = a' - 128 and b = b' + 128 for those that are flipped.
  bool flip_a = a.dtype == DType::Int8, flip_b = b.dtype == DType::UInt8;
  Grouped x = grouped(a, c, 4, flip_a ? 128 : 0), y = grouped(b, r, 4, flip_b ? 128 : 0);
  if (!flip_b) return multiply_bytes(x.view(), flip_a, y.view(), out);
  uint32_t constant = flip_a ? -16384u * static_cast<uint32_t>(a.sizes[c]) : 0;
  fill_with_sums(x.view(), y.view(), flip_a ? -128 : 0, constant, out);
  multiply(x.view(), y.view(), out, {1, 1}, out, {4});
}

// A view's elements as floats, each once where the view repeats it.
class Floats {
 public:
  explicit Floats(const View& v) : memory_(unique(v), DType::Float32), sizes_(v.shape()) {
    View made = memory_.view(), once = v;
    once.sizes = made.sizes, once.numel = made.numel;
    copy(once, made);
    for (int64_t d = 0; d < v.ndim; ++d) strides_.push_back(v.strides[d] ? made.strides[d] : 0);
    view_ = {made.data, sizes_.data(), strides_.data(), v.ndim, v.numel, DType::Float32};
  }
  Floats(const Floats&) = delete;
  const View& view() const { return view_; }

 private:
  static Dims unique(const View& v) {
    Dims sizes(v.shape());
    for (int64_t d = 0; d < v.ndim; ++d)
      if (!v.strides[d]) sizes[d] = 1;
    return sizes;
  }
  RowMajor memory_;
  Dims sizes_, strides_;
  View view_;
};

bool is_in_columns(const View& v) {
  return v.strides[v.ndim - 2] == 1 && v.strides[v.ndim - 1] != 1;
}

// Matrices of 16-bit floats as such of float, whose rows or columns lie as theirs do.
class Widened {
 public:
  explicit Widened(const View& v) {
    if (!is_in_columns(v)) {
      floats_.emplace(v);
      return;
    }
    floats_.emplace(Exchanged(v).view());
    exchanged_.emplace(floats_->view());
  }
  const View& view() const { return exchanged_ ? exchanged_->view() : floats_->view(); }

 private:
  std::optional<Floats> floats_;
  std::optional<Exchanged> exchanged_;
};

// Matrices of 16-bit floats as such of pairs along `dim`, where they lie if they can be read so; in
// columns if asked.
class Paired {
 public:
  Paired(const View& v, int64_t dim, bool columns = false) {
    bool even = v.strides[dim] == 1 && v.sizes[dim] % 2 == 0 &&
                reinterpret_cast<uintptr_t>(v.data) % 4 == 0;
    for (int64_t d = 0; d < v.ndim; ++d)
      even = even && (d == dim || v.sizes[d] == 1 || v.strides[d] % 2 == 0);
    if (!even) {
      View bits = v;
      bits.dtype = DType::Int16;
      copy_.emplace(grouped(bits, dim, 2, 0, columns || is_in_columns(v)));
      view_ = copy_->view(DType::Float32);
      return;
    }
    for (int64_t d = 0; d < v.ndim; ++d) {
      sizes_.push_back(d == dim ? v.sizes[d] / 2 : v.sizes[d]);
      strides_.push_back(d == dim ? 1 : v.strides[d] / 2);
    }
    view_ = {v.data, sizes_.data(), strides_.data(), v.ndim, v.numel / 2, DType::Float32};
  }
  Paired(const Paired&) = delete;
  const View& view() const { return view_; }

 private:
  std::optional<Grouped> copy_;
  Dims sizes_, strides_;
  View view_;
};

// `sums`, of Float32 and in rows, = a @ b of few rows by rows of 16-bit floats, read once.
void multiply_rows(const View& a, const View& b, const View& sums) {
  int64_t r = a.ndim - 2, c = a.ndim - 1, m = a.sizes[r], k = a.sizes[c], n = b.sizes[c];
  int64_t batches = a.ndim == 3 ? a.sizes[0] : 1;
  RowMajor rows = RowMajor::copy_of(a, DType::Float32);
  // Parts of whole pages, whose sums stay in the first cache; a page of b is read at a time.
  int64_t part = 1024, parts = (n + part - 1) / part;
  parallel_for(0, batches * parts, 1 + default_grain / (k * part), [&](int64_t begin, int64_t end) {
    Buffer<float> some(m * part);
    for (int64_t i = begin; i < end; ++i) {
      int64_t batch = i / parts, j = i % parts * part, width = std::min(part, n - j);
      int64_t at = (b.ndim == 3 ? batch * b.strides[0] : 0) + j;
      rows_of_reduced({b.dtype, m, width, k, rows.ptr<float>() + batch * m * k,
                       b.ptr<uint16_t>() + at, b.strides[r], some.data()});
      for (int64_t x = 0; x < m; ++x)
        std::copy_n(some.data() + x * width, width, sums.ptr<float>() + (batch * m + x) * n + j);
    }
  });
}

// `sums`, of Float32, by products of pairs of bfloat16, which the processor has. They may go to
// `rounded` from there.
void multiply_pairs(const View& a, const View& b, const View& sums, const GemmScale& scale,
                    const View& added, const View* rounded) {
  int64_t r = sums.ndim - 2, c = sums.ndim - 1;
  bool few = std::min(sums.sizes[r], sums.sizes[c]) <= few_pairs;
  Paired x(a, c), y(b, r, few);  // of few rows, dots of columns
  multiply(x.view(), y.view(), sums, scale, added, {1, a.dtype, rounded});
}

// Of 16-bit floats, added up in float and rounded once, before what finishes it.
void multiply_reduced(const View& a, const View& b, const View& out, const GemmScale& scale,
                      const View* added) {
  int64_t r = out.ndim - 2, c = out.ndim - 1, m = out.sizes[r], n = out.sizes[c];
  bool is_bfloat16 = out.dtype == DType::BFloat16;
  std::optional<Floats> plus;
  if (!scale.beta.equals(0)) plus.emplace(added ? *added : out);
  RowMajor sums(out.shape(), DType::Float32);
  const View sum = sums.view(), &start = plus ? plus->view() : sum;
  if (std::min(m, n) <= few_pairs) {
    if (n < m) {  // the transposed product has few rows
      Exchanged x(a), y(b), z(out), with(added ? *added : out);
      return multiply_reduced(y.view(), x.view(), z.view(), scale, added ? &with.view() : nullptr);
    }
    bool rows = b.strides[c] == 1 && n > 1;
    if (rows && scale.alpha.equals(1) && !plus && !scale.finish) {
      multiply_rows(a, b, sum);
      return copy(sum, out);
    }
    if (!rows && (is_bfloat16 || converts_halves())) {
      Paired x(a, c), y(b, r, true);
      return multiply(x.view(), y.view(), sum, scale, start, {1, out.dtype, &out});
    }
  }
  if (are_for_unit(a, b)) return multiply(a, b, sum, scale, start, {1, DType::Float32, &out, true});
  if (is_bfloat16 && has_bfloat16_products()) return multiply_pairs(a, b, sum, scale, start, &out);
  Widened x(a), y(b);
  multiply(x.view(), y.view(), sum, scale, start, {1, DType::Float32, &out});
}

// The same into floats.
void multiply_to_floats(const View& a, const View& b, const View& out, const GemmScale& scale,
                        const View& added) {
  if (are_for_unit(a, b))
    return multiply(a, b, out, scale, added, {1, DType::Float32, nullptr, true});
  if (a.dtype == DType::BFloat16 && has_bfloat16_products())
    return multiply_pairs(a, b, out, scale, added, nullptr);
  Widened x(a), y(b);
  multiply(x.view(), y.view(), out, scale, added, {});
}

// As measured: the unit multiplies floats 2.4 times as fast, whole tiles of them, and to split one
// takes as long as to multiply it by 26 others.
bool floats_pay(int64_t m, int64_t n, int64_t k) {
  auto whole = [](int64_t size, int64_t of) { return double((size + of - 1) / of * of); };
  double terms = whole(k, 32), split = 26.0 * double(m + n);
  double unit = terms * (0.42 * whole(m, 16) * whole(n, 16) + split);
  return k >= 64 && unit < double(m) * double(n) * double(k);
}

// The product itself, or the transposed one where that has more rows.
bool multiply_in_lanes(const View& a, const View& b, const View& out, const GemmScale& scale,
                       const View* added) {
  const int64_t m = out.sizes[out.ndim - 2], n = out.sizes[out.ndim - 1];
  const int64_t count = out.ndim == 3 ? out.sizes[0] : 1, k = a.sizes[a.ndim - 1];
  const int64_t step = m >= n ? a.strides[a.ndim - 1] : b.strides[b.ndim - 2];
  if (is_complex(out.dtype) ||
      !may_suit_lanes(out.dtype, count, std::max(m, n), std::min(m, n), k, step))
    return false;
  if (m >= n) return gemm_in_lanes(a, b, out, scale, added);
  Exchanged x(a), y(b), z(out), with(added ? *added : out);
  return gemm_in_lanes(y.view(), x.view(), z.view(), scale, added ? &with.view() : nullptr);
}

// Whether neither the rows nor the columns of a matrix lie in one piece each.
bool is_scattered(const View& v) {
  return v.numel > 1 && (v.sizes[0] == 1 || v.strides[0] != 1) &&
         (v.sizes[1] == 1 || v.strides[1] != 1);
}

// A product with a vector of what is scattered, of copies that are not: each element is read once,
// and by tiles that takes 4 times as long.
bool multiply_scattered(const View& a, const View& b, const View& out, const GemmScale& scale,
                        const View* added) {
  if (out.ndim != 2 || std::min(out.sizes[0], out.sizes[1]) > 1 || is_narrow(out.dtype))
    return false;
  const bool of_a = is_scattered(a), of_b = is_scattered(b);
  if (!of_a && !of_b) return false;
  std::optional<RowMajor> x, y;
  if (of_a) x.emplace(RowMajor::copy_of(a, a.dtype));
  if (of_b) y.emplace(RowMajor::copy_of(b, b.dtype));
  gemm(x ? x->view() : a, y ? y->view() : b, out, scale, added);
  return true;
}

}  // namespace

bool is_for_unit(DType factors, int64_t m, int64_t n, int64_t k) {
  if (factors == DType::Int8 || factors == DType::UInt8)
    return std::min(m, n) > 4 && k >= 32 && has_matrix_unit();
  bool pays = factors == DType::Float32
                  ? floats_pay(m, n, k)
                  : is_reduced(factors) && std::min(m, n) > few_pairs && k >= 16;
  return pays && has_matrix_unit();
}

void gemm(const View& a, const View& b, const View& out, const GemmScale& scale,
          const View* added) {
  int64_t r = out.ndim - 2, c = out.ndim - 1;
  bool to_floats = is_reduced(a.dtype) && out.dtype == DType::Float32;
  check(a.ndim == out.ndim && b.ndim == out.ndim && b.dtype == a.dtype &&
            (a.dtype == out.dtype || to_floats) && a.sizes[r] == out.sizes[r] &&
            b.sizes[c] == out.sizes[c] && a.sizes[c] == b.sizes[r],
        "matmul: shapes ", a.shape(), " and ", b.shape(), " do not give ", out.shape(),
        ", or dtypes ", a.dtype, ", ", b.dtype, " and ", out.dtype, " differ");
  if (out.numel == 0) return;
  // Products of narrow integers are added up in groups: in pairs 3.3 times as fast as one by one.
  bool narrow = is_narrow(out.dtype);
  // What is converted after the product is finished as it is then.
  if (scale.finish && (a.sizes[c] == 0 || narrow)) {
    gemm(a, b, out, {scale.alpha, scale.beta}, added);
    DType compute = is_reduced(out.dtype) ? DType::Float32 : out.dtype;
    return run_loop(*scale.finish, compute, LoopResult::Same, out, {&out, 1}, nullptr);
  }
  if (a.sizes[c] == 0) {
    if (added && !scale.beta.equals(0)) copy(*added, out);
    return scale_output(out, scale.beta);
  }
  if (to_floats) return multiply_to_floats(a, b, out, scale, added ? *added : out);
  if (multiply_scattered(a, b, out, scale, added)) return;
  if (multiply_in_lanes(a, b, out, scale, added)) return;
  if (is_reduced(out.dtype)) return multiply_reduced(a, b, out, scale, added);
  if (narrow) {
    RowMajor out32(out.shape(), DType::Int32);
    if (scale.beta.equals(0) && scale.alpha.equals(1)) {
      multiply_narrow(a, b, out32.view());
    } else {
      if (!scale.beta.equals(0)) copy(added ? *added : out, out32.view());
      multiply(grouped(a, c, 2).view(), grouped(b, r, 2).view(), out32.view(), scale, out32.view(),
               {2});
    }
    return copy(out32.view(), out);
  }
  Kind kind;
  kind.on_unit = are_for_unit(a, b);
  kind.rounds_floats = round_float_factors;
  multiply(a, b, out, scale, added ? *added : out, kind);
}

namespace {

// Rows times the transpose of a matrix in rows, as a layer with weights of 8 bits has it: those are
// read as they lie. False if it is another product, or one of many rows that is faster otherwise.
bool multiply_by_dots(const View& a, const View& b, const View& out) {
  if (out.ndim != 2 || b.dtype != DType::Int8 || itemsize(a.dtype) != 1) return false;
  int64_t rows = a.sizes[0], terms = a.sizes[1], count = b.sizes[1];
  bool groups = has_byte_products();
  if ((rows > most_dot_rows && !groups) || a.strides[1] != 1 || b.strides[0] != 1 ||
      out.strides[1] != 1)
    return false;
  ByteDots p{
      a.data, a.dtype == DType::Int8, groups,       b.ptr<int8_t>(), out.ptr<int32_t>(), rows,
      terms,  a.strides[0],           b.strides[1], out.strides[0]};
  // Of whole tiles, which four columns are.
  parallel_for(0, count, (4 + default_grain / (rows * terms)) / 4 * 4,
               [&](int64_t begin, int64_t end) { byte_dots(p, begin, end); });
  return true;
}

}  // namespace

void gemm_bytes(const View& a, const View& b, const View& out) {
  if (out.numel == 0) return;
  if (a.sizes[a.ndim - 1] == 0) return scale_output(out, 0);
  if (are_for_unit(a, b)) return multiply_narrow(a, b, out);
  if (multiply_by_dots(a, b, out)) return;
  if (b.ndim != 2 || b.strides[0] != 1) return multiply_narrow(a, b, out);
  // In rows, in which groups of bytes are made many times as fast.
  multiply_narrow(a, RowMajor::copy_of(b, b.dtype).view(), out);
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
