#include "kernels/cpu/group_dots.h"

#include <algorithm>

#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/cpu/scratch.h"
#include "kernels/gemm.h"

namespace rl::kernels {
namespace {

// The rows of x as the loops read them.
Scratch<float> packed_rows(const View& x, bool four_bits) {
  Scratch<float> rows(static_cast<size_t>(x.numel));
  Dims strides = contiguous_strides(x.shape());
  copy(x, {rows.data(), x.sizes, strides.data(), 2, x.numel, DType::Float32});
  if (!four_bits) return rows;
  constexpr int64_t half = group_block / 2;
  float block[group_block];
  for (auto p = rows.begin(); p != rows.end(); p += group_block) {
    for (int64_t i = 0; i < group_block; ++i) block[i % 2 * half + i / 2] = p[i];
    std::copy_n(block, group_block, p);
  }
  return rows;
}

}  // namespace

void gemm_groups(const View& x, const View& integers, const View& scales, const View& out) {
  if (out.numel == 0) return;
  int64_t terms = x.sizes[1], groups = scales.sizes[1];
  if (terms == 0) return fill(out, 0);
  bool four_bits = integers.dtype == DType::UInt8;
  Scratch<float> rows = packed_rows(x, four_bits);
  GroupDots p{rows.data(),  integers.data, scales.ptr<float>(), out.ptr<float>(), x.sizes[0],
              out.sizes[1], terms,         terms / groups,      four_bits};
  parallel_for(0, p.columns, 1 + default_grain / (p.rows * terms),
               [&](int64_t begin, int64_t end) { group_dots(p, begin, end); });
}

}  // namespace rl::kernels
