#include "kernels/cpu/gemm_lanes.h"

#include <algorithm>
#include <optional>

#include "kernels/copy.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/strips.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

// The matrices of a batch, one for each lane, `step` elements apart: 0 if all have the same one.
struct Matrices {
  DType dtype;
  char* data;
  int64_t rows, columns, row, column, step;

  int64_t numel() const { return rows * columns; }
  bool are_dense() const {
    bool in_rows = (columns == 1 || column == 1) && (rows == 1 || row == columns);
    bool in_columns = (rows == 1 || row == 1) && (columns == 1 || column == rows);
    return step == numel() && (in_rows || in_columns);
  }
  Matrices from(int64_t first) const {
    Matrices m = *this;
    m.data += first * step * itemsize(dtype);
    return m;
  }
  // The same in memory of their own, in rows.
  Matrices dense_at(void* memory) const {
    Matrices m = *this;
    m.data = static_cast<char*>(memory);
    m.row = columns, m.column = 1, m.step = numel();
    return m;
  }
};

void copy_matrices(const Matrices& from, const Matrices& to, int64_t count) {
  const int64_t sizes[3] = {count, from.rows, from.columns};
  const int64_t steps[3] = {from.step, from.row, from.column};
  const int64_t new_steps[3] = {to.step, to.row, to.column};
  int64_t numel = count * from.numel();
  copy({from.data, sizes, steps, 3, numel, from.dtype},
       {to.data, sizes, new_steps, 3, numel, to.dtype});
}

// Matrices of up to `most` groups on their way into lanes, of a compute dtype, or back.
class Lanes {
 public:
  Lanes(const Matrices& m, DType compute, int64_t most)
      : matrices_(m),
        compute_(compute),
        elements_((m.step ? most : 1) * group_lanes * m.numel()),
        memory_(elements_ * (itemsize(compute) + 2 * itemsize(m.dtype)) + vector_bytes) {
    if (m.step == 0) repeat();
  }

  // Those of products [first, first + count).
  LaneMatrices read(int64_t first, int64_t count) const {
    if (matrices_.step == 0) return at(matrices_.dense_at(nullptr), 0);
    const int64_t lanes = whole(count), groups = lanes / group_lanes, length = matrices_.numel();
    const int64_t size = itemsize(matrices_.dtype);
    Matrices from = matrices_.from(first);
    if (count < lanes || !from.are_dense()) {
      Matrices copied = from.dense_at(dense());
      copy_matrices(from, copied, count);
      std::fill_n(copied.data + count * length * size, (lanes - count) * length * size, char(0));
      from = copied;
    }
    transpose(size, from.data, groups * length * size, size, narrow(), group_lanes * size, size,
              group_lanes, groups * length, false);
    if (converts()) convert_contiguous(from.dtype, compute_, narrow(), wide(), lanes * length);
    return at(from, length * group_lanes);
  }

  // Where write() will find those lanes.
  LaneMatrices target(int64_t first, int64_t count) const {
    return at(layout(first, count), matrices_.numel() * group_lanes);
  }
  void write(int64_t first, int64_t count, StripFunction finish) const {
    const int64_t lanes = whole(count), groups = lanes / group_lanes, length = matrices_.numel();
    const int64_t size = itemsize(matrices_.dtype), n = lanes * length;
    if (converts()) convert_contiguous(compute_, matrices_.dtype, wide(), narrow(), n);
    if (finish) {  // what is rounded was so before it is finished, too
      if (converts()) convert_contiguous(matrices_.dtype, compute_, narrow(), wide(), n);
      void* operands[] = {wide(), wide()};
      finish(n, operands, nullptr);
      if (converts()) convert_contiguous(compute_, matrices_.dtype, wide(), narrow(), n);
    }
    const Matrices to = layout(first, count);
    transpose(size, narrow(), group_lanes * size, size, to.data, groups * length * size, size,
              groups * length, group_lanes, false);
    if (to.data == dense()) copy_matrices(to, matrices_.from(first), count);
  }

 private:
  static constexpr int64_t vector_bytes = 64;

  static int64_t whole(int64_t count) {
    return (count + group_lanes - 1) / group_lanes * group_lanes;
  }
  bool converts() const { return matrices_.dtype != compute_; }
  // The lanes; those of the matrices' dtype; and matrices that are not dense where they are.
  char* wide() const { return memory_.as<char>(); }
  char* narrow() const {
    return converts() ? dense() + elements_ * itemsize(matrices_.dtype) : wide();
  }
  char* dense() const { return wide() + elements_ * itemsize(compute_) + vector_bytes; }

  // The matrices in place, or such in rows.
  Matrices layout(int64_t first, int64_t count) const {
    Matrices m = matrices_.from(first);
    return m.are_dense() && count == whole(count) ? m : m.dense_at(dense());
  }
  LaneMatrices at(const Matrices& m, int64_t group) const {
    return {wide(), m.row * group_lanes, m.column * group_lanes, group};
  }
  // The one matrix that all products have.
  void repeat() const {
    const int64_t size = itemsize(compute_), length = matrices_.numel();
    Matrices copied = matrices_.dense_at(dense());
    copied.dtype = compute_;
    copy_matrices(matrices_, copied, 1);
    repeat_elements(size, copied.data, size, wide(), group_lanes, length);
  }

  Matrices matrices_;
  DType compute_;
  int64_t elements_;
  Workspace memory_;
};

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

// How many groups are turned at a time: they and their product stay in the first cache.
int64_t groups_at_a_time(const Batch& x) {
  constexpr int64_t most = 16, bytes = 24576;
  int64_t elements = x.a.numel() + x.c.numel();
  if (x.b.step) elements += x.b.numel();
  if (x.added && x.added->step) elements += x.added->numel();
  int64_t group = elements * group_lanes * itemsize(lane_dtype(x.c.dtype)), groups = most;
  while (groups > 1 && groups * group > bytes) groups /= 2;
  return groups;
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
  const int64_t m = x.c.rows, n = x.c.columns, k = x.a.columns, groups = groups_at_a_time(x);
  const int64_t block = groups * group_lanes, blocks = (x.count + block - 1) / block;
  const int64_t work = block * (m * n * k + m * k + m * n);
  const StripFunction finish = x.scale.finish ? find_strip(*x.scale.finish, compute) : nullptr;
  parallel_for(0, blocks, 1 + default_grain / work, [&](int64_t begin, int64_t end) {
    Lanes a(x.a, compute, groups), b(x.b, compute, groups), c(x.c, compute, groups);
    std::optional<Lanes> added;
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
