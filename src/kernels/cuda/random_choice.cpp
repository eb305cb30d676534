// Categories, and distributions that are drawn by rejection.
#include "kernels/cuda/device/random.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/philox.h"
#include "kernels/random.h"
#include "kernels/scan.h"
#include "kernels/sort.h"

namespace rl::cuda {

RL_CUDA_KERNEL(cumsum);
RL_CUDA_KERNEL(topk);

namespace {

constexpr const char* header = "kernels/cuda/device/random.cuh";
// Words of an element's sequence: more than any sampler takes but once in 10^12 draws.
constexpr uint64_t most_words = 512;

KernelTemplate rejections(header), normalizations(header), checks(header), choices(header),
    races(header);

RejectionArgs begin(const Context& context, const char* op, Generator& generator) {
  return {philox_for(context.device.index, generator, most_words),
          faults(context.device.index, op)};
}

void draw(const Context& context, const char* op, Rejection kind, const View& out,
          const View& first, const View* second, Generator& generator) {
  int device = context.device.index;
  use(device);
  check_implemented(is_floating(out.dtype), op, ": not implemented on CUDA for dtype ", out.dtype);
  if (!out.numel) return;
  RejectionArgs args = begin(context, op, generator);
  uint64_t variant = static_cast<uint64_t>(out.dtype) * 4 + static_cast<uint64_t>(kind);
  CUfunction f = rejections.get(variant, device, op, [&] {
    return instance("draw_rejecting", out.dtype, static_cast<int>(kind));
  });
  launch_elements(f, device, op, out.numel, strided_as_is(out, op), strided_as_is(first, op),
                  second ? strided_as_is(*second, op) : Strided{}, args);
}

}  // namespace

void poisson(const Context& c, const View& rate, const View& out, Generator& g) {
  draw(c, "poisson", RejectPoisson, out, rate, nullptr, g);
}
void binomial(const Context& c, const View& count, const View& prob, const View& out,
              Generator& g) {
  draw(c, "binomial", RejectBinomial, out, count, &prob, g);
}
void standard_gamma(const Context& c, const View& alpha, const View& out, Generator& g) {
  draw(c, "_standard_gamma", RejectGamma, out, alpha, nullptr, g);
}
void dirichlet(const Context& context, const View& alpha, const View& out, Generator& g) {
  const char* op = "_sample_dirichlet";
  int device = context.device.index;
  use(device);
  check_implemented(out.dtype == DType::Float32 || out.dtype == DType::Float64, op,
                    ": not implemented on CUDA for dtype ", out.dtype);
  if (!out.numel) return;
  ScratchView gammas(out.shape(), DType::Float64, device);
  draw(context, op, RejectGamma, gammas, alpha, nullptr, g);
  CUfunction f = normalizations.get(static_cast<uint64_t>(out.dtype), device, op,
                                    [&] { return instance("normalize_rows", out.dtype); });
  launch_elements(f, device, op, out.numel, gammas.view().data, strided_as_is(out, op),
                  out.sizes[out.ndim - 1]);
}

void multinomial(const Context& context, const View& probs, bool replacement, const View& out,
                 Generator& generator) {
  const char* op = "multinomial";
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  check(probs.numel > 0, "multinomial: there are no categories to draw from");
  int64_t count = probs.sizes[probs.ndim - 1], rows = probs.numel / count;
  int64_t each = out.sizes[out.ndim - 1];
  check(replacement || each <= count, "multinomial: cannot draw ", each, " of ", count,
        " categories without replacement");
  ScratchView p(probs.shape(), DType::Float64, device), sums(probs.shape(), DType::Float64, device);
  copy(context, probs, p);
  cumsum(context, p, probs.ndim - 1, sums, false);
  RejectionArgs args = begin(context, op, generator);
  CUfunction f = checks.get(0, device, op, [&] { return instance("check_categories", 0); });
  launch_elements(f, device, op, rows * count, sums.view().data, p.view().data, rows, count,
                  args.fault);
  if (replacement) {
    f = choices.get(0, device, op, [&] { return instance("choose_categories", 0); });
    launch_elements(f, device, op, out.numel, sums.view().data, count, strided_as_is(out, op), each,
                    args);
    return;
  }
  f = races.get(0, device, op, [&] { return instance("race_categories", 0); });
  launch_elements(f, device, op, rows * count, p.view().data, rows * count, args);
  ScratchView values(out.shape(), DType::Float64, device);
  topk(context, p, probs.ndim - 1, each, true, values, out);
}

}  // namespace rl::cuda
