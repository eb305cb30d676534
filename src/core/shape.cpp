#include "core/shape.h"

namespace rl {

void fail_product(IntSpan dims) {
  fail(ErrorKind::Runtime, "a shape of more than 2**58 elements: ", dims);
}

namespace {
void place(Dims& strides, IntSpan sizes, int64_t d, int64_t& step) {
  strides[d] = step;
  __builtin_mul_overflow(step, sizes[d] > 1 ? sizes[d] : 1,
                         &step);  // may wrap beside a size of 0
}
}  // namespace

Dims contiguous_strides(IntSpan sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (int64_t d = sizes.size() - 1; d >= 0; --d) place(strides, sizes, d, step);
  return strides;
}

Dims channels_last_strides(IntSpan sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  place(strides, sizes, 1, step);
  for (int64_t d = sizes.size() - 1; d >= 2; --d) place(strides, sizes, d, step);
  place(strides, sizes, 0, step);
  return strides;
}

bool has_standard_strides(IntSpan sizes, IntSpan strides) {
  int64_t step = 1;
  for (int64_t i = sizes.size() - 1; i >= 0; --i) {
    if (strides[i] != step) return false;
    __builtin_mul_overflow(step, sizes[i] > 1 ? sizes[i] : 1, &step);
  }
  return true;
}

bool is_contiguous(IntSpan sizes, IntSpan strides) {
  int64_t step = 1;
  for (int64_t i = sizes.size() - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1 && strides[i] != step) {
      for (int64_t j = 0; j < i; ++j)
        if (sizes[j] == 0) return true;
      return false;
    }
    __builtin_mul_overflow(step, sizes[i], &step);
  }
  return true;
}

Dims broadcast_sizes(IntSpan a, IntSpan b, const char* op) {
  const bool swapped = a.size() < b.size();
  if (swapped) std::swap(a, b);
  Dims out(a);
  int64_t shift = a.size() - b.size();
  for (int64_t i = b.size() - 1; i >= 0; --i) {  // the last dim that differs is named, as in torch
    int64_t x = a[i + shift], y = b[i];
    if (x == y || y == 1) continue;
    if (x != 1)
      fail(ErrorKind::Runtime, op, ": The size of tensor a (", swapped ? y : x,
           ") must match the size of tensor b (", swapped ? x : y, ") at non-singleton dimension ",
           i + shift, "; shapes ", swapped ? b : a, " and ", swapped ? a : b);
    out[i + shift] = y;
  }
  return out;
}

}  // namespace rl
