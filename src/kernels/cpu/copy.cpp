#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/stream.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/transpose.h"

namespace rl::kernels {
namespace {

// A copy keeps what it reads where the threads that wrote it are: by one of two, a cat of rows that
// both had gathered took 180 us, and by both 60.
constexpr int64_t grain = 2 * default_grain;
// A call for each row of up to this would take longer than the copy. Past the caches, longer rows
// take a third of the time: a cat of 64 MB in rows of 256 bytes 2.8 ms, not 8.3.
constexpr int64_t short_row_bytes = 512, short_streamed_bytes = 64;

// Each panel of rows of dim d is a transposition.
void copy_transposed(const StridedIterator<2>& w, int d, int64_t size, bool streamed) {
  constexpr int64_t width = 64;  // rows of `from` that are read side by side
  const int64_t *to = w.strides[0], *from = w.strides[1];
  w.parallel_panels(d, 256, grain, [&](char* const* p, int64_t rows) {
    for (int64_t c = 0; c < w.sizes[0]; c += width)
      transpose(size, p[1] + c * from[0], from[0], from[d], p[0] + c * to[0], to[d], to[0],
                std::min(width, w.sizes[0] - c), rows, streamed);
    if (streamed) end_streaming();
  });
}

// Several elements that lie side by side in both views are copied as one: returns its size.
int64_t widen_element(StridedIterator<2>& w, int64_t size) {
  constexpr int64_t widest = 64;
  int64_t bytes = size * w.sizes[0];
  if (w.ndim == 1 || w.strides[0][0] != size || w.strides[1][0] != size || bytes > widest ||
      (bytes & (bytes - 1)))
    return size;
  w.drop_innermost();
  return bytes;
}

// Rows of dim 0 that are not worth a call each.
void copy_short_rows(const StridedIterator<2>& w, int64_t size) {
  constexpr int64_t panel = 16 << 10;  // bytes
  const int d = w.dim_of_rows();
  const int64_t height = std::max<int64_t>(1, panel / (w.sizes[0] * size));
  w.parallel_panels(d, height, grain, [&](char* const* p, int64_t rows) {
    copy_panel(size, p[1], w.strides[1][d], w.strides[1][0], p[0], w.strides[0][d], w.strides[0][0],
               rows, w.sizes[0]);
  });
}

bool has_short_rows(const StridedIterator<2>& w, int64_t size, bool streamed) {
  if (w.ndim == 1) return false;
  const int64_t from = w.strides[1][0], to = w.strides[0][0], row = w.sizes[0] * size;
  if (to == size && from == size) return row <= (streamed ? short_streamed_bytes : short_row_bytes);
  if (to == size && from == -size && size <= 8 && row >= 8) return row <= short_row_bytes;
  return w.sizes[0] <= 8 && w.sizes[w.dim_of_rows()] > w.sizes[0];
}

void copy_same_dtype(StridedIterator<2> w, int64_t size) {
  bool streamed = worth_streaming(w.numel * size, Pass::Copy) && w.base[0] != w.base[1];
  size = widen_element(w, size);
  if (int d = w.transposed_dim(1)) return copy_transposed(w, d, size, streamed);
  if (has_short_rows(w, size, streamed)) return copy_short_rows(w, size);
  int64_t from = w.strides[1][0], to = w.strides[0][0];
  streamed = streamed && from == size && to == size;
  parallel_for(0, w.numel, grain, [&](int64_t begin, int64_t end) {
    w.range(begin, end, w.base, [&](char* const* p, int64_t n) {
      if (streamed) copy_streaming(p[1], p[0], n * size);
      else copy_strided(size, p[1], from, p[0], to, n);
    });
    if (streamed) end_streaming();
  });
}

constexpr int64_t strip = 1024;  // elements that are converted at once
using Strip = char[strip * sizeof(complex128)];

// Panels of rows of dim 0, which are converted as one strip.
void copy_converting_short_rows(const StridedIterator<2>& w, DType from, DType to) {
  const int d = w.dim_of_rows();
  const int64_t columns = w.sizes[0], size = itemsize(to);
  const int64_t in = w.strides[1][0], in_row = w.strides[1][d];
  const int64_t out = w.strides[0][0], out_row = w.strides[0][d];
  const bool packed = out == size && out_row == columns * size;
  w.parallel_panels(d, strip / columns, grain, [&](char* const* p, int64_t rows) {
    if (packed) return load_panel(from, p[1], in_row, in, to, p[0], rows, columns);
    alignas(64) Strip gathered;
    load_panel(from, p[1], in_row, in, from, gathered, rows, columns);
    store_panel(from, gathered, to, p[0], out_row, out, rows, columns);
  });
}

void copy_converting(const StridedIterator<2>& w, DType from, DType to) {
  int64_t in = w.strides[1][0], out = w.strides[0][0], from_size = itemsize(from);
  if (w.ndim > 1 && w.sizes[0] <= strip / 4) return copy_converting_short_rows(w, from, to);
  w.parallel_runs(grain, [&](char* const* p, int64_t n) {
    if (in == from_size) return store_strip(from, p[1], to, p[0], out, n);
    alignas(64) Strip gathered;
    for (int64_t i = 0; i < n; i += strip) {
      int64_t m = std::min(strip, n - i);
      load_strip(from, p[1] + i * in, in, to, gathered, m);
      store_strip(to, gathered, to, p[0] + i * out, out, m);
    }
  });
}

}  // namespace

void copy(const View& from, const View& to) {
  check(from.shape() == to.shape(), "copy: sizes ", from.shape(), " and ", to.shape(), " differ");
  if (to.numel == 0) return;
  const bool same_strides = std::equal(to.strides, to.strides + to.ndim, from.strides);
  if (from.data == to.data && from.dtype == to.dtype && same_strides) return;
  if (from.dtype == to.dtype && to.numel <= grain && from.contiguous() && to.contiguous()) {
    std::memmove(to.data, from.data, static_cast<size_t>(to.numel * itemsize(to.dtype)));
    return;
  }
  StridedIterator<2> w({&to, &from}, true);
  if (from.dtype == to.dtype) copy_same_dtype(w, itemsize(to.dtype));
  else copy_converting(w, from.dtype, to.dtype);
}

namespace {

// The sign of each imaginary part, which is the highest bit of an element.
template <int64_t size> void flip_imaginary(char* elements, int64_t step, int64_t n) {
  constexpr uint64_t sign = uint64_t(1) << 63;
  auto flip = [&](int64_t at) {
    uint64_t bits;
    std::memcpy(&bits, elements + at + size - 8, sizeof bits);
    bits ^= sign;
    std::memcpy(elements + at + size - 8, &bits, sizeof bits);
  };
  if (step == size)
    for (int64_t i = 0; i < n; ++i) flip(i * size);
  else
    for (int64_t i = 0; i < n; ++i) flip(i * step);
}

}  // namespace

// Runs are copied some elements at a time, which are changed while they are near.
void conj_copy(const View& from, const View& to) {
  const int64_t size = itemsize(to.dtype);
  StridedIterator<2> w({&to, &from}, true);
  const int64_t out = w.strides[0][0];
  const bool in_runs = is_complex(to.dtype) && from.dtype == to.dtype && w.strides[1][0] == size;
  if (!in_runs) copy(from, to);
  if (!is_complex(from.dtype) || !is_complex(to.dtype)) return;
  w.parallel_runs(grain, [&](char* const* p, int64_t n) {
    for (int64_t i = 0; i < n; i += strip) {
      const int64_t m = std::min(strip, n - i);
      char* at = p[0] + i * out;
      if (in_runs && p[0] != p[1]) copy_strided(size, p[1] + i * size, size, at, out, m);
      size == 8 ? flip_imaginary<8>(at, out, m) : flip_imaginary<16>(at, out, m);
    }
  });
}

namespace {

// Every element of `to` becomes *value, an element of to's dtype.
void fill_element(const View& to, const void* value) {
  if (to.numel == 0) return;
  StridedIterator<1> w({&to}, true);
  int64_t size = itemsize(to.dtype), step = w.strides[0][0];
  const char* bytes = static_cast<const char*>(value);
  // Of zeros above all: the C library knows stores that need not read what they overwrite.
  bool alike =
      step == size && std::all_of(bytes, bytes + size, [=](char b) { return b == *bytes; });
  w.parallel_runs(grain, [&](char* const* p, int64_t n) {
    if (alike) std::memset(p[0], *bytes, static_cast<size_t>(n * size));
    else copy_strided(size, bytes, 0, p[0], step, n);
  });
}

}  // namespace

void fill(const View& to, const Scalar& value) {
  visit_all("fill", to.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element = value.to<T>();
    fill_element(to, &element);
  });
}

}  // namespace rl::kernels
