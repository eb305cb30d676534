#include <algorithm>

#include "core/interpreter.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/index.h"
#include "kernels/reduce.h"

namespace rl::kernels {
namespace {

void check_mask(const char* op, const View& v, const View& mask) {
  check(mask.dtype == DType::Bool, op, ": expected a mask of dtype bool, got ", mask.dtype);
  check(mask.shape() == v.shape(), op, ": mask of sizes ", mask.shape(), " and self of sizes ",
        v.shape(), " do not match");
}

}  // namespace

int64_t count_true(const View& mask) {
  int64_t count = 0;
  Dims ones(mask.ndim, 1), strides(mask.ndim, 1);
  count_nonzero(mask, {&count, ones.data(), strides.data(), mask.ndim, 1, DType::Int64});
  return count;
}

void masked_select(const View& input, const View& mask, const View& out) {
  check_mask("masked_select", input, mask);
  visit_size(input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (out.numel == 0) return;
    T* to = out.ptr<T>();
    int64_t step = out.strides[0], left = out.numel;
    // Every element is written, and stays where the mask is true: random masks make branches slow.
    StridedIterator<2> w({&input, &mask}, false);
    w.range(0, w.numel, w.base, [&](char* const* p, int64_t n) {
      for (int64_t i = 0; i < n && left; ++i) {
        bool chosen = p[1][i * w.strides[1][0]] != 0;
        *to = *reinterpret_cast<const T*>(p[0] + i * w.strides[0][0]);
        to += chosen ? step : 0;
        left -= chosen;
      }
    });
    for (; left > 0; --left, to += step) *to = T();  // the mask has changed since it was counted
  });
}

void masked_scatter(const View& self, const View& mask, const View& src) {
  check_mask("masked_scatter", self, mask);
  int64_t count = count_true(mask), used = 0;
  check(src.numel >= count,
        "masked_scatter: expected self and source to have same number of elements, "
        "got ",
        count, " true places and ", src.numel, " values");
  visit_size(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Scratch<T> values(static_cast<size_t>(count + 1));  // one more is read, and not used
    values.back() = T();
    StridedIterator<1> from({&src}, false);
    from.range(0, count, from.base, [&](char* const* p, int64_t n) {
      copy_strided(sizeof(T), p[0], from.strides[0][0],
                   reinterpret_cast<char*>(values.data() + used), sizeof(T), n);
      used += n;
    });
    // Every element is written, with itself where the mask is false: random masks make branches
    // slow.
    const T *next = values.data(), *last = next + count;
    StridedIterator<2> w({&self, &mask}, false);
    w.range(0, w.numel, w.base, [&](char* const* p, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        bool chosen = p[1][i * w.strides[1][0]] != 0;
        T* place = reinterpret_cast<T*>(p[0] + i * w.strides[0][0]);
        if constexpr (std::is_unsigned_v<T>) *place ^= (*place ^ *next) & (T(0) - T(chosen));
        else if (chosen) *place = *next;
        next += chosen & (next != last);  // which a mask that has changed might pass
      }
    });
  });
}

void nonzero(const View& input, const View& out) {
  Interruption interruption;
  constexpr int64_t strip = 1024;
  int64_t at[max_dims] = {}, last = input.ndim - 1, down = out.strides[0], across = out.strides[1];
  int64_t width = input.ndim ? input.sizes[last] : 1,
          step = input.ndim ? input.strides[last] * itemsize(input.dtype) : 0;
  int64_t rows = width ? input.numel / width : 0;
  int64_t *to = out.ptr<int64_t>(), left = out.numel ? out.sizes[0] : 0;
  const char* row = input.ptr<char>();
  for (int64_t r = 0; r < rows; ++r) {
    bool hits[strip];  // of our own, where load_strip writes 0 or 1
    for (int64_t i = 0; i < width; i += strip) {
      interruption.poll();
      int64_t n = std::min(strip, width - i);
      load_strip(input.dtype, row + i * step, step, DType::Bool, hits, n);
      // As in masked_select: written in any case, kept for a hit.
      for (int64_t k = 0; k < n && left; ++k) {
        for (int64_t d = 0; d < last; ++d) to[d * across] = at[d];
        if (last >= 0) to[last * across] = i + k;
        to += hits[k] ? down : 0;
        left -= hits[k];
      }
    }
    for (int64_t d = last - 1; d >= 0; --d) {
      row += input.strides[d] * itemsize(input.dtype);
      if (++at[d] < input.sizes[d]) break;
      row -= input.sizes[d] * input.strides[d] * itemsize(input.dtype);
      at[d] = 0;
    }
  }
  for (; left > 0; --left, to += down)  // the input has changed since it was counted
    for (int64_t d = 0; d <= last; ++d) to[d * across] = 0;
}

}  // namespace rl::kernels
