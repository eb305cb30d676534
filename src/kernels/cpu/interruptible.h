// Serial loops that the user can stop.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/interpreter.h"

namespace rl::kernels {

constexpr int64_t interruptible_elements = 1 << 20;  // at most some 20 ms, even if scattered

// f(begin, end) on consecutive parts of [0, n), between which Ctrl-C ends the loop.
template <class F>
void interruptible_for(int64_t n, F&& f, int64_t part = interruptible_elements) {
  Interruption interruption;
  for (int64_t i = 0; i < n; i += part) {
    if (i > 0) interruption.poll();
    f(i, std::min(n, i + part));
  }
}

// f(item) for each of the items, likewise.
template <class Items, class F>
void interruptible_for_each(Items& items, F&& f) {
  auto begin = items.begin();
  interruptible_for(static_cast<int64_t>(items.size()), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) f(begin[i]);
  });
}

}  // namespace rl::kernels
