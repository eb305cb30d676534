#include "kernels/unfold.h"

#include <algorithm>

#include "core/parallel.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

// Sliding windows over one plane; fewer than three spatial dims are padded with ones in front.
struct Windows {
  int64_t size[3] = {1, 1, 1}, step[3] = {0, 0, 0};  // of the plane
  int64_t count[3] = {1, 1, 1};                      // window positions
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0},
          dilation[3] = {1, 1, 1};

  Windows(const View& images, const WindowGeometry& g) {
    for (int i = 0; i < g.dims; ++i) {
      int to = 3 - g.dims + i;
      size[to] = images.sizes[2 + i];
      step[to] = images.strides[2 + i];
      kernel[to] = g.kernel[i];
      stride[to] = g.stride[i];
      padding[to] = g.padding[i];
      dilation[to] = g.dilation[i];
      count[to] = g.count[i] ? g.count[i]
                             : window_count(size[to], g.kernel[i], g.stride[i], g.padding[i],
                                            g.dilation[i]);
    }
  }
  int64_t positions() const { return count[0] * count[1] * count[2]; }
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t plane_size() const { return size[0] * size[1] * size[2]; }

  // The range [begin, end) of window positions along `dim` whose element `k` lies inside the plane.
  void inside(int dim, int64_t k, int64_t& begin, int64_t& end) const {
    int64_t shift = k * dilation[dim] - padding[dim];  // where the element of window 0 lies
    begin = shift >= 0 ? 0 : (-shift + stride[dim] - 1) / stride[dim];
    end = size[dim] > shift ? (size[dim] - 1 - shift) / stride[dim] + 1 : 0;
    begin = std::min(begin, count[dim]);
    end = std::clamp(end, begin, count[dim]);
  }

  // Calls row(kernel element, window position, plane offset, begin, end) for each run of windows
  // along the last dim: positions position + [begin, end) see the plane at offset, offset + stride,
  // ...; the other positions of the run lie in the padding. begin = end where all of it does.
  template <class F> void for_rows(F&& row) const {
    int64_t element = 0;
    for (int64_t kz = 0; kz < kernel[0]; ++kz)
      for (int64_t ky = 0; ky < kernel[1]; ++ky)
        for (int64_t kx = 0; kx < kernel[2]; ++kx, ++element) {
          int64_t begin, end;
          inside(2, kx, begin, end);
          for (int64_t oz = 0; oz < count[0]; ++oz)
            for (int64_t oy = 0; oy < count[1]; ++oy) {
              int64_t z = oz * stride[0] - padding[0] + kz * dilation[0];
              int64_t y = oy * stride[1] - padding[1] + ky * dilation[1];
              int64_t x = begin * stride[2] - padding[2] + kx * dilation[2];
              bool in = z >= 0 && z < size[0] && y >= 0 && y < size[1];
              row(element, (oz * count[1] + oy) * count[2], z * step[0] + y * step[1] + x * step[2],
                  in ? begin : int64_t(0), in ? end : int64_t(0));
            }
        }
  }
};

template <class T>
void unfold_plane(const Windows& w, const T* plane, T* columns, int64_t element_step,
                  int64_t position_step) {
  int64_t n = w.count[2], from_step = w.stride[2] * w.step[2];
  w.for_rows([&](int64_t element, int64_t position, int64_t offset, int64_t begin, int64_t end) {
    T* to = columns + element * element_step + position * position_step;
    for (int64_t i = 0; i < begin; ++i) to[i * position_step] = T();
    const T* from = plane + offset;
    if (position_step == 1 && from_step == 1) std::copy(from, from + (end - begin), to + begin);
    else
      for (int64_t i = begin; i < end; ++i) to[i * position_step] = from[(i - begin) * from_step];
    for (int64_t i = end; i < n; ++i) to[i * position_step] = T();
  });
}

template <class T>
void fold_plane(const Windows& w, const T* columns, int64_t element_step, int64_t position_step,
                compute_t<T>* plane) {
  using C = compute_t<T>;
  std::fill(plane, plane + w.plane_size(), C(0));
  int64_t to_step = w.stride[2];
  w.for_rows([&](int64_t element, int64_t position, int64_t offset, int64_t begin, int64_t end) {
    const T* from = columns + element * element_step + position * position_step;
    C* to = plane + offset;
    for (int64_t i = begin; i < end; ++i) {
      C& sum = to[(i - begin) * to_step];
      sum = static_cast<C>(sum + static_cast<C>(from[i * position_step]));
    }
  });
}

template <class T> void fold_all(const View& columns, const View& images, const WindowGeometry& g) {
  using C = compute_t<T>;
  Windows w(images, g);
  Dims steps(images.stride());  // of the image; the plane being summed is row-major
  int64_t strides[3] = {w.step[0], w.step[1], w.step[2]};
  w.step[2] = 1;
  w.step[1] = w.size[2];
  w.step[0] = w.size[1] * w.size[2];
  int64_t channels = images.sizes[1], elements = w.kernel_size();
  int64_t grain = default_grain / (elements * w.positions() + 1) + 1;
  parallel_for(0, images.sizes[0] * channels, grain, [&](int64_t first, int64_t last) {
    Buffer<C> plane(w.plane_size());
    for (int64_t i = first; i < last; ++i) {
      int64_t n = i / channels, c = i % channels;
      fold_plane<T>(
          w, columns.ptr<const T>() + n * columns.strides[0] + c * elements * columns.strides[1],
          columns.strides[1], columns.strides[2], plane.data());
      T* to = images.ptr<T>() + n * steps[0] + c * steps[1];
      const C* from = plane.data();
      for (int64_t z = 0; z < w.size[0]; ++z)
        for (int64_t y = 0; y < w.size[1]; ++y)
          for (int64_t x = 0; x < w.size[2]; ++x)
            to[z * strides[0] + y * strides[1] + x * strides[2]] = static_cast<T>(*from++);
    }
  });
}

}  // namespace

void check_window(const char* op, const char* what, IntSpan numbers) {
  for (int64_t n : numbers)
    check(n >= -(int64_t(1) << 31) && n < (int64_t(1) << 31), op, ": ", what, " ", numbers,
          " is out of range: it must fit into 32 bits");
}

int64_t window_count(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                     int64_t dilation) {
  int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

void unfold(const View& images, const View& columns, const WindowGeometry& geometry) {
  if (columns.numel == 0) return;
  Windows w(images, geometry);
  int64_t channels = images.sizes[1], elements = w.kernel_size();
  int64_t grain = default_grain / (elements * w.positions() + 1) + 1;
  visit_size(images.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(0, images.sizes[0] * channels, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        int64_t n = i / channels, c = i % channels;
        unfold_plane<T>(
            w, images.ptr<const T>() + n * images.strides[0] + c * images.strides[1],
            columns.ptr<T>() + n * columns.strides[0] + c * elements * columns.strides[1],
            columns.strides[1], columns.strides[2]);
      }
    });
  });
}

void fold(const View& columns, const View& images, const WindowGeometry& geometry) {
  if (images.numel == 0) return;
  visit<float, double, half, bfloat16, complex64, complex128, int64_t, int32_t, int16_t, int8_t,
        uint8_t, Bool>("fold", images.dtype, [&](auto tag) {
    fold_all<typename decltype(tag)::type>(columns, images, geometry);
  });
}

}  // namespace rl::kernels
