#include "kernels/cpu/lane_buffer.h"

#include "kernels/copy.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/transpose.h"

namespace rl::kernels {
namespace {

void copy_matrices(const Matrices& from, const Matrices& to, int64_t count) {
  const int64_t sizes[3] = {count, from.rows, from.columns};
  const int64_t steps[3] = {from.step, from.row, from.column};
  const int64_t new_steps[3] = {to.step, to.row, to.column};
  int64_t numel = count * from.numel();
  copy({from.data, sizes, steps, 3, numel, from.dtype},
       {to.data, sizes, new_steps, 3, numel, to.dtype});
}

}  // namespace

std::optional<Matrices> items_as_matrices(const View& v, int64_t inner) {
  const int64_t batch = v.ndim - inner;
  int64_t step = 0, count = 1;
  for (int64_t d = batch - 1; d >= 0; --d) {
    if (v.sizes[d] == 1) continue;
    if (count == 1) step = v.strides[d];
    else if (v.strides[d] != step * count) return std::nullopt;
    count *= v.sizes[d];
  }
  const int64_t column = v.ndim - 1, row = v.ndim - 2;
  return Matrices{v.dtype,
                  v.ptr<char>(),
                  inner < 2 ? 1 : v.sizes[row],
                  inner < 1 ? 1 : v.sizes[column],
                  inner < 2 ? 0 : v.strides[row],
                  inner < 1 ? 0 : v.strides[column],
                  step};
}

LaneBuffer::LaneBuffer(const Matrices& m, DType compute, int64_t most)
    : matrices_(m),
      compute_(compute),
      elements_((m.step ? most : 1) * group_lanes * m.numel()),
      memory_(elements_ * (itemsize(compute) + 2 * itemsize(m.dtype)) + vector_bytes) {
  if (m.step == 0) repeat();
}

LaneMatrices LaneBuffer::read(int64_t first, int64_t count) const {
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

void LaneBuffer::write(int64_t first, int64_t count, StripFunction finish) const {
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

// The one matrix that all lanes have.
void LaneBuffer::repeat() const {
  const int64_t size = itemsize(compute_), length = matrices_.numel();
  Matrices copied = matrices_.dense_at(dense());
  copied.dtype = compute_;
  copy_matrices(matrices_, copied, 1);
  repeat_elements(size, copied.data, size, wide(), group_lanes, length);
}

}  // namespace rl::kernels
