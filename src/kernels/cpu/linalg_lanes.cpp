#include "kernels/cpu/linalg_lanes.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/interpreter.h"
#include "kernels/cpu/factor_lanes.h"
#include "kernels/cpu/lane_buffer.h"
#include "kernels/cpu/lapack.h"

namespace rl::kernels {
namespace {

// Fewer matrices do not fill the lanes. Where a group of square ones takes more bytes, it does not
// stay in the first cache, and LAPACK is as quick; where a group of others does, in the second.
constexpr int64_t least_matrices = group_lanes / 2, most_bytes = 32768, most_long_bytes = 131072;

// A batch of problems, each of which has a lane.
class LaneBatch {
 public:
  // `work`: multiplications of one of them.
  LaneBatch(const View& a, double work) : dtype(a.dtype), count(batch_count(a, 2)), work_(work) {
    const int64_t rows = a.sizes[a.ndim - 2], columns = a.sizes[a.ndim - 1];
    const int64_t few = std::min(rows, columns), element = group_lanes * itemsize(dtype);
    suits_ = (dtype == DType::Float32 || dtype == DType::Float64) && count >= least_matrices &&
             few > 0 && few * few * element <= most_bytes &&
             rows * columns * element <= most_long_bytes;
  }

  // Adds an operand, whose items have `inner` dims, and returns its number. What is read of one
  // that is `changed` is in memory that its problem alone has.
  size_t add(const View& v, int64_t inner, bool changed = false) {
    std::optional<Matrices> m;
    if (suits_) m = items_as_matrices(v, inner);
    if (m) elements_ += m->numel();
    suits_ = suits_ && m && m->numel() > 0 && !(changed && m->step == 0);
    operands_.push_back(m.value_or(Matrices{}));
    return operands_.size() - 1;
  }

  bool suits() const { return suits_; }

  // What is at work on some of the problems: `groups` of them, from `first` on.
  struct Block {
    const std::vector<LaneBuffer>& buffers;
    int64_t first, count, groups, width;

    LaneMatrices read(size_t operand) const { return buffers[operand].read(first, count); }
    LaneMatrices target(size_t operand) const { return buffers[operand].target(first, count); }
    void write(size_t operand) const { buffers[operand].write(first, count); }
    // f(at, lane) for each problem: its place in the batch, and where to find it in its group.
    template <class F> void for_each(F&& f) const {
      for (int64_t lane = 0; lane < group_lanes; ++lane)
        for (int64_t g = 0; g < groups; ++g)
          if (lane * groups + g < count) f(first + lane * groups + g, g, lane);
    }
  };

  // f(block) for blocks of all problems, split over threads.
  void run(const std::function<void(const Block&)>& f) const {
    const int64_t size = itemsize(dtype);
    const int64_t groups = groups_at_a_time(elements_ * group_lanes * size);
    const int64_t block = groups * group_lanes, blocks = (count + block - 1) / block;
    const double each = work_ + 4.0 * double(elements_);
    ScopedGilRelease long_work(each * double(count) > long_operations);
    const int64_t grain = 1 + static_cast<int64_t>(default_grain / (each * double(block)));
    parallel_for(0, blocks, grain, [&](int64_t begin, int64_t end) {
      std::vector<LaneBuffer> buffers;
      for (const Matrices& m : operands_) buffers.emplace_back(m, m.dtype, groups);
      for (int64_t i = begin * block; i < std::min(end * block, count); i += block) {
        const int64_t some = std::min(block, count - i);
        f(Block{buffers, i, some, (some + group_lanes - 1) / group_lanes, size});
      }
    });
  }

  DType dtype;
  int64_t count;

 private:
  double work_;
  int64_t elements_ = 0;
  bool suits_;
  std::vector<Matrices> operands_;
};

// The part that both matrices of each lane have.
void copy_lanes(const LaneMatrices& from, const LaneMatrices& to, int64_t groups, int64_t rows,
                int64_t columns, int64_t size) {
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        std::memcpy(to.bytes(g, i, j, size), from.bytes(g, i, j, size),
                    static_cast<size_t>(group_lanes * size));
}

// Zeros in the lanes of rows [first, end).
void clear_rows(const LaneMatrices& m, int64_t groups, int64_t first, int64_t end, int64_t columns,
                int64_t size) {
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = first; i < end; ++i)
      for (int64_t j = 0; j < columns; ++j)
        std::memset(m.bytes(g, i, j, size), 0, static_cast<size_t>(group_lanes * size));
}

double cube(int64_t n) { return double(n) * double(n) * double(n); }
int64_t rows_of(const View& a) { return a.sizes[a.ndim - 2]; }
int64_t columns_of(const View& a) { return a.sizes[a.ndim - 1]; }

// They may be the user's.
void check_pivots(const LaneBatch::Block& block, const LaneMatrices& pivots, int64_t rows) {
  block.for_each([&](int64_t, int64_t g, int64_t lane) {
    for (int64_t k = 0; k < rows; ++k) {
      const int32_t pivot = pivots.at<int32_t>(g, 0, k)[lane];
      check(pivot >= 1 && pivot <= rows, "lu_solve: pivots should be between 1 and ", rows,
            " (inclusive), got ", pivot);
    }
  });
}

// x becomes the solution of L U x = P x, or of (L U)^T x = x P.
void solve_lu(const LaneBatch& batch, const LaneBatch::Block& block, const LaneMatrices& lu,
              const LaneMatrices& pivots, const LaneMatrices& x, int64_t n, int64_t columns,
              bool transposed) {
  if (!transposed) lane_exchange({batch.dtype, block.groups, n, columns, pivots, x, false});
  const LaneMatrices a = transposed ? lu.turned() : lu;
  lane_triangle({batch.dtype, block.groups, n, columns, a, x, false, !transposed});
  lane_triangle({batch.dtype, block.groups, n, columns, a, x, true, transposed});
  if (transposed) lane_exchange({batch.dtype, block.groups, n, columns, pivots, x, true});
}

// f(at) for the matrices whose code in `info` is below zero.
void run_others(const LaneBatch::Block& block, const LaneMatrices& info, const OneMatrix& one) {
  block.for_each([&](int64_t at, int64_t g, int64_t lane) {
    if (info.at<int32_t>(g, 0, 0)[lane] < 0) one(at);
  });
}

}  // namespace

bool cholesky_in_lanes(const View& a, const View& out, bool upper, const View& info) {
  const int64_t n = rows_of(a);
  LaneBatch batch(a, cube(n) / 6);
  const size_t from = batch.add(a, 2), to = batch.add(out, 2), codes = batch.add(info, 0);
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices given = block.read(from), made = block.target(to);
    // U of the upper triangle; an L is its transpose.
    const LaneMatrices u = upper ? made : made.turned();
    copy_lanes(given, made, block.groups, n, n, block.width);
    lane_cholesky({batch.dtype, block.groups, n, u, block.target(codes)});
    block.write(to);
    block.write(codes);
  });
  return true;
}

bool lu_in_lanes(const View& a, const View& lu, const View& pivots, bool pivot, const View& info) {
  const int64_t rows = rows_of(a), columns = columns_of(a);
  LaneBatch batch(a, cube(std::max(rows, columns)) / 3);
  const size_t from = batch.add(a, 2), to = batch.add(lu, 2), order = batch.add(pivots, 1),
               codes = batch.add(info, 0);
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices made = block.target(to);
    copy_lanes(block.read(from), made, block.groups, rows, columns, block.width);
    lane_lu({batch.dtype, block.groups, rows, columns, made, block.target(order),
             block.target(codes), pivot});
    for (size_t operand : {to, order, codes}) block.write(operand);
  });
  return true;
}

bool lu_solve_in_lanes(const View& lu, const View& pivots, const View& b, const View& out,
                       bool left, bool transposed) {
  const int64_t n = rows_of(lu), columns = left ? columns_of(b) : rows_of(b);
  LaneBatch batch(lu, double(n * n * columns));
  const size_t from = batch.add(lu, 2), order = batch.add(pivots, 1), given = batch.add(b, 2),
               to = batch.add(out, 2);
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices exchanges = block.read(order), made = block.target(to);
    check_pivots(block, exchanges, n);
    copy_lanes(block.read(given), made, block.groups, rows_of(b), columns_of(b), block.width);
    solve_lu(batch, block, block.read(from), exchanges, left ? made : made.turned(), n, columns,
             transposed);
    block.write(to);
  });
  return true;
}

bool triangle_in_lanes(const View& a, const View& b, const View& out, bool upper, bool left,
                       bool unit) {
  const int64_t n = rows_of(a), columns = left ? columns_of(b) : rows_of(b);
  LaneBatch batch(a, double(n * n * columns) / 2);
  const size_t from = batch.add(a, 2), given = batch.add(b, 2), to = batch.add(out, 2);
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices m = block.read(from), made = block.target(to);
    copy_lanes(block.read(given), made, block.groups, rows_of(b), columns_of(b), block.width);
    // x A = b is A^T x^T = b^T.
    lane_triangle({batch.dtype, block.groups, n, columns, left ? m : m.turned(),
                   left ? made : made.turned(), upper == left, unit});
    block.write(to);
  });
  return true;
}

bool inverse_in_lanes(const View& a, const View& out, const View& info) {
  const int64_t n = rows_of(a);
  LaneBatch batch(a, cube(n));
  const size_t from = batch.add(a, 2, true), to = batch.add(out, 2), codes = batch.add(info, 0);
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices m = block.read(from), made = block.target(to), code = block.target(codes);
    Buffer<int32_t> exchanges(block.groups * group_lanes * n);
    const LaneMatrices order{exchanges.data(), 0, group_lanes, group_lanes * n};
    lane_lu({batch.dtype, block.groups, n, n, m, order, code, true});
    lane_identity({batch.dtype, block.groups, n, made});
    solve_lu(batch, block, m, order, made, n, n, false);
    block.write(to);
    block.write(codes);
  });
  return true;
}

bool geqrf_in_lanes(const View& a, const View& out, const View& tau) {
  const int64_t rows = rows_of(a), columns = columns_of(a);
  LaneBatch batch(a, 2 * cube(std::max(rows, columns)));
  const size_t from = batch.add(a, 2), to = batch.add(out, 2), scales = batch.add(tau, 1);
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices made = block.target(to);
    copy_lanes(block.read(from), made, block.groups, rows, columns, block.width);
    lane_reflectors({batch.dtype, block.groups, rows, columns, std::min(rows, columns), made,
                     block.target(scales)});
    block.write(to);
    block.write(scales);
  });
  return true;
}

bool householder_product_in_lanes(const View& vectors, const View& tau, const View& out) {
  const int64_t rows = rows_of(vectors), columns = columns_of(vectors), count = columns_of(tau);
  LaneBatch batch(vectors, 2 * double(rows * columns * count));
  const size_t from = batch.add(vectors, 2), scales = batch.add(tau, 1), to = batch.add(out, 2);
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices made = block.target(to);
    copy_lanes(block.read(from), made, block.groups, rows, columns, block.width);
    lane_reflected({batch.dtype, block.groups, rows, columns, count, made, block.read(scales)});
    block.write(to);
  });
  return true;
}

bool qr_in_lanes(const View& a, const View* q, const View& r) {
  const int64_t rows = rows_of(a), columns = columns_of(a), few = std::min(rows, columns);
  const int64_t width = q ? columns_of(*q) : 0, most = std::max(columns, width);
  LaneBatch batch(a, 4 * cube(std::max(rows, columns)));
  const size_t from = batch.add(a, 2), to = batch.add(r, 2), basis = q ? batch.add(*q, 2) : 0;
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const int64_t numel = rows * most * group_lanes, size = block.width;
    Workspace memory(block.groups * (numel + few * group_lanes) * size);
    const LaneMatrices m{memory.data(), most * group_lanes, group_lanes, numel};
    const LaneMatrices tau{memory.as<char>() + block.groups * numel * size, 0, group_lanes,
                           few * group_lanes};
    copy_lanes(block.read(from), m, block.groups, rows, columns, size);
    lane_reflectors({batch.dtype, block.groups, rows, columns, few, m, tau});
    const LaneMatrices upper = block.target(to);
    const int64_t height = rows_of(r);
    copy_lanes(m, upper, block.groups, height, columns, size);
    for (int64_t i = 1; i < height; ++i)
      clear_rows(upper, block.groups, i, i + 1, std::min(i, columns), size);
    block.write(to);
    if (!q) return;
    lane_reflected({batch.dtype, block.groups, rows, width, few, m, tau});
    copy_lanes(m, block.target(basis), block.groups, rows, width, size);
    block.write(basis);
  });
  return true;
}

bool eigh_in_lanes(const View& a, const View& values, const View* vectors, bool upper,
                   const View& info, const OneMatrix& one) {
  const int64_t n = rows_of(a);
  LaneBatch batch(a, 20 * cube(n));
  const size_t from = batch.add(a, 2, true), numbers = batch.add(values, 1),
               basis = vectors ? batch.add(*vectors, 2) : 0, codes = batch.add(info, 0);
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices m = block.read(from), code = block.target(codes);
    lane_eigh({batch.dtype, block.groups, n, upper ? m.turned() : m, block.target(numbers),
               vectors ? block.target(basis) : LaneMatrices(), code});
    block.write(numbers);
    if (vectors) block.write(basis);
    block.write(codes);
    run_others(block, code, one);
  });
  return true;
}

bool svd_in_lanes(const View& a, const View* u, const View& s, const View* vh, const View& info,
                  const OneMatrix& one) {
  const int64_t rows = rows_of(a), columns = columns_of(a), few = std::min(rows, columns);
  const bool tall = rows >= columns;
  if (u && (columns_of(*u) != few || rows_of(*vh) != few)) return false;
  LaneBatch batch(a, 20 * cube(std::max(rows, columns)));
  const size_t from = batch.add(a, 2, true), numbers = batch.add(s, 1),
               left = u ? batch.add(*u, 2) : 0, right = u ? batch.add(*vh, 2) : 0,
               codes = batch.add(info, 0);
  if (!batch.suits()) return false;
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices given = block.read(from), m = tall ? given : given.turned();
    const LaneMatrices code = block.target(codes);
    // Of the transpose, left and right change places. v has the right vectors for its columns.
    LaneMatrices v;
    if (u) v = tall ? block.target(right).turned() : block.target(left);
    lane_svd(
        {batch.dtype, block.groups, tall ? rows : columns, few, m, block.target(numbers), v, code});
    if (u) {
      const LaneMatrices found = tall ? block.target(left) : block.target(right).turned();
      copy_lanes(m, found, block.groups, tall ? rows : columns, few, block.width);
      block.write(left);
      block.write(right);
    }
    block.write(numbers);
    block.write(codes);
    run_others(block, code, one);
  });
  return true;
}

// By Q R of a, or of its transpose where it has fewer rows than columns.
bool lstsq_in_lanes(const View& a, const View& b, const View& solution, const View* rank,
                    double rcond, LstsqDriver driver, const View& info, const OneMatrix& one) {
  const int64_t rows = rows_of(a), columns = columns_of(a), few = std::min(rows, columns);
  const int64_t many = std::max(rows, columns), sides = columns_of(b);
  const bool tall = rows >= columns;
  if (driver == LstsqDriver::Gelsd || driver == LstsqDriver::Gelss || few > most_conditioned)
    return false;
  LaneBatch batch(a, 2.0 * double(many * few) * double(few + sides));
  const size_t from = batch.add(a, 2, true), given = batch.add(b, 2), to = batch.add(solution, 2),
               codes = batch.add(info, 0);
  if (!batch.suits()) return false;
  // LAPACK's estimates of the condition are at most what is computed here.
  const double epsilon = batch.dtype == DType::Float32 ? std::numeric_limits<float>::epsilon()
                                                       : std::numeric_limits<double>::epsilon();
  const double most = 0.1 / std::max(rcond, epsilon);
  batch.run([&](const LaneBatch::Block& block) {
    const LaneMatrices read = block.read(from), m = tall ? read : read.turned();
    const LaneMatrices x = block.target(to), code = block.target(codes);
    Workspace memory(block.groups * few * group_lanes * block.width);
    const LaneMatrices tau{memory.data(), 0, group_lanes, few * group_lanes};
    const LaneReflectors q{batch.dtype, block.groups, many, few, few, m, tau};
    lane_reflectors(q);
    lane_condition({batch.dtype, block.groups, few, m, code, most});
    copy_lanes(block.read(given), x, block.groups, rows, sides, block.width);
    if (tall) lane_ormqr({q, x, sides, true});
    const LaneMatrices r = tall ? m : m.turned();
    lane_triangle({batch.dtype, block.groups, few, sides, r, x, tall, false});
    if (!tall) {
      clear_rows(x, block.groups, few, many, sides, block.width);
      lane_ormqr({q, x, sides, false});
    }
    block.write(to);
    block.write(codes);
    run_others(block, code, one);
    block.for_each([&](int64_t at, int64_t g, int64_t lane) {
      if (rank && code.at<int32_t>(g, 0, 0)[lane] == 0) *item_of<int64_t>(*rank, at, 0) = few;
    });
  });
  return true;
}

}  // namespace rl::kernels
