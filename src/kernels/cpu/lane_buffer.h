// Batches of small matrices on their way into lanes, and back.
#pragma once
#include <algorithm>
#include <optional>

#include "core/view.h"
#include "kernels/cpu/lane_matrices.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/workspace.h"
#include "kernels/elementwise.h"

namespace rl::kernels {

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

// The items of `v`, of the last `inner` dims, 0 to 2, as matrices; vectors are rows. None where no
// single step leads from each item to the next.
std::optional<Matrices> items_as_matrices(const View& v, int64_t inner);

// Matrices of up to `most` groups in lanes, of a compute dtype. A dense matrix of some groups
// becomes so by one transposition, as 16 lines of several matrices each, in whole squares whatever
// the size of a matrix: lane l of group g has matrix l * groups + g of those that are read.
class LaneBuffer {
 public:
  LaneBuffer(const Matrices& m, DType compute, int64_t most);

  // Those of matrices [first, first + count); lanes beyond are zeros.
  LaneMatrices read(int64_t first, int64_t count) const;
  // Where write() will find those lanes.
  LaneMatrices target(int64_t first, int64_t count) const {
    return at(layout(first, count), matrices_.numel() * group_lanes);
  }
  // Puts back what stands in target(), changed by `finish` if that is given.
  void write(int64_t first, int64_t count, StripFunction finish = nullptr) const;

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
  void repeat() const;

  Matrices matrices_;
  DType compute_;
  int64_t elements_;
  Workspace memory_;
};

// How many groups are turned at a time, of so many bytes each: they are to stay in the first cache.
inline int64_t groups_at_a_time(int64_t group_bytes) {
  constexpr int64_t most = 16, bytes = 24576;
  int64_t groups = most;
  while (groups > 1 && groups * group_bytes > bytes) groups /= 2;
  return groups;
}

}  // namespace rl::kernels
