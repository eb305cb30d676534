#include "kernels/workspace.h"

#include <cstring>

#include "core/parallel.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {
namespace {

// Both views' dims with those of size 1 dropped and neighbours merged where both allow it.
struct CopyPlan {
  Dims sizes, from, to;
  explicit CopyPlan(const View& source, const View& target) {
    for (int64_t i = 0; i < source.ndim; ++i) {
      int64_t n = source.sizes[i], f = source.strides[i], t = target.strides[i];
      if (n == 1) continue;
      if (!sizes.empty() && from.back() == f * n && to.back() == t * n) {
        sizes.back() *= n;
        from.back() = f;
        to.back() = t;
      } else {
        sizes.push_back(n);
        from.push_back(f);
        to.push_back(t);
      }
    }
    if (sizes.empty()) {
      sizes.push_back(1);
      from.push_back(1);
      to.push_back(1);
    }
  }
};

template <class From, class To>
void copy_row(const From* from, int64_t from_step, To* to, int64_t to_step, int64_t n) {
  if (from_step == 1 && to_step == 1) {
    if constexpr (std::is_same_v<From, To>)
      std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(n) * sizeof(From));
    else convert_contiguous(dtype_of<From>, dtype_of<To>, from, to, n);
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = static_cast<To>(from[i * from_step]);
}

template <class From, class To>
void copy_typed(const From* from, To* to, const CopyPlan& plan) {
  int64_t last = plan.sizes.size() - 1, inner = plan.sizes[last], rows = 1;
  for (int64_t i = 0; i < last; ++i) rows *= plan.sizes[i];
  if (rows == 1) {
    parallel_for(0, inner, default_grain, [&](int64_t begin, int64_t end) {
      copy_row(from + begin * plan.from[last], plan.from[last], to + begin * plan.to[last],
               plan.to[last], end - begin);
    });
    return;
  }
  parallel_for(0, rows, default_grain / inner + 1, [&](int64_t begin, int64_t end) {
    Dims index(last);
    int64_t f = 0, t = 0;
    for (int64_t d = last - 1, rest = begin; d >= 0; --d) {
      index[d] = rest % plan.sizes[d];
      rest /= plan.sizes[d];
      f += index[d] * plan.from[d];
      t += index[d] * plan.to[d];
    }
    for (int64_t row = begin; row < end; ++row) {
      copy_row(from + f, plan.from[last], to + t, plan.to[last], inner);
      for (int64_t d = last - 1; d >= 0; --d) {
        f += plan.from[d];
        t += plan.to[d];
        if (++index[d] < plan.sizes[d]) break;
        f -= plan.from[d] * plan.sizes[d];
        t -= plan.to[d] * plan.sizes[d];
        index[d] = 0;
      }
    }
  });
}

}  // namespace

void copy_strided(const View& from, const View& to) {
  if (from.numel == 0) return;
  CopyPlan plan(from, to);
  if (from.dtype == to.dtype)
    return visit_size(from.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      copy_typed(from.ptr<const T>(), to.ptr<T>(), plan);
    });
  if (to.dtype == DType::Float32)
    return visit<half, bfloat16>("copy", from.dtype, [&](auto tag) {
      copy_typed(from.ptr<const typename decltype(tag)::type>(), to.ptr<float>(), plan);
    });
  check(from.dtype == DType::Float32, "copy: cannot convert ", from.dtype, " to ", to.dtype);
  visit<half, bfloat16>("copy", to.dtype, [&](auto tag) {
    copy_typed(from.ptr<const float>(), to.ptr<typename decltype(tag)::type>(), plan);
  });
}

RowMajor::RowMajor(IntSpan sizes, DType dtype)
    : sizes_(sizes),
      strides_(contiguous_strides(sizes)),
      numel_(product(sizes)),
      dtype_(dtype),
      memory_(numel_ * itemsize(dtype)) {}

}  // namespace rl::kernels
