// What of one dim of a convolution belongs together: the places of the source that some results
// need, and the results that are made with the same taps.
#pragma once
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/conv_problem.h"

namespace rl::kernels {

struct Axis {
  int64_t large = 1, small = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
  int64_t reach() const { return (kernel - 1) * dilation; }
};

// The last `count` dims, of which the first may be missing.
template <size_t count> std::array<Axis, count> axes_of(const ConvProblem& p) {
  std::array<Axis, count> axes;
  for (int i = 0; i < p.dims; ++i)
    axes[count - static_cast<size_t>(p.dims - i)] = {p.large[i],  p.small[i],   p.kernel[i],
                                                     p.stride[i], p.padding[i], p.dilation[i]};
  return axes;
}

inline int64_t floor_divided(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// The places of the source that results [begin, end) are made of; some may lie outside of it.
inline Range source_of(bool scatter, const Axis& a, Range of) {
  if (!scatter)
    return {of.begin * a.stride - a.padding, (of.end - 1) * a.stride - a.padding + a.reach() + 1};
  return {floor_divided(of.begin + a.padding - a.reach(), a.stride),
          floor_divided(of.end - 1 + a.padding, a.stride) + 1};
}

// Results `step` apart that are made with the same taps; `source` belongs to the first, and the
// next one's is source_step on.
struct Lattice {
  int64_t first, step, count, source, source_step;
  struct Tap {
    int64_t index, offset;
  };
  std::vector<Tap> taps;
};

inline std::vector<Lattice> lattices_of(bool scatter, const Axis& a, Range of) {
  std::vector<Lattice> all;
  if (!scatter) {
    all.push_back({of.begin, 1, of.size(), of.begin * a.stride - a.padding, a.stride, {}});
    for (int64_t k = 0; k < a.kernel; ++k) all.back().taps.push_back({k, k * a.dilation});
    return all;
  }
  for (int64_t first = of.begin; first < std::min(of.end, of.begin + a.stride); ++first) {
    int64_t count = (of.end - first + a.stride - 1) / a.stride, place = first + a.padding;
    all.push_back({first, a.stride, count, place / a.stride, 1, {}});
    for (int64_t k = 0; k < a.kernel; ++k) {
      int64_t apart = place % a.stride - k * a.dilation;
      if (apart % a.stride == 0) all.back().taps.push_back({k, apart / a.stride});
    }
  }
  return all;
}

}  // namespace rl::kernels
