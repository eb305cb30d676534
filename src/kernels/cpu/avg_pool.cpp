#include <algorithm>

#include "kernels/cpu/pooling.h"
#include "kernels/cpu/workspace.h"
#include "kernels/reduce.h"

namespace rl::kernels {
namespace {

// 1 / what each window is divided by, for every output of a plane: a fixed divisor, or how many
// elements the window counts.
template <class C> Buffer<C> scales_of(const Planes& out, const SpanTable& counted, int64_t fixed) {
  Buffer<C> scales(out.numel());
  auto length = [](Span s) { return s.end - s.begin; };
  C *next = scales.data(), scale = 0;
  int64_t last = 0;  // most windows are as large as the one before
  for (int64_t z = 0; z < out.size[0]; ++z)
    for (int64_t y = 0; y < out.size[1]; ++y) {
      const int64_t area = length(counted[0][z]) * length(counted[1][y]);
      const Span* row = counted[2];
      for (int64_t x = 0; x < out.size[2]; ++x) {
        const int64_t n = fixed ? fixed : area * length(row[x]);
        if (n != last) scale = std::is_integral_v<C> ? C(n) : C(1) / static_cast<C>(n);
        last = n;
        *next++ = scale;
      }
    }
  return scales;
}

template <class T>
void mean_of_windows(const View& input, const View& out, int dims, const SpanTable& spans,
                     const SpanTable& counted, int64_t divisor, int64_t work) {
  using C = compute_t<T>;
  Planes in(input, dims), to(out, dims);
  Buffer<C> scales = scales_of<C>(to, counted, divisor);
  in.parallel(to.numel() * work, [&](int64_t plane) {
    const T* from = input.ptr<const T>() + in.offset(plane);
    T* values = out.ptr<T>() + to.offset(plane);
    for (int64_t z = 0; z < to.size[0]; ++z)
      for (int64_t y = 0; y < to.size[1]; ++y)
        for (int64_t x = 0; x < to.size[2]; ++x) {
          Span depth = spans[0][z], rows = spans[1][y], cols = spans[2][x];
          C sum = 0;
          for (int64_t i = depth.begin; i < depth.end; ++i)
            for (int64_t j = rows.begin; j < rows.end; ++j) {
              const T* row = from + in.at(i, j, 0);
              for (int64_t k = cols.begin; k < cols.end; ++k)
                sum += static_cast<C>(row[k * in.step[2]]);
            }
          C scale = scales[to.index(z, y, x)];
          if constexpr (std::is_integral_v<C>) values[to.at(z, y, x)] = scale ? sum / scale : 0;
          else values[to.at(z, y, x)] = static_cast<T>(sum * scale);
        }
  });
}

template <class T>
void spread_over_windows(const View& grad_out, const View& grad_input, int dims,
                         const SpanTable& spans, const SpanTable& counted, int64_t divisor,
                         int64_t work) {
  using C = compute_t<T>;
  Planes from(grad_out, dims), to(grad_input, dims);
  Buffer<C> scales = scales_of<C>(from, counted, divisor);
  to.parallel(to.numel() + from.numel() * work, [&](int64_t plane) {
    Buffer<C> sums(to.numel());
    std::fill(sums.data(), sums.data() + to.numel(), C(0));
    const T* grads = grad_out.ptr<const T>() + from.offset(plane);
    for (int64_t z = 0; z < from.size[0]; ++z)
      for (int64_t y = 0; y < from.size[1]; ++y)
        for (int64_t x = 0; x < from.size[2]; ++x) {
          Span depth = spans[0][z], rows = spans[1][y], cols = spans[2][x];
          C grad = static_cast<C>(grads[from.at(z, y, x)]) * scales[from.index(z, y, x)];
          for (int64_t i = depth.begin; i < depth.end; ++i)
            for (int64_t j = rows.begin; j < rows.end; ++j) {
              C* row = sums.data() + to.index(i, j, 0);
              for (int64_t k = cols.begin; k < cols.end; ++k) row[k] += grad;
            }
        }
    T* out = grad_input.ptr<T>() + to.offset(plane);
    to.store(sums.data(), out);
  });
}

// mean_of_windows for float32 windows of one size.
void pool_mean_f32(const View& input, const View& out, int dims, const SpanTable& counted,
                   int64_t divisor, const Pool3& g) {
  Planes in(input, dims), to(out, dims);
  PlaneLoop windows(in, to, g);
  int64_t outputs = to.numel();
  Buffer<float> scales = scales_of<float>(to, counted, divisor);
  parallel_for(0, in.count(), default_grain / (outputs * g.kernel_size()) + 1,
               [&](int64_t begin, int64_t end) {
                 Buffer<float> sums(outputs);
                 for (int64_t plane = begin; plane < end; ++plane) {
                   std::fill(sums.data(), sums.data() + outputs, 0.0f);
                   sum_of_windows_f32(windows.loop, input.ptr<const float>() + in.offset(plane),
                                      sums.data());
                   for (int64_t i = 0; i < outputs; ++i) sums[i] *= scales[i];
                   to.store(sums.data(), out.ptr<float>() + to.offset(plane));
                 }
               });
}

// Its gradient.
void spread_mean_f32(const View& grad_out, const View& grad_input, int dims,
                     const SpanTable& counted, int64_t divisor, const Pool3& g) {
  Planes from(grad_out, dims), to(grad_input, dims);
  PlaneLoop windows(to, from, g);
  int64_t outputs = from.numel();
  Buffer<float> scales = scales_of<float>(from, counted, divisor);
  parallel_for(0, to.count(), default_grain / (to.numel() + outputs * g.kernel_size()) + 1,
               [&](int64_t begin, int64_t end) {
                 Buffer<float> grads(outputs);
                 for (int64_t plane = begin; plane < end; ++plane) {
                   const float* grad = grad_out.ptr<const float>() + from.offset(plane);
                   float* out = grad_input.ptr<float>() + to.offset(plane);
                   from.load(grad, grads.data());
                   for (int64_t i = 0; i < outputs; ++i) grads[i] *= scales[i];
                   to.fill(out, 0.0f);
                   spread_over_windows_f32(windows.loop, grads.data(), out);
                 }
               });
}

// The means, or their gradient, where both views are by_pixels. Each pixel of `out` is made of
// those of `in` in its span; scales are of the pixels of `out`, or of those of `in` if `by_input`.
void weigh_windows_f32(const View& input, const View& out, int dims, const SpanTable& spans,
                       const Buffer<float>& scales, bool by_input) {
  Planes in(input, dims), to(out, dims);
  int64_t channels = input.sizes[1], lines = to.size[0] * to.size[1];
  int64_t line_work = std::max(to.numel(), in.numel()) / lines * channels;
  parallel_for(0, input.sizes[0] * lines, default_grain / (line_work + 1) + 1,
               [&](int64_t begin, int64_t end) {
                 std::vector<const float*> rows;
                 std::vector<float> weights;
                 for (int64_t i = begin; i < end; ++i) {
                   int64_t image = i / lines, line = i % lines;
                   const float* from = input.ptr<const float>() + image * input.strides[0];
                   Span depth = spans[0][line / to.size[1]], high = spans[1][line % to.size[1]];
                   for (int64_t x = 0; x < to.size[2]; ++x) {
                     rows.clear();
                     weights.clear();
                     for (int64_t z = depth.begin; z < depth.end; ++z)
                       for (int64_t y = high.begin; y < high.end; ++y)
                         for (int64_t k = spans[2][x].begin; k < spans[2][x].end; ++k) {
                           int64_t place = in.index(z, y, k);
                           rows.push_back(from + place * channels);
                           weights.push_back(by_input ? scales[place] : 1.0f);
                         }
                     int64_t at = line * to.size[2] + x;
                     weigh_pixels_f32(rows.data(), weights.data(),
                                      static_cast<int64_t>(rows.size()), channels,
                                      by_input ? 1.0f : scales[at],
                                      out.ptr<float>() + image * out.strides[0] + at * channels);
                   }
                 }
               });
}

// weigh_windows_f32 where planes are by_pixels, or small; false, and nothing done, elsewhere.
bool weigh_f32(const View& input, const View& out, int dims, const SpanTable& spans,
               const SpanTable& counted, int64_t divisor, bool by_input) {
  if (input.dtype != DType::Float32) return false;
  const bool pixels = by_pixels(input, dims) && by_pixels(out, dims);
  const Planes outputs(by_input ? input : out, dims), elements(by_input ? out : input, dims);
  // Sums go along rows of outputs as fast where these are long.
  const bool short_rows = outputs.size[2] <= 12 || elements.size[2] <= 24;
  if (!pixels && !(short_rows && TurnedPool::pays({&input, &out}, dims))) return false;
  Buffer<float> scales = scales_of<float>(outputs, counted, divisor);
  auto weigh = [&](const View* v) { weigh_windows_f32(v[0], v[1], dims, spans, scales, by_input); };
  const View views[] = {input, out};
  if (pixels) weigh(views);
  else TurnedPool(weigh).run({&input, &out}, dims, elements.numel());
  return true;
}

// For each input position, the outputs whose spans take it in.
SpanTable turned(const SpanTable& spans, const Planes& outputs, const Planes& inputs) {
  return SpanTable(inputs, [&](int dim, int64_t i) {
    const Span *first = spans[dim], *last = first + outputs.size[dim];
    return Span{
        std::partition_point(first, last, [=](const Span& s) { return s.end <= i; }) - first,
        std::partition_point(first, last, [=](const Span& s) { return s.begin <= i; }) - first};
  });
}

// The spans of average pooling: what is summed, and what is counted with the padding.
struct AvgSpans {
  SpanTable summed, counted;
  AvgSpans(const View& input, const View& out, const PoolGeometry& geometry, bool count_include_pad)
      : summed(Planes(out, geometry.dims), spans_of(input, geometry, false)),
        counted(Planes(out, geometry.dims), spans_of(input, geometry, count_include_pad)) {}

 private:
  struct Of {
    Planes in;
    Pool3 g;
    bool with_padding;
    Span operator()(int dim, int64_t i) const {
      int64_t begin = i * g.stride[dim] - g.padding[dim], size = in.size[dim];
      int64_t end = std::min(begin + g.kernel[dim], size + g.padding[dim]);
      return with_padding ? Span{begin, end}
                          : Span{std::max<int64_t>(begin, 0), std::min(end, size)};
    }
  };
  static Of spans_of(const View& input, const PoolGeometry& geometry, bool with_padding) {
    return {Planes(input, geometry.dims), Pool3(geometry), with_padding};
  }
};

// One window per plane, the whole of it: what stands at the end of most image classifiers.
bool is_whole(const View& input, const View& out, int dims, const AvgSpans& spans) {
  Planes in(input, dims), to(out, dims);
  if (to.numel() != 1 || !is_floating(input.dtype)) return false;
  for (int dim = 0; dim < 3; ++dim) {
    const Span summed = spans.summed[dim][0], counted = spans.counted[dim][0];
    if (summed.end - summed.begin != in.size[dim] || counted.end - counted.begin != in.size[dim])
      return false;
  }
  return true;
}

}  // namespace

void avg_pool(const View& input, const View& out, const PoolGeometry& geometry,
              bool count_include_pad, int64_t divisor_override) {
  if (out.numel == 0) return;
  AvgSpans spans(input, out, geometry, count_include_pad);
  if (divisor_override == 0 && is_whole(input, out, geometry.dims, spans)) return mean(input, out);
  if (is_reduced(input.dtype))
    return in_floats(input, out, [&](const View& from, const View& to) {
      avg_pool(from, to, geometry, count_include_pad, divisor_override);
    });
  Pool3 g(geometry);
  if (weigh_f32(input, out, geometry.dims, spans.summed, spans.counted, divisor_override, false))
    return;
  // Along the rows of windows, if these are longer than those of outputs.
  if (input.dtype == DType::Float32 && Planes(out, geometry.dims).size[2] >= 8)
    return pool_mean_f32(input, out, geometry.dims, spans.counted, divisor_override, g);
  visit<float, double, int64_t>("avg_pool", input.dtype, [&](auto tag) {
    mean_of_windows<typename decltype(tag)::type>(input, out, geometry.dims, spans.summed,
                                                  spans.counted, divisor_override, g.kernel_size());
  });
}

void avg_pool_backward(const View& grad_out, const View& grad_input, const PoolGeometry& geometry,
                       bool count_include_pad, int64_t divisor_override) {
  if (grad_input.numel == 0) return;
  if (is_reduced(grad_input.dtype))
    return in_floats(grad_out, grad_input, [&](const View& from, const View& to) {
      avg_pool_backward(from, to, geometry, count_include_pad, divisor_override);
    });
  AvgSpans spans(grad_input, grad_out, geometry, count_include_pad);
  Pool3 g(geometry);
  Planes from(grad_out, geometry.dims), to(grad_input, geometry.dims);
  if (weigh_f32(grad_out, grad_input, geometry.dims, turned(spans.summed, from, to), spans.counted,
                divisor_override, true))
    return;
  if (grad_input.dtype == DType::Float32)
    return spread_mean_f32(grad_out, grad_input, geometry.dims, spans.counted, divisor_override, g);
  visit<double>("avg_pool_backward", grad_input.dtype, [&](auto tag) {
    spread_over_windows<typename decltype(tag)::type>(grad_out, grad_input, geometry.dims,
                                                      spans.summed, spans.counted, divisor_override,
                                                      g.kernel_size());
  });
}

void adaptive_avg_pool(const View& input, const View& out, int dims) {
  if (out.numel == 0) return;
  Planes in(input, dims), to(out, dims);
  if (to.numel() == 1) return mean(input, out);
  if (is_reduced(input.dtype))
    return in_floats(input, out,
                     [&](const View& from, const View& to) { adaptive_avg_pool(from, to, dims); });
  SpanTable spans(to,
                  [&](int dim, int64_t i) { return adaptive_span(i, in.size[dim], to.size[dim]); });
  if (weigh_f32(input, out, dims, spans, spans, 0, false)) return;
  visit<float, double>("adaptive_avg_pool", input.dtype, [&](auto tag) {
    mean_of_windows<typename decltype(tag)::type>(input, out, dims, spans, spans, 0,
                                                  in.numel() / to.numel() + 1);
  });
}

void adaptive_avg_pool_backward(const View& grad_out, const View& grad_input, int dims) {
  if (grad_input.numel == 0) return;
  if (is_reduced(grad_input.dtype))
    return in_floats(grad_out, grad_input, [&](const View& from, const View& to) {
      adaptive_avg_pool_backward(from, to, dims);
    });
  Planes from(grad_out, dims), to(grad_input, dims);
  SpanTable spans(
      from, [&](int dim, int64_t i) { return adaptive_span(i, to.size[dim], from.size[dim]); });
  if (weigh_f32(grad_out, grad_input, dims, turned(spans, from, to), spans, 0, true)) return;
  visit<float, double>("adaptive_avg_pool_backward", grad_input.dtype, [&](auto tag) {
    spread_over_windows<typename decltype(tag)::type>(grad_out, grad_input, dims, spans, spans, 0,
                                                      4);
  });
}

}  // namespace rl::kernels
