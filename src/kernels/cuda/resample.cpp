// Resampling, padding and grid_sample.
#include "kernels/cuda/device/resample.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/interpolate.h"
#include "kernels/padding.h"
#include "kernels/resample_taps.h"

namespace rl::cuda {
namespace {

using kernels::GridSampling;
using kernels::Interpolation;
using kernels::PaddedOffsets;
using kernels::ResampleGeometry;
using kernels::Taps;

static_assert(static_cast<int>(kernels::GridMode::Bilinear) == GridBilinear &&
              static_cast<int>(kernels::GridMode::Nearest) == GridNearest &&
              static_cast<int>(kernels::GridMode::Bicubic) == GridBicubic &&
              static_cast<int>(kernels::GridPadding::Zeros) == GridZeros &&
              static_cast<int>(kernels::GridPadding::Border) == GridBorder &&
              static_cast<int>(kernels::GridPadding::Reflection) == GridReflection);

constexpr const char* header = "kernels/cuda/device/resample.cuh";

KernelTemplate resamples(header), pads(header), pad_gradients(header), samples(header),
    slopes(header), spreads(header);

uint64_t of(DType t) { return static_cast<uint64_t>(t); }

// For each element of the result, which of the others it takes and by what weight.
template <class C> struct Lists {
  std::vector<int64_t> begins;
  std::vector<int32_t> places;
  std::vector<C> weights;
};
template <class C> Lists<C> lists_of(const Taps<C>& taps) {
  Lists<C> lists{{}, taps.place, taps.weight};
  for (int64_t o = 0; o <= taps.out; ++o) lists.begins.push_back(o * taps.width);
  return lists;
}
template <class C> Lists<C> transposed_lists(const Taps<C>& taps) {
  Lists<C> lists;
  lists.begins.assign(static_cast<size_t>(taps.in + 1), 0);
  lists.places.resize(taps.place.size());
  lists.weights.resize(taps.place.size());
  for (int32_t place : taps.place) ++lists.begins[static_cast<size_t>(place) + 1];
  for (size_t i = 1; i < lists.begins.size(); ++i) lists.begins[i] += lists.begins[i - 1];
  std::vector<int64_t> next(lists.begins);
  for (size_t k = 0; k < taps.place.size(); ++k) {
    size_t to = static_cast<size_t>(next[static_cast<size_t>(taps.place[k])]++);
    lists.places[to] = static_cast<int32_t>(static_cast<int64_t>(k) / taps.width);
    lists.weights[to] = taps.weight[k];
  }
  return lists;
}

// A copy in the device's memory.
template <class T> class Uploaded {
 public:
  Uploaded(const Context& context, const std::vector<T>& values)
      : memory_(values.size() * sizeof(T), context.device.index) {
    upload(context, memory_.get(), values.data(), values.size() * sizeof(T));
  }
  const T* get() const { return memory_.get<const T>(); }

 private:
  Scratch memory_;
};

template <class C> void run_pass(const Context& context, const char* op, const Lists<C>& lists,
                                 ResamplePass pass) {
  int device = context.device.index;
  Uploaded<int64_t> begins(context, lists.begins);
  Uploaded<int32_t> places(context, lists.places);
  Uploaded<C> weights(context, lists.weights);
  pass.begins = begins.get();
  pass.places = places.get();
  pass.weights = weights.get();
  CUfunction f = resamples.get(of(dtype_of<C>), device, op,
                               [&] { return instance("resample_lines", dtype_of<C>); });
  launch_elements(f, device, op, pass.outer * pass.after * pass.inner, pass);
}

// The spatial dims one after another, the last one first (or, transposed, last).
template <class C> void run(const Context& context, const char* op, const View& from,
                            const View& to, const ResampleGeometry& g, bool transposed,
                            bool bytes) {
  use(context.device.index);
  if (!from.numel || !to.numel) return;
  Contiguous given(context, from);
  ContiguousResult result(context, to);
  int dims = static_cast<int>(from.ndim - 2), device = context.device.index;
  Dims sizes(from.shape());
  std::optional<Scratch> kept[2];
  const void* now = given.view().data;
  DType now_dtype = from.dtype;
  for (int i = 0; i < dims; ++i) {
    int d = transposed ? i : dims - 1 - i;
    int64_t before = sizes[2 + d], after = to.sizes[2 + d];
    int64_t in = transposed ? after : before, out = transposed ? before : after;
    Taps<C> taps = kernels::taps_of<C>(in, out, g, d, bytes);
    ResamplePass pass{};
    pass.outer = product(IntSpan(sizes.data(), 2 + d));
    pass.inner = product(IntSpan(sizes.data() + 3 + d, dims - 1 - d));
    pass.before = before;
    pass.after = after;
    pass.from = now;
    pass.from_dtype = static_cast<int>(now_dtype);
    bool last = i + 1 == dims;
    sizes[2 + d] = after;
    now_dtype = last ? to.dtype : dtype_of<C>;
    pass.to =
        last ? result.data()
             : kept[i % 2].emplace(static_cast<size_t>(product(sizes)) * sizeof(C), device).get();
    pass.to_dtype = static_cast<int>(now_dtype);
    pass.bytes = bytes && before != after;
    run_pass(context, op, transposed ? transposed_lists(taps) : lists_of(taps), pass);
    now = pass.to;
  }
  result.finish();
}

void run_any(const Context& context, const char* op, const View& from, const View& to,
             const ResampleGeometry& g, bool transposed) {
  bool nearest = g.mode == Interpolation::Nearest || g.mode == Interpolation::NearestExact;
  bool bytes = from.dtype == DType::UInt8 && !transposed && from.ndim == 4;
  check_implemented(is_floating(from.dtype) || (nearest && from.dtype == DType::UInt8) || bytes, op,
                    ": not implemented on CUDA for dtype ", from.dtype);
  if (from.dtype == DType::Float64 || (bytes && !nearest))
    run<double>(context, op, from, to, g, transposed, bytes && !nearest);
  else run<float>(context, op, from, to, g, transposed, false);
}

// The numbers of all dims in one table.
PaddedDims dims_of(const std::vector<std::vector<int64_t>>& parts, std::vector<int64_t>& table,
                   const char* op) {
  check_implemented(parts.size() <= most_padded_dims, op, ": at most ", most_padded_dims,
                    " dims on CUDA, got ", parts.size());
  PaddedDims dims{};
  for (const std::vector<int64_t>& part : parts) {
    dims.begins[dims.count++] = static_cast<int64_t>(table.size());
    table.insert(table.end(), part.begin(), part.end());
  }
  return dims;
}
// `size + 1` beginnings of lists, and the lists of the places that show each element.
std::vector<int64_t> shown_places(const std::vector<int64_t>& places, int64_t size) {
  std::vector<int64_t> lists(static_cast<size_t>(size) + 1 + places.size(), 0);
  for (int64_t at : places) ++lists[static_cast<size_t>(at) + 1];
  for (int64_t i = 0; i < size; ++i)
    lists[static_cast<size_t>(i) + 1] += lists[static_cast<size_t>(i)];
  std::vector<int64_t> next(lists.begin(), lists.begin() + size);
  for (size_t i = 0; i < places.size(); ++i)
    lists[static_cast<size_t>(size + 1 + next[static_cast<size_t>(places[i])]++)] =
        static_cast<int64_t>(i);
  return lists;
}

GridArgs grid_args(const View& image, const View& sampled, const GridSampling& how) {
  GridArgs a{};
  a.mode = static_cast<int>(how.mode);
  a.padding = static_cast<int>(how.padding);
  a.align_corners = how.align_corners;
  a.dims = static_cast<int>(image.ndim - 2);
  a.batch = image.sizes[0];
  a.channels = image.sizes[1];
  a.plane = a.places = 1;
  for (int d = 0; d < a.dims; ++d) {
    a.size[d] = image.sizes[2 + d];
    a.orders[d] = how.orders[d];
    a.plane *= image.sizes[2 + d];
    a.places *= sampled.sizes[2 + d];
  }
  return a;
}
template <class... Arguments>
void run_grid(const Context& context, KernelTemplate& kernel, const char* name, DType dtype,
              int64_t count, const Arguments&... arguments) {
  int device = context.device.index;
  use(device);
  check_implemented(dtype == DType::Float32 || dtype == DType::Float64,
                    "grid_sample: not implemented on CUDA for dtype ", dtype);
  if (!count) return;
  CUfunction f =
      kernel.get(of(dtype), device, "grid_sample", [&] { return instance(name, dtype); });
  launch_elements(f, device, "grid_sample", count, arguments...);
}

}  // namespace

void interpolate(const Context& c, const View& input, const View& out, const ResampleGeometry& g) {
  run_any(c, "interpolate", input, out, g, false);
}
void interpolate_backward(const Context& c, const View& grad_out, const View& grad_input,
                          const ResampleGeometry& g) {
  run_any(c, "interpolate_backward", grad_out, grad_input, g, true);
}

void pad(const Context& context, const View& input, const PaddedOffsets& places, const View& out) {
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  std::vector<int64_t> table;
  PaddedDims dims = dims_of(places, table, "pad");
  Uploaded<int64_t> uploaded(context, table);
  dims.table = uploaded.get();
  CUfunction f =
      pads.get(of(out.dtype), device, "pad", [&] { return instance("pad_elements", out.dtype); });
  launch_elements(f, device, "pad", out.numel, strided_as_is(input, "pad"),
                  strided_as_is(out, "pad"), dims);
}
void pad_backward(const Context& context, const View& grad, const PaddedOffsets& places,
                  const View& grad_input) {
  int device = context.device.index;
  use(device);
  if (!grad_input.numel) return;
  int64_t first = grad_input.ndim - static_cast<int64_t>(places.size());
  std::vector<std::vector<int64_t>> parts;
  for (size_t k = 0; k < places.size(); ++k)
    parts.push_back(shown_places(places[k], grad_input.sizes[first + static_cast<int64_t>(k)]));
  std::vector<int64_t> table;
  PaddedDims dims = dims_of(parts, table, "pad_backward");
  Uploaded<int64_t> uploaded(context, table);
  dims.table = uploaded.get();
  CUfunction f = pad_gradients.get(of(grad.dtype), device, "pad_backward",
                                   [&] { return instance("pad_gradient", grad.dtype); });
  launch_elements(f, device, "pad_backward", grad_input.numel, strided_as_is(grad, "pad"),
                  strided_as_is(grad_input, "pad"), dims);
}

void grid_sample(const Context& c, const View& input, const View& grid, const View& out,
                 const GridSampling& how) {
  run_grid(c, samples, "sample_grid", input.dtype, out.numel, input.data, grid.data, out.data,
           grid_args(input, out, how));
}
void grid_slopes(const Context& c, const View& values, const View& input, const View& grid,
                 const View& out, const GridSampling& how) {
  run_grid(c, slopes, "grid_slope", input.dtype, out.numel, values.data, input.data, grid.data,
           out.data, grid_args(input, values, how));
}
void grid_scatter(const Context& c, const View& values, const View& grid, const View& out,
                  const GridSampling& how) {
  fill(c, out, Scalar(0));
  run_grid(c, spreads, "grid_spread", out.dtype, out.numel ? values.numel : 0, values.data,
           grid.data, out.data, grid_args(out, values, how));
}

}  // namespace rl::cuda
