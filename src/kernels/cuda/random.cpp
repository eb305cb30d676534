#include "kernels/random.h"

#include <limits>

#include "core/generator.h"
#include "kernels/cuda/device/random.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/philox.h"
#include "kernels/range.h"

namespace rl::cuda {
namespace {

constexpr const char* header = "kernels/cuda/device/random.cuh";

constexpr int64_t count = 4;  // neighbours that have random words of their own together

KernelTemplate draws(header), dropouts(header), kept_gradients(header), ranges(header),
    spaces(header);

void draw(const Context& context, const char* op, const View& out, Distribution distribution,
          double a, double b, Generator& generator, int64_t low = 0, uint64_t range = 0,
          const View* p = nullptr) {
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  if (is_complex(out.dtype)) {  // the two parts, side by side
    DType real = to_real(out.dtype);
    Dims sizes(out.shape()), strides(out.stride());
    for (int64_t& s : strides) s *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    View parts{out.data,      sizes.data(), strides.data(), sizes.size(),
               2 * out.numel, real,         out.device};
    return draw(context, op, parts, distribution, a, b, generator, low, range, p);
  }
  DType compute =
      out.dtype == DType::Float64 || out.dtype == DType::Int64 ? DType::Float64 : DType::Float32;
  bool wide = compute == DType::Float64 || distribution == DrawInteger;
  PhiloxSeed seed = philox_for(device, generator, wide ? 2 * count : count);
  DrawArgs args{a, b, low, range, seed, faults(device, op)};
  uint64_t variant = static_cast<uint64_t>(out.dtype) << 4 | static_cast<uint64_t>(distribution);
  CUfunction f = draws.get(variant, device, op, [&] {
    return instance("draw", compute, out.dtype, static_cast<int>(distribution));
  });
  launch_elements(f, device, op, (out.numel + count - 1) / count, strided(out, op),
                  p ? strided_as_is(*p, op) : Strided{}, args);
}

}  // namespace

void uniform(const Context& c, const View& out, double from, double to, Generator& g) {
  draw(c, "uniform_", out, DrawUniform, from, to, g);
}
void normal(const Context& c, const View& out, double mean, double std, Generator& g) {
  if (is_complex(out.dtype)) std *= 0.70710678118654752440;
  draw(c, "normal_", out, DrawNormal, mean, std, g);
}
void bernoulli(const Context& c, const View& out, double p, Generator& g) {
  draw(c, "bernoulli_", out, DrawBernoulli, p, 0, g);
}
void bernoulli_each(const Context& c, const View& out, const View& p, Generator& g) {
  draw(c, "bernoulli", out, DrawBernoulliEach, 0, 0, g, 0, 0, &p);
}
void geometric(const Context& c, const View& out, double p, Generator& g) {
  draw(c, "geometric_", out, DrawGeometric, p, 0, g);
}
void exponential(const Context& c, const View& out, double lambda, Generator& g) {
  draw(c, "exponential_", out, DrawExponential, lambda, 0, g);
}
void cauchy(const Context& c, const View& out, double median, double sigma, Generator& g) {
  draw(c, "cauchy_", out, DrawCauchy, median, sigma, g);
}
void log_normal(const Context& c, const View& out, double mean, double std, Generator& g) {
  draw(c, "log_normal_", out, DrawLogNormal, mean, std, g);
}

namespace {
// The views of two calls below: what they lie like does not matter where it is one order.
struct Masked {
  Strided in, out, kept;

  Masked(const View& input, const View& result, const View& mask, const char* op) {
    bool alike = lie_alike(input, result) && lie_alike(input, mask);
    auto of = [&](const View& v) {
      if (!alike) return strided(v, op);
      int64_t step = 1;
      return strided(View{v.data, &v.numel, &step, 1, v.numel, v.dtype, v.device}, op);
    };
    in = of(input);
    out = of(result);
    kept = of(mask);
  }
};
}  // namespace

void dropout(const Context& context, const View& input, double p, const View& out, const View& kept,
             Generator& generator) {
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  DType compute = out.dtype == DType::Float64 ? DType::Float64 : DType::Float32;
  PhiloxSeed seed = philox_for(device, generator, compute == DType::Float64 ? 2 * count : count);
  Masked views(input, out, kept, "dropout");
  CUfunction f = dropouts.get(static_cast<uint64_t>(out.dtype), device, "dropout",
                              [&] { return instance("drop_elements", compute, out.dtype); });
  launch_elements(f, device, "dropout", (out.numel + count - 1) / count, views.in, views.out,
                  views.kept, 1 - p, seed);
}
void dropout_backward(const Context& context, const View& grad, const View& kept, double p,
                      const View& out) {
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  Masked views(grad, out, kept, "dropout_backward");
  CUfunction f = kept_gradients.get(static_cast<uint64_t>(out.dtype), device, "dropout_backward",
                                    [&] { return instance("scale_kept_elements", out.dtype); });
  launch_elements(f, device, "dropout_backward", (out.numel + count - 1) / count, views.in,
                  views.out, views.kept, 1 - p);
}

namespace {
// The largest whole number up to which a dtype holds all.
int64_t largest_exact(DType t) {
  switch (t) {
    case DType::Bool: return 1;
    case DType::UInt8: return 255;
    case DType::Int8: return 127;
    case DType::Int16: return 32767;
    case DType::Int32: return std::numeric_limits<int32_t>::max();
    case DType::Int64: return std::numeric_limits<int64_t>::max();
    case DType::Float16: return int64_t(1) << 11;
    case DType::BFloat16: return int64_t(1) << 8;
    case DType::Float32: return int64_t(1) << 24;
    default: return int64_t(1) << 53;
  }
}
}  // namespace

void random_from_to(const Context& c, const View& out, int64_t from, int64_t to, Generator& g) {
  check(from < to, "random_ expects 'from' to be less than 'to', but got from=", from,
        " >= to=", to);
  draw(c, "random_", out, DrawInteger, 0, 0, g, from,
       static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}
void random_from(const Context& c, const View& out, int64_t from, Generator& g) {
  draw(c, "random_", out, DrawInteger, 0, 0, g, from,
       static_cast<uint64_t>(largest_exact(out.dtype)) - static_cast<uint64_t>(from) + 1);
}
void random_natural(const Context& c, const View& out, Generator& g) { random_from(c, out, 0, g); }

void arange(const Context& context, const View& out, double start, double step) {
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  CUfunction f = ranges.get(static_cast<uint64_t>(out.dtype), device, "arange",
                            [&] { return instance("arange_elements", out.dtype); });
  launch_elements(f, device, "arange", out.numel, out.data, out.numel, start, step);
}
void linspace(const Context& context, const View& out, const Scalar& start, const Scalar& end) {
  check_implemented(!is_complex(out.dtype), "linspace: not implemented on CUDA for dtype ",
                    out.dtype);
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  CUfunction f = spaces.get(static_cast<uint64_t>(out.dtype), device, "linspace",
                            [&] { return instance("linspace_elements", out.dtype); });
  launch_elements(f, device, "linspace", out.numel, out.data, out.numel, start.to<double>(),
                  end.to<double>());
}

}  // namespace rl::cuda
