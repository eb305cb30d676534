// Planes to pool: what a view holds beyond its leading dims.
#pragma once
#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/memory_order.h"
#include "kernels/cpu/window_loops.h"
#include "kernels/cpu/workspace.h"
#include "kernels/pooling.h"

namespace rl::kernels {

// The last `dims` dims of a view, padded in front to three with dims of size 1, and the offsets of
// its planes over the leading dims.
class Planes {
 public:
  [[gnu::noinline]] Planes(const View& v, int dims)
      : lead_(v.ndim - dims), sizes_(v.sizes), strides_(v.strides) {
    for (int64_t i = lead_ - 1; i >= 0; --i) {
      if (v.sizes[i] == 1) continue;
      if (count_ == 1) apart_ = v.strides[i];
      even_ = even_ && v.strides[i] == apart_ * count_;
      count_ *= v.sizes[i];
    }
    for (int i = 0; i < dims; ++i) {
      size[3 - dims + i] = v.sizes[lead_ + i];
      step[3 - dims + i] = v.strides[lead_ + i];
    }
  }
  int64_t size[3] = {1, 1, 1}, step[3] = {0, 0, 0};

  int64_t count() const { return count_; }
  int64_t numel() const { return size[0] * size[1] * size[2]; }
  int64_t offset(int64_t plane) const { return even_ ? plane * apart_ : uneven_offset(plane); }
  int64_t at(int64_t z, int64_t y, int64_t x) const {
    return z * step[0] + y * step[1] + x * step[2];
  }
  // Whether planes are row-major and each is as far from the next.
  bool in_rows() const { return row_major() && even_; }
  int64_t apart() const { return apart_; }
  int64_t index(int64_t z, int64_t y, int64_t x) const { return (z * size[1] + y) * size[2] + x; }
  int64_t at_index(int64_t i) const {
    return at(i / (size[1] * size[2]), i / size[2] % size[1], i % size[2]);
  }
  bool row_major() const {
    return (size[2] == 1 || step[2] == 1) && (size[1] == 1 || step[1] == size[2]) &&
           (size[0] == 1 || step[0] == size[1] * size[2]);
  }
  // Between a row-major plane and one of this layout.
  template <class From, class To> void store(const From* from, To* to) const {
    each([&](int64_t offset) { to[offset] = static_cast<To>(*from++); });
  }
  template <class From, class To> void load(const From* from, To* to) const {
    each([&](int64_t offset) { *to++ = static_cast<To>(from[offset]); });
  }
  template <class T> void fill(T* to, T value) const {
    each([&](int64_t offset) { to[offset] = value; });
  }
  // f(plane) for each, in parallel; `work` element operations each.
  template <class F> void parallel(int64_t work, F&& f) const {
    parallel_for(0, count_, default_grain / (work + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i);
    });
  }

 private:
  template <class F> void each(F&& f) const {
    for (int64_t z = 0; z < size[0]; ++z)
      for (int64_t y = 0; y < size[1]; ++y)
        if (int64_t row = at(z, y, 0); step[2] == 1)
          for (int64_t x = 0; x < size[2]; ++x) f(row + x);
        else
          for (int64_t x = 0; x < size[2]; ++x) f(row + x * step[2]);
  }
  [[gnu::noinline]] int64_t uneven_offset(int64_t plane) const {
    int64_t at = 0;
    for (int64_t d = lead_ - 1; d >= 0; --d) {
      at += plane % sizes_[d] * strides_[d];
      plane /= sizes_[d];
    }
    return at;
  }
  int64_t lead_, count_ = 1;
  int64_t apart_ = 0;  // from a plane to the next, if that is the same for all
  bool even_ = true;
  const int64_t *sizes_, *strides_;
};

// The part [begin, end) of a dim that one window covers.
struct Span {
  int64_t begin, end;
};

// The windows of every output position along each dim, by a function of (dim, position).
class SpanTable {
 public:
  template <class F>
  SpanTable(const Planes& out, F&& span)
      : spans_{Buffer<Span>(out.size[0]), Buffer<Span>(out.size[1]), Buffer<Span>(out.size[2])} {
    for (int dim = 0; dim < 3; ++dim)
      for (int64_t i = 0; i < out.size[dim]; ++i) spans_[dim][i] = span(dim, i);
  }
  const Span* operator[](int dim) const { return spans_[dim].data(); }

 private:
  Buffer<Span> spans_[3];
};

// Window i of an adaptive pooling of `size` elements to `outputs`.
inline Span adaptive_span(int64_t i, int64_t size, int64_t outputs) {
  return {i * size / outputs, ((i + 1) * size + outputs - 1) / outputs};
}

// A pooling geometry padded like Planes.
struct Pool3 {
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0},
          dilation[3] = {1, 1, 1};
  explicit Pool3(const PoolGeometry& g) {
    for (int i = 0; i < g.dims; ++i) {
      int to = 3 - g.dims + i;
      kernel[to] = g.kernel[i];
      stride[to] = g.stride[i];
      padding[to] = g.padding[i];
      dilation[to] = g.dilation[i];
    }
  }
  // An estimate of the work of one window, which the padding may make far larger than any plane.
  int64_t kernel_size() const {
    constexpr int64_t most = 1 << 20;
    return std::min(most, std::min(most, kernel[0] * kernel[1]) * kernel[2]);
  }
};

// The loop over windows of one size (window_loops.h), with its table of what lies inside the plane.
class PlaneLoop {
 public:
  PlaneLoop(const Planes& in, const Planes& out, const Pool3& g) {
    for (int dim = 0; dim < 3; ++dim) {
      const int64_t s = g.stride[dim], n = out.size[dim], d = g.dilation[dim];
      // The taps that some window has inside of the plane: of one in wide padding these are few.
      const int64_t before = g.padding[dim] - (n - 1) * s;
      const int64_t first = before > 0 ? (before + d - 1) / d : 0;
      const int64_t last = std::min(g.kernel[dim] - 1, (in.size[dim] - 1 + g.padding[dim]) / d);
      loop.out_size[dim] = n;
      loop.kernel[dim] = std::max<int64_t>(1, last - first + 1);
      loop.stride[dim] = s;
      loop.padding[dim] = g.padding[dim] - first * d;
      loop.dilation[dim] = d;
      loop.step[dim] = in.step[dim];
      for (int64_t k = 0; k < loop.kernel[dim]; ++k) {
        int64_t shift = k * d - loop.padding[dim];
        int64_t begin = std::min(n, shift >= 0 ? 0 : (s - 1 - shift) / s);
        int64_t end = in.size[dim] > shift ? (in.size[dim] - 1 - shift) / s + 1 : 0;
        ranges_[dim].push_back({begin, std::clamp(end, begin, n)});
      }
      loop.inside[dim] = ranges_[dim].data();
    }
    loop.index_step[2] = 1;
    loop.index_step[1] = in.size[2];
    loop.index_step[0] = in.size[1] * in.size[2];
  }
  PlaneLoop(const PlaneLoop&) = delete;
  WindowLoop loop;

 private:
  std::vector<OutputRange> ranges_[3];
};

// 16-bit floats as the float32 that they are computed in, in the same order: gapless and converted
// at once they take a fourth of the time of elements converted one by one.
struct InFloats {
  Buffer<float> values;
  Dims strides;
  View view;
  explicit InFloats(const View& like)
      : values(like.numel),
        strides(memory_order_strides(like)),
        view{values.data(), like.sizes, strides.data(), like.ndim, like.numel, DType::Float32} {}
};
// f(in, out), which writes out.
template <class F> void in_floats(const View& in, const View& out, F f) {
  InFloats from(in), to(out);
  copy(in, from.view);
  f(from.view, to.view);
  copy(to.view, out);
}

// pool(turned) for some planes at a time of `views`, of which the first is read and the others are
// written: `turned` are copies of theirs, by_pixels, so that vectors go across planes.
class TurnedPool {
 public:
  template <class F> explicit TurnedPool(const F& pool)
      : context_(&pool), call_([](const void* context, const View* turned) {
          (*static_cast<const F*>(context))(turned);
        }) {}
  // Whether planes are so small that loops along their rows take longer.
  static bool pays(std::initializer_list<const View*> views, int dims);
  void run(std::initializer_list<const View*> views, int dims, int64_t work) const;

 private:
  const void* context_;
  void (*call_)(const void*, const View*);
};

}  // namespace rl::kernels
