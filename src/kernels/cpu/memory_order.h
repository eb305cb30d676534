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

// The runs of elements by which views of one shape, which is not empty, go through memory in the
// order of the first. Apart from what is done with a run, so that there is one copy of it.
template <int count> class Runs {
 public:
  std::array<char*, count> data;
  std::array<int64_t, count> step;  // in elements
  int64_t length = 1;

  [[gnu::noinline]] explicit Runs(std::array<const View*, count> views) : views_(views) {
    const View& first = *views[0];
    ndim_ = memory_order(first, order_);
    for (int v = 0; v < count; ++v) {
      data[v] = static_cast<char*>(views[v]->data);
      step[v] = ndim_ ? views[v]->strides[order_[ndim_ - 1]] : 1;
    }
    // Takes in every dim that continues the innermost without a gap.
    while (ndim_ > 0) {
      int64_t d = order_[ndim_ - 1];
      for (int v = 0; v < count; ++v)
        if (views[v]->strides[d] != step[v] * length) return;
      length *= first.sizes[d];
      --ndim_;
    }
  }

  // To the run after this; false after the last.
  [[gnu::noinline]] bool next() {
    for (int64_t i = ndim_ - 1; i >= 0; --i) {
      int64_t d = order_[i], size = views_[0]->sizes[d];
      bool more = ++index_[i] < size;
      int64_t moved = more ? 1 : 1 - size;
      for (int v = 0; v < count; ++v)
        data[v] += moved * views_[v]->strides[d] * itemsize(views_[v]->dtype);
      if (more) return true;
      index_[i] = 0;
    }
    return false;
  }

 private:
  std::array<const View*, count> views_;
  int64_t order_[max_dims], ndim_, index_[max_dims] = {};
};

// f(pointers, steps, n) for runs of n elements, steps in elements.
template <int count, class F>
void for_each_run(std::array<const View*, count> views, F f) {
  if (views[0]->numel == 0) return;
  Runs<count> runs(views);
  do f(runs.data, runs.step, runs.length);
  while (runs.next());
}

}  // namespace rl::kernels
