#include "kernels/cpu/gemm_lanes.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/lane_buffer.h"
#include "kernels/cpu/threads.h"

namespace rl::kernels {
namespace {

// A batch of products, each of which has a lane.
struct Batch {
  int64_t count;
  Matrices a, b, c;
  std::optional<Matrices> added;
  const GemmScale& scale;

  bool is_plain() const { return !added && !scale.finish && scale.alpha.equals(1); }
  // Are they dot products of contiguous lines?
  bool are_dots() const {
    return a.rows == 1 && b.columns == 1 && (a.columns == 1 || (a.column == 1 && b.row == 1));
  }
};

// Bytes have no vector product of their own width.
DType lane_dtype(DType t) {
  return t == DType::UInt8 || t == DType::Int8 ? DType::Int16 : compute_dtype(t);
}

int64_t groups_of(const Batch& x) {
  int64_t elements = x.a.numel() + x.c.numel();
  if (x.b.step) elements += x.b.numel();
  if (x.added && x.added->step) elements += x.added->numel();
  return groups_at_a_time(elements * group_lanes * itemsize(lane_dtype(x.c.dtype)));
}

void run_dots(const Batch& x) {
  constexpr int64_t lines = dot_block_lines;
  const int64_t k = x.a.columns;
  LineDots all{x.c.dtype, x.count, k, x.a.data, x.b.data, x.a.step, x.b.step, x.c.data, x.c.step};
  parallel_for(0, (x.count + lines - 1) / lines, 1 + default_grain / (lines * k),
               [&](int64_t begin, int64_t end) {
                 LineDots some = all;
                 some.first = begin * lines, some.last = std::min(end * lines, x.count);
                 line_dots(some);
               });
}

void run_lanes(const Batch& x) {
  const DType compute = lane_dtype(x.c.dtype);
  const int64_t m = x.c.rows, n = x.c.columns, k = x.a.columns, groups = groups_of(x);
  const int64_t block = groups * group_lanes, blocks = (x.count + block - 1) / block;
  const int64_t work = block * (m * n * k + m * k + m * n);
  const StripFunction finish = x.scale.finish ? find_strip(*x.scale.finish, compute) : nullptr;
  parallel_for(0, blocks, 1 + default_grain / work, [&](int64_t begin, int64_t end) {
    LaneBuffer a(x.a, compute, groups), b(x.b, compute, groups), c(x.c, compute, groups);
    std::optional<LaneBuffer> added;
    if (x.added) added.emplace(*x.added, compute, groups);
    for (int64_t i = begin * block; i < std::min(end * block, x.count); i += block) {
      const int64_t count = std::min(block, x.count - i);
      multiply_lanes({compute, (count + group_lanes - 1) / group_lanes, m, n, k, a.read(i, count),
                      b.read(i, count), c.target(i, count),
                      added ? added->read(i, count) : LaneMatrices(), x.scale.alpha, x.scale.beta});
      c.write(i, count, finish);
    }
  });
}

// The sizes of a batch of products; with `shared`, of rows by one matrix.
struct Sizes {
  DType dtype;
  int64_t count, m, n, k;
  bool shared;

  static Sizes of_batch(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k) {
    return {dtype, count, m, n, k, false};
  }
  // None where rows lie across others: these are columns of tiles, which need not be turned.
  static Sizes of_rows(DType dtype, int64_t m, int64_t n, int64_t k, int64_t step) {
    return {dtype, k == 1 || step == 1 ? m : 0, 1, n, k, true};
  }

  bool may_suit() const { return count >= dot_block_lines && (suit_dots() || suit_lanes()); }
  bool is_narrow() const { return !is_floating(dtype) && itemsize(dtype) < 4; }
  bool is_wide() const { return itemsize(dtype) >= 4; }
  // Lines that fill vectors, or too few of them for lanes; of long ones, tiles add up several parts
  // side by side.
  bool suit_dots() const {
    constexpr int64_t least = 32, few = 256;
    const int64_t bytes = k * itemsize(dtype), most = shared && is_wide() ? 256 : 2048;
    return m == 1 && n == 1 && (bytes >= least || count < few) && (bytes <= most || is_narrow()) &&
           (dtype != DType::Float16 || converts_halves());
  }
  // So many that preparing the lanes takes less time than they save.
  bool are_many() const {
    constexpr int64_t least_work = 4096;
    if (!shared) return count >= 32 && (!is_wide() || count * m * n * k >= least_work);
    if (count < 64 || is_narrow() || n < 4) return count >= 64;
    return count >= 128 && count >= 4 * k * n;
  }
  // Products of narrow integers are slow to prepare for tiles. Of the other dtypes, those suit that
  // are short, and whose rows would leave parts of a tile's vectors empty.
  bool suit_lanes() const {
    constexpr int64_t most = 1024, vector_bytes = 64;  // elements of a matrix; as measured with 64
    if (std::max({m * k, k * n, m * n}) > most || !are_many()) return false;
    if (is_narrow()) return true;
    const int64_t lanes = vector_bytes / itemsize(compute_dtype(dtype));
    if (2 * std::max(n, k) > 3 * lanes) return false;
    if (!is_wide()) return n % lanes != 0 || k % 2 != 0;
    return n % (lanes / 2) != 0 || (!shared && m * n * k <= lanes * lanes);
  }
};

// Matrix i of a batch, or the only one; and its rows, of which each is one.
Matrices whole(const View& v, int64_t i) {
  const int64_t r = v.ndim - 2, c = v.ndim - 1, first = v.ndim == 3 ? i * v.strides[0] : 0;
  return {v.dtype,
          v.ptr<char>() + first * itemsize(v.dtype),
          v.sizes[r],
          v.sizes[c],
          v.strides[r],
          v.strides[c],
          0};
}
Matrices rows_of(const View& v, int64_t i) {
  Matrices m = whole(v, i);
  m.step = m.row, m.rows = 1;
  return m;
}
Matrices batch_of(const View& v) {
  Matrices m = whole(v, 0);
  m.step = v.strides[0];
  return m;
}

// False if tiles are quicker.
bool run(const Batch& x, const Sizes& sizes) {
  const bool dots = sizes.suit_dots() && x.is_plain() && x.are_dots();
  if (!dots && !sizes.suit_lanes()) return false;
  ScopedGilRelease long_work(2.0 * double(x.count * x.c.numel()) * double(x.a.columns) >
                             long_operations);
  dots ? run_dots(x) : run_lanes(x);
  return true;
}

}  // namespace

bool may_suit_lanes(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k, int64_t step) {
  return Sizes::of_batch(dtype, count, m, n, k).may_suit() ||
         Sizes::of_rows(dtype, m, n, k, step).may_suit();
}

bool gemm_in_lanes(const View& a, const View& b, const View& out, const GemmScale& scale,
                   const View* added) {
  const int64_t count = out.ndim == 3 ? out.sizes[0] : 1;
  const int64_t m = out.sizes[out.ndim - 2], n = out.sizes[out.ndim - 1], k = a.sizes[a.ndim - 1];
  const Sizes products = Sizes::of_batch(out.dtype, count, m, n, k);
  const View* plus = scale.beta.equals(0) ? nullptr : added ? added : &out;
  std::optional<Matrices> with;
  if (products.may_suit()) {
    if (plus) with = batch_of(*plus);
    if (run({count, batch_of(a), batch_of(b), batch_of(out), with, scale}, products)) return true;
  }
  const Sizes rows = Sizes::of_rows(out.dtype, m, n, k, a.strides[a.ndim - 1]);
  if (!rows.may_suit()) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (plus) with = rows_of(*plus, i);
    if (!run({m, rows_of(a, i), whole(b, i), rows_of(out, i), with, scale}, rows)) return false;
  }
  return true;
}

}  // namespace rl::kernels
