// The order of images in which convolutions work.
#pragma once
#include "core/view.h"

namespace rl::kernels {

inline Dims channels_last_strides(IntSpan sizes) {
  Dims strides(sizes.size());
  strides[1] = 1;
  int64_t step = sizes[1];
  for (int64_t i = sizes.size() - 1; i >= 2; --i) {
    strides[i] = step;
    step *= sizes[i];
  }
  strides[0] = step;
  return strides;
}

// Strides of dims of size 1 are arbitrary.
inline bool same_layout(IntSpan sizes, IntSpan a, IntSpan b) {
  for (int64_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 && a[i] != b[i]) return false;
  return true;
}

inline bool lies_channels_last(const View& v) {
  return same_layout(v.shape(), v.stride(), channels_last_strides(v.shape()));
}

}  // namespace rl::kernels
