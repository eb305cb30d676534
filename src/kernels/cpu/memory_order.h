// The order in which the elements of views lie in memory, and visits in the order of the first.
#pragma once
#include <algorithm>
#include <array>

#include "core/view.h"

namespace rl::kernels {

// The dims of `view` longer than 1 by descending stride into `order`; returns how many they are.
inline int64_t memory_order(const View& view, int64_t* order) {
  int64_t ndim = 0;
  for (int64_t d = 0; d < view.ndim; ++d)
    if (view.sizes[d] != 1) order[ndim++] = d;
  std::stable_sort(order, order + ndim,
                   [&](int64_t a, int64_t b) { return view.strides[a] > view.strides[b]; });
  return ndim;
}

// Strides of a gapless tensor of view's shape with its dims in the same order.
inline Dims memory_order_strides(const View& view) {
  for (int64_t d = 0; d < view.ndim; ++d)  // an expanded view has no order of its own
    if (view.strides[d] == 0 && view.sizes[d] > 1) return contiguous_strides(view.shape());
  int64_t order[max_dims], step = 1;
  Dims strides(view.ndim, 1);
  for (int64_t i = memory_order(view, order) - 1; i >= 0; --i) {
    strides[order[i]] = step;
    step *= view.sizes[order[i]];
  }
  return strides;
}

// Pixels of channels side by side: channels_last images, without gaps but between images.
inline bool by_pixels(const View& v, int dims) {
  if (v.ndim != dims + 2 || v.sizes[1] < 2 || v.strides[1] != 1) return false;
  int64_t step = v.sizes[1];
  for (int64_t d = v.ndim - 1; d >= 2; --d) {
    if (v.sizes[d] != 1 && v.strides[d] != step) return false;
    step *= v.sizes[d];
  }
  return true;
}

// f(pointers, steps, n) for runs of n elements, steps in elements.
template <int count, class F>
void for_each_run(std::array<const View*, count> views, F f) {
  const View& first = *views[0];
  if (first.numel == 0) return;
  int64_t order[max_dims], ndim = memory_order(first, order);

  // The innermost run takes in every dim that continues it without a gap.
  std::array<int64_t, count> step;
  int64_t run = 1;
  for (int v = 0; v < count; ++v) step[v] = ndim ? views[v]->strides[order[ndim - 1]] : 1;
  while (ndim > 0) {
    int64_t d = order[ndim - 1];
    bool continues = true;
    for (int v = 0; v < count; ++v) continues = continues && views[v]->strides[d] == step[v] * run;
    if (!continues) break;
    run *= first.sizes[d];
    --ndim;
  }

  std::array<char*, count> data;
  std::array<int64_t, count> width;
  for (int v = 0; v < count; ++v) {
    data[v] = static_cast<char*>(views[v]->data);
    width[v] = itemsize(views[v]->dtype);
  }
  int64_t index[max_dims] = {};
  for (;;) {
    f(data, step, run);
    int64_t i = ndim - 1;
    for (; i >= 0; --i) {
      int64_t d = order[i];
      bool more = ++index[i] < first.sizes[d];
      int64_t moved = more ? 1 : 1 - first.sizes[d];
      for (int v = 0; v < count; ++v) data[v] += moved * views[v]->strides[d] * width[v];
      if (more) break;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

}  // namespace rl::kernels
