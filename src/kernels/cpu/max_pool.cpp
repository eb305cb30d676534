#include <algorithm>
#include <limits>

#include "kernels/cpu/offsets.h"
#include "kernels/cpu/pooling.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

template <class T> constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  else return std::numeric_limits<T>::lowest();
}

// A NaN wins over every number, and the last of several NaNs over the others.
template <class T> bool beats(T x, T best) {
  if constexpr (std::is_floating_point_v<T>) return x > best || x != x;
  else return x > best;
}

template <class T>
void max_of_windows(const View& input, const View& out, const View* indices, int dims,
                    const SpanTable& spans, const int64_t* dilation, int64_t work) {
  using C = compute_t<T>;
  Planes in(input, dims), to(out, dims), places(indices ? *indices : out, dims);
  in.parallel(to.numel() * work, [&](int64_t plane) {
    const T* from = input.ptr<const T>() + in.offset(plane);
    T* values = out.ptr<T>() + to.offset(plane);
    int64_t* where = indices ? indices->ptr<int64_t>() + places.offset(plane) : nullptr;
    for (int64_t z = 0; z < to.size[0]; ++z)
      for (int64_t y = 0; y < to.size[1]; ++y)
        for (int64_t x = 0; x < to.size[2]; ++x) {
          Span depth = spans[0][z], rows = spans[1][y], cols = spans[2][x];
          C best = lowest<C>();
          int64_t best_at = in.index(depth.begin, rows.begin, cols.begin);
          for (int64_t i = depth.begin; i < depth.end; i += dilation[0])
            for (int64_t j = rows.begin; j < rows.end; j += dilation[1]) {
              const T* row = from + in.at(i, j, 0);
              int64_t first = in.index(i, j, 0);
              for (int64_t k = cols.begin; k < cols.end; k += dilation[2]) {
                C value = static_cast<C>(row[k * in.step[2]]);
                bool better = beats(value, best);
                best = better ? value : best;
                best_at = better ? first + k : best_at;
              }
            }
          values[to.at(z, y, x)] = static_cast<T>(best);
          if (where) where[places.at(z, y, x)] = best_at;
        }
  });
}

// max_of_windows for float32 windows of one size.
void pool_max_f32(const View& input, const View& out, const View* indices, int dims,
                  const SpanTable& spans, const Pool3& g) {
  Planes in(input, dims), to(out, dims), places(indices ? *indices : out, dims);
  PlaneLoop windows(in, to, g);
  int64_t outputs = to.numel();
  Buffer<int32_t> first(outputs);  // where each window begins, the answer if all is -inf
  for (int64_t z = 0, i = 0; z < to.size[0]; ++z)
    for (int64_t y = 0; y < to.size[1]; ++y)
      for (int64_t x = 0; x < to.size[2]; ++x, ++i)
        first[i] =
            static_cast<int32_t>(in.index(spans[0][z].begin, spans[1][y].begin, spans[2][x].begin));
  parallel_for(0, in.count(), default_grain / (outputs * g.kernel_size()) + 1,
               [&](int64_t begin, int64_t end) {
                 Buffer<float> best(outputs);
                 Buffer<int32_t> at(outputs);
                 for (int64_t plane = begin; plane < end; ++plane) {
                   std::fill(best.data(), best.data() + outputs, lowest<float>());
                   std::copy(first.data(), first.data() + outputs, at.data());
                   kernels::max_of_windows_f32(windows.loop,
                                               input.ptr<const float>() + in.offset(plane),
                                               best.data(), at.data());
                   to.store(best.data(), out.ptr<float>() + to.offset(plane));
                   if (indices)
                     places.store(at.data(), indices->ptr<int64_t>() + places.offset(plane));
                 }
               });
}

// The same of lines by strides of 1 or 2, without places.
void pool_lines_f32(const View& input, const View& out, const Pool3& g) {
  Planes in(input, 1), to(out, 1);
  PlaneLoop windows(in, to, g);
  in.parallel(to.numel() * g.kernel_size(), [&](int64_t line) {
    kernels::largest_of_line_f32(windows.loop, input.ptr<const float>() + in.offset(line),
                                 in.numel(), out.ptr<float>() + to.offset(line));
  });
}

// The most elements that one of the windows has.
int64_t largest_window(const Planes& out, const SpanTable& spans, const int64_t* dilation) {
  int64_t elements = 1;
  for (int dim = 0; dim < 3; ++dim) {
    int64_t longest = 1;
    for (int64_t i = 0; i < out.size[dim]; ++i)
      longest = std::max(
          longest, (spans[dim][i].end - spans[dim][i].begin + dilation[dim] - 1) / dilation[dim]);
    elements *= longest;
  }
  return elements;
}

// max_of_windows for float32 where all views are by_pixels.
[[gnu::noinline]] void pool_pixels_f32(const View& input, const View& out, const View* indices,
                                       int dims, const SpanTable& spans, const int64_t* dilation) {
  Planes in(input, dims), to(out, dims);
  int64_t channels = input.sizes[1], lines = to.size[0] * to.size[1];
  const int64_t window = largest_window(to, spans, dilation);
  int64_t grain = default_grain / (to.size[2] * channels * window) + 1;
  parallel_for(0, input.sizes[0] * lines, grain, [&](int64_t begin, int64_t end) {
    std::vector<const float*> rows(static_cast<size_t>(window));
    std::vector<int32_t> places(rows.size());
    Buffer<int64_t> unwanted(indices ? 0 : channels);
    for (int64_t i = begin; i < end; ++i) {
      int64_t image = i / lines, line = i % lines;
      const float* from = input.ptr<const float>() + image * input.strides[0];
      Span depth = spans[0][line / to.size[1]], high = spans[1][line % to.size[1]];
      for (int64_t x = 0; x < to.size[2]; ++x) {
        Span wide = spans[2][x];
        size_t count = 0;
        for (int64_t z = depth.begin; z < depth.end; z += dilation[0])
          for (int64_t y = high.begin; y < high.end; y += dilation[1])
            for (int64_t k = wide.begin; k < wide.end; k += dilation[2]) {
              int64_t place = in.index(z, y, k);
              rows[count] = from + place * channels;
              places[count++] = static_cast<int32_t>(place);
            }
        if (!count)  // a window in the padding alone
          places[0] = static_cast<int32_t>(in.index(depth.begin, high.begin, wide.begin));
        int64_t at = (line * to.size[2] + x) * channels;
        kernels::max_of_pixels_f32(
            rows.data(), places.data(), static_cast<int64_t>(count), channels,
            out.ptr<float>() + image * out.strides[0] + at,
            indices ? indices->ptr<int64_t>() + image * indices->strides[0] + at : unwanted.data());
      }
    }
  });
}

// max_of_windows where float32 is by_pixels; false, and nothing done, elsewhere.
[[gnu::noinline]] bool max_of_pixels(const View& input, const View& out, const View* indices,
                                     int dims, const SpanTable& spans, const int64_t* dilation) {
  const bool pixels = by_pixels(input, dims) && by_pixels(out, dims) &&
                      (!indices || by_pixels(*indices, dims)) &&
                      Planes(input, dims).numel() <= INT32_MAX;
  if (!pixels || input.dtype != DType::Float32) return false;
  pool_pixels_f32(input, out, indices, dims, spans, dilation);
  return true;
}

// max_of_windows for small planes of float32; false, and nothing done, elsewhere.
[[gnu::noinline]] bool max_of_turned(const View& input, const View& out, const View* indices,
                                     int dims, const SpanTable& spans, const int64_t* dilation) {
  if (input.dtype != DType::Float32 || !TurnedPool::pays({&input, &out}, dims)) return false;
  const int64_t work =
      Planes(out, dims).numel() * largest_window(Planes(out, dims), spans, dilation);
  auto pool = [&](const View* v) {
    pool_pixels_f32(v[0], v[1], indices ? &v[2] : nullptr, dims, spans, dilation);
  };
  if (indices) TurnedPool(pool).run({&input, &out, indices}, dims, work);
  else TurnedPool(pool).run({&input, &out}, dims, work);
  return true;
}

// An index that the program may change meanwhile: what is checked is what is used.
int64_t read_once(const int64_t* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }

// add_at_indices where all views are by_pixels.
template <class T>
void add_at_pixels(const View& from, const View& indices, const View& to, int dims) {
  Planes source(from, dims), target(to, dims);
  int64_t channels = to.sizes[1], limit = target.numel(), pixels = source.numel();
  constexpr int64_t block = 64;  // of channels, for one thread
  int64_t blocks = (channels + block - 1) / block, work = block * (limit + pixels);
  parallel_for(0, to.sizes[0] * blocks, default_grain / work + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t image = i / blocks, first = i % blocks * block,
              last = std::min(channels, first + block);
      T* out = to.ptr<T>() + image * to.strides[0];
      for (int64_t p = 0; p < limit; ++p)
        std::fill(out + p * channels + first, out + p * channels + last, T(0));
      for (int64_t p = 0; p < pixels; ++p) {
        const T* value = from.ptr<const T>() + image * from.strides[0] + p * channels;
        const int64_t* at =
            indices.ptr<const int64_t>() + image * indices.strides[0] + p * channels;
        for (int64_t c = first; c < last; ++c) {
          int64_t place = read_once(at + c);
          if (static_cast<uint64_t>(place) < static_cast<uint64_t>(limit))
            out[place * channels + c] += value[c];
        }
      }
    }
  });
}

template <class F> void visit_ordered(const char* op, DType t, F&& f) {
  visit<float, double, int64_t, int32_t, int16_t, int8_t, uint8_t>(op, t, f);
}

constexpr int64_t index_block = 256;

// sums[indices] += values, of n each, that many elements apart. An index outside [0, limit) belongs
// to a window without elements, whose gradient goes nowhere.
template <class T>
void add_line(const T* values, int64_t value_step, const int64_t* indices, int64_t index_step,
              int64_t n, T* sums, int64_t limit) {
  int64_t places[index_block];
  for (int64_t left = n; left > 0; left -= index_block) {
    int64_t count = std::min(index_block, left);
    bool inside = false;
    if (index_step == 1) kernels::copy_inside(indices, count, limit, places, &inside);
    else
      for (int64_t i = 0; i < count; ++i) places[i] = read_once(indices + i * index_step);
    if (inside)
      for (int64_t i = 0; i < count; ++i) sums[places[i]] += values[i * value_step];
    else
      for (int64_t i = 0; i < count; ++i)
        if (static_cast<uint64_t>(places[i]) < static_cast<uint64_t>(limit))
          sums[places[i]] += values[i * value_step];
    values += count * value_step;
    indices += count * index_step;
  }
}

// to = 0, then to[indices] += from, of planes without gaps of up to a block of indices: those of
// several are checked at once.
template <class T>
void add_small_planes(const View& from, const View& indices, const View& to, const Planes& target,
                      int64_t n) {
  const int64_t limit = target.numel(), planes = target.count(), group = index_block / n;
  const int64_t work = group * (limit + n);
  parallel_for(0, (planes + group - 1) / group, default_grain / work + 1,
               [&](int64_t g, int64_t e) {
                 int64_t places[index_block];
                 for (; g < e; ++g) {
                   const int64_t first = g * group, last = std::min(planes, first + group);
                   const T* values = from.ptr<const T>() + first * n;
                   const int64_t* at = places;
                   bool inside = false;
                   kernels::copy_inside(indices.ptr<const int64_t>() + first * n,
                                        (last - first) * n, limit, places, &inside);
                   for (int64_t plane = first; plane < last; ++plane, at += n, values += n) {
                     T* sums = to.ptr<T>() + target.offset(plane);
                     std::fill(sums, sums + limit, T(0));
                     for (int64_t i = 0; i < n; ++i)
                       if (inside || static_cast<uint64_t>(at[i]) < static_cast<uint64_t>(limit))
                         sums[at[i]] += values[i];
                   }
                 }
               });
}

// to = 0, then to[indices] += from, plane by plane.
template <class T>
void add_at_indices(const View& from, const View& indices, const View& to, int dims) {
  Planes source(from, dims), places(indices, dims), target(to, dims);
  int64_t limit = target.numel();
  bool in_place = target.row_major();
  auto dense = [](const Planes& p) {
    return p.in_rows() && (p.count() == 1 || p.apart() == p.numel());
  };
  if (in_place && source.numel() <= index_block && dense(source) && dense(places))
    return add_small_planes<T>(from, indices, to, target, source.numel());
  int64_t lines = source.size[0] * source.size[1], width = source.size[2];
  int64_t value_step = source.step[2], place_step = places.step[2];
  if (source.row_major() && places.row_major()) {  // a plane is one line
    width *= lines;
    lines = value_step = place_step = 1;
  }
  target.parallel(limit + source.numel(), [&](int64_t plane) {
    T* out = to.ptr<T>() + target.offset(plane);
    Buffer<T> temporary(in_place ? 0 : limit);
    T* sums = in_place ? out : temporary.data();
    std::fill(sums, sums + limit, T(0));
    const T* values = from.ptr<const T>() + source.offset(plane);
    const int64_t* where = indices.ptr<const int64_t>() + places.offset(plane);
    for (int64_t line = 0; line < lines; ++line) {
      int64_t z = line / source.size[1], y = line % source.size[1];
      add_line(values + source.at(z, y, 0), value_step, where + places.at(z, y, 0), place_step,
               width, sums, limit);
    }
    if (!in_place) target.store(sums, out);
  });
}

// to = 0, then to[indices] = from, plane by plane.
template <class T>
void put_at_indices(const View& from, const View& indices, const View& to, int dims) {
  Planes source(from, dims), places(indices, dims), target(to, dims);
  int64_t limit = target.numel();
  const bool direct = target.row_major();
  target.parallel(limit + source.numel(), [&](int64_t plane) {
    T* out = to.ptr<T>() + target.offset(plane);
    if (direct) std::fill_n(out, limit, T(0));
    else target.fill(out, T(0));
    const T* values = from.ptr<const T>() + source.offset(plane);
    const int64_t* where = indices.ptr<const int64_t>() + places.offset(plane);
    for (int64_t z = 0; z < source.size[0]; ++z)
      for (int64_t y = 0; y < source.size[1]; ++y)
        for (int64_t x = 0; x < source.size[2]; ++x) {
          int64_t at = read_once(where + places.at(z, y, x));
          check(at >= 0 && at < limit, "max_unpool: found an invalid max index: ", at,
                " (output volumes are of size ", target.size[1], "x", target.size[2], ")");
          out[direct ? at : target.at_index(at)] = values[source.at(z, y, x)];
        }
  });
}

}  // namespace

Dims pool_output_sizes(IntSpan input, const PoolGeometry& g, const char* op) {
  int64_t lead = input.size() - g.dims;
  check(lead == 1 || lead == 2, op, ": expected ", g.dims + 1, "D or ", g.dims + 2,
        "D input, but got size ", input);
  for (int64_t i = lead - 1; i < input.size(); ++i)
    check(input[i] > 0, op, ": Expected ", g.dims + 1, "D or ", g.dims + 2,
          "D (batch mode) input with non-zero size for non-batch dimensions, but got ", input);
  Dims sizes(input);
  for (int i = 0; i < g.dims; ++i) {
    int64_t size = input[lead + i], k = g.kernel[i], s = g.stride[i], p = g.padding[i];
    int64_t d = g.dilation[i];
    check(k > 0, op, ": kernel size should be greater than zero, but got ", k);
    check(s > 0, op, ": stride should be greater than zero, but got ", s);
    check(d > 0, op, ": dilation should be greater than zero, but got ", d);
    check(p >= 0, op, ": pad must be non-negative, but got pad: ", p);
    check(std::max({k, s, d}) <= INT32_MAX, op, ": kernel size, stride or dilation is too large");
    check(p <= k / 2, op, ": pad should be at most half of kernel size, but got pad ", p,
          " and kernel size ", k);
    int64_t room = size + 2 * p - d * (k - 1) - 1;
    int64_t count = (room >= 0 ? room / s : -((s - 1 - room) / s)) + 1;
    if (g.ceil_mode) {
      count = (room >= 0 ? (room + s - 1) / s : -(-room / s)) + 1;
      if ((count - 1) * s >= size + p) --count;  // the last window must start inside
    }
    check(count >= 1, op, ": given input size ", input, ", calculated output size ", count,
          " along spatial dimension ", i, " is too small");
    sizes[lead + i] = count;
  }
  return sizes;
}

void max_pool(const View& input, const View& out, const View* indices,
              const PoolGeometry& geometry) {
  if (out.numel == 0) return;
  if (is_reduced(input.dtype))
    return in_floats(input, out, [&](const View& from, const View& to) {
      max_pool(from, to, indices, geometry);
    });
  Pool3 g(geometry);
  Planes in(input, geometry.dims), to(out, geometry.dims);
  if (!indices && input.dtype == DType::Float32 && geometry.dims == 1 && in.step[2] == 1 &&
      g.stride[2] <= 2 && to.step[2] == 1 && to.size[2] >= 32)
    return pool_lines_f32(input, out, g);
  SpanTable spans(to, [&](int dim, int64_t i) {
    int64_t begin = i * g.stride[dim] - g.padding[dim], d = g.dilation[dim];
    int64_t end = std::min(begin + (g.kernel[dim] - 1) * d + 1, in.size[dim]);
    if (begin < 0) begin += (-begin + d - 1) / d * d;
    return Span{begin, end};
  });
  if (max_of_pixels(input, out, indices, geometry.dims, spans, g.dilation)) return;
  if (max_of_turned(input, out, indices, geometry.dims, spans, g.dilation)) return;
  if (input.dtype == DType::Float32 && in.numel() <= INT32_MAX) {
    if (in.row_major()) return pool_max_f32(input, out, indices, geometry.dims, spans, g);
    RowMajor rows = RowMajor::copy_of(input, DType::Float32);
    return pool_max_f32(rows.view(), out, indices, geometry.dims, spans, g);
  }
  visit_ordered("max_pool", input.dtype, [&](auto tag) {
    max_of_windows<typename decltype(tag)::type>(input, out, indices, geometry.dims, spans,
                                                 g.dilation, g.kernel_size());
  });
}

void adaptive_max_pool(const View& input, const View& out, const View& indices, int dims) {
  if (out.numel == 0) return;
  if (is_reduced(input.dtype))
    return in_floats(input, out, [&](const View& from, const View& to) {
      adaptive_max_pool(from, to, indices, dims);
    });
  Planes in(input, dims), to(out, dims);
  SpanTable spans(to,
                  [&](int dim, int64_t i) { return adaptive_span(i, in.size[dim], to.size[dim]); });
  constexpr int64_t dense[3] = {1, 1, 1};
  if (max_of_pixels(input, out, &indices, dims, spans, dense)) return;
  if (max_of_turned(input, out, &indices, dims, spans, dense)) return;
  visit_ordered("adaptive_max_pool", input.dtype, [&](auto tag) {
    max_of_windows<typename decltype(tag)::type>(input, out, &indices, dims, spans, dense,
                                                 in.numel() / to.numel() + 1);
  });
}

void max_pool_backward(const View& grad_out, const View& indices, const View& grad_input,
                       int dims) {
  if (grad_input.numel == 0) return;
  if (is_reduced(grad_input.dtype))
    return in_floats(grad_out, grad_input, [&](const View& from, const View& to) {
      max_pool_backward(from, indices, to, dims);
    });
  bool pixels =
      by_pixels(grad_out, dims) && by_pixels(indices, dims) && by_pixels(grad_input, dims);
  visit<float, double>("max_pool_backward", grad_input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (pixels) add_at_pixels<T>(grad_out, indices, grad_input, dims);
    else add_at_indices<T>(grad_out, indices, grad_input, dims);
  });
}

void max_unpool(const View& input, const View& indices, const View& out, int dims) {
  if (out.numel == 0) return;
  visit<float, double, half, bfloat16, int64_t, int32_t, int16_t, int8_t, uint8_t>(
      "max_unpool", out.dtype,
      [&](auto tag) { put_at_indices<typename decltype(tag)::type>(input, indices, out, dims); });
}

}  // namespace rl::kernels
