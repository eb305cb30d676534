#include "kernels/range.h"

#include <algorithm>

#include "core/parallel.h"

namespace rl::kernels {
namespace {

// out[i] = f(i) for i in [begin, end), i as a double. In pieces, because only 32-bit integers turn
// into doubles in vectors.
template <class T, class F>
void each(T* out, int64_t begin, int64_t end, F f) {
  constexpr int64_t piece = 4096;
  for (int64_t i = begin; i < end; i += piece) {
    double first = static_cast<double>(i);
    int32_t n = static_cast<int32_t>(std::min(piece, end - i));
    for (int32_t k = 0; k < n; ++k) out[i + k] = T(f(first + k));
  }
}

}  // namespace

void arange(const View& out, double start, double step) {
  visit_floating("arange", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.ptr<T>();
    parallel_for(0, out.numel, default_grain, [&](int64_t begin, int64_t end) {
      each(to, begin, end, [=](double i) { return convert<compute_t<T>>(start + step * i); });
    });
  });
}

void linspace(const View& out, const Scalar& start, const Scalar& end) {
  visit_floating("linspace", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    T* to = out.ptr<T>();
    int64_t half = out.numel / 2, last = out.numel - 1;
    C from = start.to<C>(), until = out.numel == 1 ? from : end.to<C>();
    C step = out.numel == 1 ? C(0) : (until - from) / static_cast<C>(last);
    double count = static_cast<double>(last);
    parallel_for(0, out.numel, default_grain, [&](int64_t b, int64_t e) {
      each(to, b, std::min(e, half), [=](double i) { return from + step * static_cast<C>(i); });
      each(to, std::max(b, half), e,
           [=](double i) { return until - step * static_cast<C>(count - i); });
    });
  });
}

}  // namespace rl::kernels
