#include <algorithm>

#include "kernels/copy.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/index.h"

namespace rl::kernels {
namespace {

// Elements [begin, begin + size) along dim.
struct Slice {
  View view;
  Dims sizes;
  Slice(const View& v, int64_t dim, int64_t begin, int64_t size) : view(v), sizes(v.shape()) {
    sizes[dim] = size;
    view.sizes = sizes.data();
    view.numel = product(sizes);
    view.data = v.ptr<char>() + begin * v.strides[dim] * itemsize(v.dtype);
  }
};

// Elements [first, last) of a row, the others zero.
void keep_inside(int64_t size, const char* from, int64_t step, int64_t first, int64_t last,
                 int64_t width, char* to, int64_t to_step) {
  const complex128 zero(0);  // whose bytes are zero in every dtype
  const char* source = reinterpret_cast<const char*>(&zero);
  copy_strided(size, source, 0, to, to_step, first);
  if (from != to)
    copy_strided(size, from + first * step, step, to + first * to_step, to_step, last - first);
  copy_strided(size, source, 0, to + last * to_step, to_step, width - last);
}
// The same of a dense row that is not worth three calls.
constexpr int64_t narrow = 8;
void keep_inside_narrow(DType dtype, const char* from, int64_t first, int64_t last, int64_t width,
                        char* to) {
  visit_size(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t j = 0; j < width; ++j) {
      const T value = reinterpret_cast<const T*>(from)[j];
      reinterpret_cast<T*>(to)[j] = j >= first && j < last ? value : T();
    }
  });
}

// Keeps elements [first, last) of each row of the last dim and sets the others to zero; both move
// one to the right with each row of a matrix.
void keep_band(const char* name, const View& input, const View& out, int64_t first, int64_t last) {
  check(input.ndim >= 2, name, ": input tensor must have at least 2 dimensions");
  check(input.shape() == out.shape() && input.dtype == out.dtype, name, ": out has sizes ",
        out.shape(), " and dtype ", out.dtype, ", input ", input.shape(), " and ", input.dtype);
  if (out.numel == 0) return;
  int64_t column = out.ndim - 1, width = out.sizes[column], height = out.sizes[column - 1];
  int64_t size = itemsize(out.dtype), in_step = input.strides[column] * size;
  int64_t out_step = out.strides[column] * size;
  StridedIterator<2> rows({&out, &input}, false, column);
  const bool is_narrow = width <= narrow && in_step == size && out_step == size;
  int64_t grain = std::max<int64_t>(1, default_grain / width);
  parallel_for(0, rows.numel, grain, [&](int64_t begin, int64_t end) {
    int64_t r = begin;
    rows.range(begin, end, rows.base, [&](char* const* p, int64_t n) {
      for (int64_t i = 0; i < n; ++i, ++r) {
        int64_t a = std::clamp<int64_t>(first + r % height, 0, width);
        int64_t b = std::clamp<int64_t>(last + r % height, a, width);
        char* to = p[0] + i * rows.strides[0][0];
        const char* from = p[1] + i * rows.strides[1][0];
        if (is_narrow) keep_inside_narrow(out.dtype, from, a, b, width, to);
        else keep_inside(size, from, in_step, a, b, width, to, out_step);
      }
    });
  });
}

// Far beyond any row, yet safe to add a row number to.
constexpr int64_t beyond = int64_t(1) << 61;

}  // namespace

void flip(const View& input, IntSpan dims, const View& out) {
  if (input.numel == 0) return;
  View turned = input;
  Dims strides(input.stride());
  for (int64_t d : dims) {
    turned.data =
        turned.ptr<char>() + (input.sizes[d] - 1) * input.strides[d] * itemsize(input.dtype);
    strides[d] = -strides[d];
  }
  turned.strides = strides.data();
  copy(turned, out);
}

void roll(const View& input, IntSpan shifts, IntSpan dims, const View& out) {
  if (input.numel == 0) return;
  if (dims.empty()) return copy(input, out);
  int64_t d = dims[0], size = input.sizes[d], shift = (shifts[0] % size + size) % size;
  IntSpan other_shifts{shifts.data() + 1, shifts.size() - 1},
      other_dims{dims.data() + 1, dims.size() - 1};
  Slice head(input, d, 0, size - shift), tail(input, d, size - shift, shift);
  roll(tail.view, other_shifts, other_dims, Slice(out, d, 0, shift).view);
  roll(head.view, other_shifts, other_dims, Slice(out, d, shift, size - shift).view);
}

void tril(const View& input, int64_t diagonal, const View& out) {
  keep_band("tril", input, out, -beyond, std::clamp(diagonal, -beyond, beyond) + 1);
}
void triu(const View& input, int64_t diagonal, const View& out) {
  keep_band("triu", input, out, std::clamp(diagonal, -beyond, beyond), beyond + beyond / 2);
}

}  // namespace rl::kernels
