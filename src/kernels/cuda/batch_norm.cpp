#include "kernels/batch_norm.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/channels.h"
#include "kernels/cuda/device/batch_norm.h"
#include "kernels/cuda/launch.h"
#include "kernels/reduce.h"

namespace rl::cuda {

RL_CUDA_KERNEL(var);

namespace {

using kernels::BatchNormArgs;
using kernels::ChannelAffine;

constexpr const char* header = "kernels/cuda/device/batch_norm.cuh";
constexpr const char* op = "batch_norm";

KernelTemplate statistics(header), factors(header), apply(header), runs(header), columns(header),
    gradients(header), gradient_apply(header), additions(header);

Vector vector_of(const View* v) {
  if (!v) return {};
  return {v->data, static_cast<int>(v->dtype), v->ndim ? v->strides[0] : 1};
}

// Whether the elements lie without gaps, in the order of the dims or with channels last.
bool lies_densely(const View& v, bool channels_last) {
  if (!v.numel) return true;
  int64_t expected = 1;
  auto continues = [&](int64_t d) {
    bool right = v.sizes[d] == 1 || v.strides[d] == expected;
    expected *= v.sizes[d];
    return right;
  };
  bool dense = !channels_last || continues(1);
  for (int64_t d = v.ndim - 1; d >= 0; --d)
    if (d != 1 || !channels_last) dense = continues(d) && dense;
  return dense;
}

// How all of these views lie alike: `known` is false where they do not.
struct Layout {
  Channels channels;
  bool known;
  int count = 1;  // elements of a pack

  Layout(const View& input, std::initializer_list<const View*> others) {
    bool last = lies_densely(input, true) && !lies_densely(input, false);
    known = lies_densely(input, last);
    for (const View* v : others) known = known && (!v || lies_densely(*v, last));
    int64_t outer = input.sizes[0] * input.sizes[1];
    channels = {input.numel, input.sizes[1], last || !outer ? 1 : input.numel / outer};
    auto whole = static_cast<int>(16 / itemsize(input.dtype));
    bool aligned = reinterpret_cast<uintptr_t>(input.data) % 16 == 0;
    for (const View* v : others)
      aligned = aligned && (!v || reinterpret_cast<uintptr_t>(v->data) % 16 == 0);
    int64_t run = channels.inner == 1 ? channels.channels : channels.inner;
    if (aligned && run % whole == 0) count = whole;
  }
  bool last() const { return channels.inner == 1; }
  uint64_t variant(DType t) const {
    return (uint64_t(t) << 1 | uint64_t(last())) << 5 | uint64_t(count);
  }
  int64_t packs() const { return (channels.numel + count - 1) / count; }
};

}  // namespace

// The affine map stays on the device: it is what save_mean and save_invstd say, and the result is
// empty.
ChannelAffine batch_norm_train(const Context& context, const View& input, const BatchNormArgs& args,
                               const View* running_mean, const View* running_var, double momentum,
                               const View& save_mean, const View& save_invstd) {
  int device = context.device.index;
  use(device);
  int64_t channels = input.sizes[1];
  if (!channels) return {};
  ScratchView variance(Dims{channels}, compute_dtype(input.dtype), device);
  Dims sizes(input.ndim, 1), mean_strides(input.ndim, 1), var_strides(input.ndim, 1);
  sizes[1] = channels;
  mean_strides[1] = save_mean.strides[0];
  View mean = save_mean, var_out = variance;
  for (View* v : {&mean, &var_out}) {
    v->sizes = sizes.data();
    v->strides = v == &mean ? mean_strides.data() : var_strides.data();
    v->ndim = input.ndim;
  }
  var(context, input, 0, false, var_out, &mean);
  CUfunction f = statistics.get(static_cast<uint64_t>(input.dtype), device, op,
                                [&] { return instance("finish_statistics", input.dtype); });
  launch_elements(f, device, op, channels, channels, input.numel / channels, momentum, args.eps,
                  variance.view().data, vector_of(running_mean), vector_of(running_var),
                  vector_of(&save_mean), vector_of(&save_invstd));
  return {};
}
ChannelAffine batch_norm_eval(const Context&, const BatchNormArgs&, const View&, const View&) {
  return {};
}

void batch_norm_apply(const Context& context, const View& given, const ChannelAffine&,
                      const BatchNormArgs& args, const View& mean, const View& invstd,
                      const View& result) {
  int device = context.device.index;
  use(device);
  if (!given.numel) return;
  if (!Layout(given, {&result}).known) {
    Contiguous input(context, given);
    ContiguousResult out(context, result);
    batch_norm_apply(context, input, {}, args, mean, invstd, out);
    return out.finish();
  }
  Layout layout(given, {&result});
  int64_t channels = layout.channels.channels;
  ScratchView made(Dims{3, channels}, compute_dtype(given.dtype), device);
  void* memory = made.view().data;
  CUfunction f = factors.get(static_cast<uint64_t>(given.dtype), device, op,
                             [&] { return instance("channel_factors", given.dtype); });
  launch_elements(f, device, op, channels, channels, vector_of(&mean), vector_of(&invstd),
                  vector_of(args.weight), vector_of(args.bias), memory);
  f = apply.get(layout.variant(given.dtype), device, op, [&] {
    return instance("apply_channel_factors", given.dtype, layout.last(), layout.count);
  });
  launch_elements(f, device, op, layout.packs(), given.data, result.data, layout.channels, memory);
}

void batch_norm_backward(const Context& context, const View& grad_out,
                         const kernels::StripFormula* lazy, const View& input, const View* weight,
                         const View& mean, const View& invstd, bool train, const View* grad_input,
                         const View* grad_weight, const View* grad_bias) {
  check(!lazy, "batch_norm_backward: a lazy gradient on CUDA");
  int device = context.device.index;
  use(device);
  int64_t channels = input.sizes[1];
  if (!channels) return;
  Layout layout(input, {&grad_out, grad_input});
  if (!layout.known) {
    Contiguous g(context, grad_out), x(context, input);
    std::optional<ContiguousResult> r;
    if (grad_input) r.emplace(context, *grad_input);
    batch_norm_backward(context, g, nullptr, x, weight, mean, invstd, train,
                        r ? &r->view() : nullptr, grad_weight, grad_bias);
    if (r) r->finish();
    return;
  }
  // In parts by the sizes alone, of at least a few thousand elements.
  int64_t places = input.numel / channels;
  bool last = layout.last();
  int64_t groups = last ? (channels / layout.count + 31) / 32 : channels;
  auto parts = static_cast<int>(
      std::clamp<int64_t>(1024 / groups, 1, std::max<int64_t>(places / (last ? 64 : 4096), 1)));
  DType compute = compute_dtype(input.dtype);
  ScratchView sums(Dims{channels, parts, 2}, compute, device),
      made(Dims{4, channels}, compute, device);
  void *added = sums.view().data, *memory = made.view().data;
  CUfunction f = (last ? columns : runs).get(layout.variant(input.dtype), device, op, [&] {
    return instance(last ? "sum_channel_columns" : "sum_channel_runs", input.dtype, layout.count);
  });
  launch_kernel(f, device, op, blocks_of_rows(groups * parts), last ? Grid{32, 8} : Grid{256}, 0,
                grad_out.data, input.data, layout.channels, vector_of(&mean), parts, added);
  f = gradients.get(static_cast<uint64_t>(input.dtype), device, op,
                    [&] { return instance("finish_channel_gradients", input.dtype); });
  launch_elements(f, device, op, channels * 32, channels, places, parts, static_cast<int>(train),
                  added, vector_of(&mean), vector_of(&invstd), vector_of(weight),
                  vector_of(grad_weight), vector_of(grad_bias), memory);
  if (!grad_input || !input.numel) return;
  f = gradient_apply.get(layout.variant(input.dtype), device, op, [&] {
    return instance("apply_channel_gradients", input.dtype, last, layout.count);
  });
  launch_elements(f, device, op, layout.packs(), grad_out.data, input.data, grad_input->data,
                  layout.channels, memory);
}

void add_to_channels(const Context& context, const View& out, const View& bias) {
  int device = context.device.index;
  use(device);
  Layout layout(out, {});
  if (!layout.known) {
    Contiguous input(context, out);
    add_to_channels(context, input, bias);
    return copy(context, input, out);
  }
  CUfunction f = additions.get(layout.variant(out.dtype), device, "add", [&] {
    return instance("add_to_channels", out.dtype, layout.last(), layout.count);
  });
  launch_elements(f, device, "add", layout.packs(), out.data, layout.channels, vector_of(&bias));
}

}  // namespace rl::cuda
