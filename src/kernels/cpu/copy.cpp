#include "kernels/copy.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/cpu/strip.h"
#include "kernels/transpose.h"
#include "kernels/walk.h"

namespace rl::kernels {
namespace {

constexpr int64_t grain = 4 * default_grain;

// A plane of rows x columns; `to` is dense along columns, `from` along rows. Blocks keep the cache
// lines of both in L1.
template <class T>
void transpose_plane(const char* from, int64_t from_row, int64_t from_column, char* to,
                     int64_t to_row, int64_t to_column, int64_t rows, int64_t columns) {
  constexpr int64_t block = 32, size = sizeof(T);
  if (size == 4 && from_row == size && to_column == size) {
    // Narrow panels, so that the lines of all rows of `to` stay in the first-level cache.
    for (int64_t c = 0; c < columns; c += block)
      transpose_32(reinterpret_cast<const float*>(from + c * from_column), from_column / size,
                   reinterpret_cast<float*>(to) + c, to_row / size, std::min(block, columns - c),
                   rows);
    return;
  }
  for (int64_t r0 = 0; r0 < rows; r0 += block)
    for (int64_t c0 = 0; c0 < columns; c0 += block) {
      int64_t r1 = std::min(rows, r0 + block), c1 = std::min(columns, c0 + block);
      for (int64_t r = r0; r < r1; ++r) {
        const char* x = from + r * from_row + c0 * from_column;
        char* y = to + r * to_row + c0 * to_column;
        for (int64_t c = c0; c < c1; ++c, x += from_column, y += to_column)
          *reinterpret_cast<T*>(y) = *reinterpret_cast<const T*>(x);
      }
    }
}

// The dim along which `from` (view 1) is densest, if that is not the innermost: a transposition.
int transposed_dim(const Walk<2>& w) {
  int best = 0;
  for (int d = 1; d < w.ndim && w.sizes[0] >= 8; ++d)
    if (w.strides[1][d] != 0 && w.sizes[d] >= 8 &&
        std::abs(w.strides[1][d]) < std::abs(w.strides[1][best]))
      best = d;
  return best;
}

// Panels of some rows of dim d, each a transposition against dim 0, over all other dims.
void copy_transposed(const Walk<2>& w, int d, DType dtype) {
  constexpr int64_t height = 64;
  int64_t panels = (w.sizes[d] + height - 1) / height;
  Walk<2> outer;
  outer.base[0] = w.base[0];
  outer.base[1] = w.base[1];
  outer.add(panels, {height * w.strides[0][d], height * w.strides[1][d]});
  for (int k = 1; k < w.ndim; ++k)
    if (k != d) outer.add(w.sizes[k], {w.strides[0][k], w.strides[1][k]});
  outer.finish(false);
  int64_t per_thread = std::max<int64_t>(1, grain / (w.sizes[0] * std::min(height, w.sizes[d])));
  visit_size(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(0, outer.numel, per_thread, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        outer.range(i, i + 1, outer.base, [&](char* const* p, int64_t) {
          int64_t rows = std::min(height, w.sizes[d] - i % panels * height);
          transpose_plane<T>(p[1], w.strides[1][d], w.strides[1][0], p[0], w.strides[0][d],
                             w.strides[0][0], rows, w.sizes[0]);
        });
    });
  });
}

void copy_same_dtype(const Walk<2>& w, DType dtype) {
  if (int d = transposed_dim(w)) return copy_transposed(w, d, dtype);
  int64_t size = itemsize(dtype), from = w.strides[1][0], to = w.strides[0][0];
  w.parallel_runs(grain,
                  [&](char* const* p, int64_t n) { copy_strided(size, p[1], from, p[0], to, n); });
}

void copy_converting(const Walk<2>& w, DType from, DType to) {
  constexpr int64_t strip = 1024;
  int64_t in = w.strides[1][0], out = w.strides[0][0], from_size = itemsize(from);
  w.parallel_runs(grain, [&](char* const* p, int64_t n) {
    if (in == from_size) return store_strip(from, p[1], to, p[0], out, n);
    alignas(64) char gathered[strip * sizeof(complex128)];
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
  if (from.dtype == to.dtype && to.numel <= grain && from.contiguous() && to.contiguous()) {
    std::memmove(to.data, from.data, static_cast<size_t>(to.numel * itemsize(to.dtype)));
    return;
  }
  Walk<2> w({&to, &from}, true);
  if (from.dtype == to.dtype) copy_same_dtype(w, to.dtype);
  else copy_converting(w, from.dtype, to.dtype);
}

void conj_copy(const View& from, const View& to) {
  copy(from, to);
  if (!is_complex(from.dtype) || !is_complex(to.dtype)) return;
  Walk<1> w({&to}, true);
  visit<complex64, complex128>("conj", to.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    w.parallel_runs(grain, [&](char* const* p, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        T& z = *reinterpret_cast<T*>(p[0] + i * w.strides[0][0]);
        z = std::conj(z);
      }
    });
  });
}

void fill(const View& to, const Scalar& value) {
  visit_all("fill", to.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element = value.to<T>();
    fill_element(to, &element);
  });
}

void fill_element(const View& to, const void* value) {
  if (to.numel == 0) return;
  Walk<1> w({&to}, true);
  int64_t size = itemsize(to.dtype);
  w.parallel_runs(grain, [&](char* const* p, int64_t n) {
    copy_strided(size, static_cast<const char*>(value), 0, p[0], w.strides[0][0], n);
  });
}

}  // namespace rl::kernels
