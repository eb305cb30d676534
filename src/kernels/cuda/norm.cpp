#include "kernels/norm.h"

#include <algorithm>

#include "kernels/batch_norm.h"
#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/launch.h"

namespace rl::cuda {
namespace {

using kernels::BatchNormArgs;
using kernels::ChannelAffine;

constexpr const char* header = "kernels/cuda/device/norm.cuh";

KernelTemplate forward(header), backward(header), parameters(header), statistics(header),
    batch_backward(header);

unsigned threads_for(int64_t count) {
  return static_cast<unsigned>(std::clamp<int64_t>((count + 31) / 32 * 32, 32, block_threads));
}
void* data_of(const View* v) { return v ? v->data : nullptr; }
int dtype_of_view(const View* v) { return v ? static_cast<int>(v->dtype) : 0; }
Vector vector_of(const View* v) {
  if (!v) return {};
  return {v->data, static_cast<int>(v->dtype), v->ndim ? v->strides[0] : 1};
}

Rows rows_of(const View& input, int64_t rows, const View* weight, const View* bias, double eps,
             bool centered) {
  int64_t length = rows ? input.numel / rows : 0;
  return {rows,
          length,
          1,
          length,
          1,
          data_of(weight),
          data_of(bias),
          dtype_of_view(weight),
          dtype_of_view(bias),
          eps,
          centered};
}
Rows groups_of(const View& input, const View& mean, const View* weight, const View* bias,
               double eps) {
  Rows r = rows_of(input, mean.numel, weight, bias, eps, true);
  r.groups = mean.sizes[1];
  r.per_group = input.sizes[1] / r.groups;
  r.places = r.per_group ? std::max<int64_t>(r.length / r.per_group, 1) : 1;
  return r;
}

void run_forward(const Context& context, const char* op, const View& input, const View& out,
                 void* mean, const View& rstd, const Rows& r) {
  int device = context.device.index;
  use(device);
  if (!r.rows) return;
  CUfunction f = forward.get(static_cast<uint64_t>(input.dtype), device, op,
                             [&] { return instance("normalise_rows", input.dtype); });
  launch_kernel(f, device, op, blocks_of_rows(r.rows), Grid{threads_for(r.length)}, 0, input.data,
                out.data, mean, rstd.data, r);
}
void run_backward(const Context& context, const char* op, const View& grad, const View& input,
                  void* mean, const View& rstd, const View* grad_input, const View* grad_weight,
                  const View* grad_bias, const Rows& r) {
  int device = context.device.index;
  use(device);
  if (!input.numel) {  // no rows to add up
    for (const View* g : {grad_weight, grad_bias})
      if (g) set_zero(context, g->data, static_cast<size_t>(g->numel * itemsize(g->dtype)));
    return;
  }
  if (grad_input) {
    CUfunction f = backward.get(static_cast<uint64_t>(input.dtype), device, op,
                                [&] { return instance("normalise_rows_gradient", input.dtype); });
    launch_kernel(f, device, op, blocks_of_rows(r.rows), Grid{threads_for(r.length)}, 0, grad.data,
                  input.data, mean, rstd.data, grad_input->data, r);
  }
  int64_t channels = r.groups * r.per_group;
  if ((grad_weight || grad_bias) && channels) {
    CUfunction f = parameters.get(static_cast<uint64_t>(input.dtype), device, op,
                                  [&] { return instance("row_parameter_gradients", input.dtype); });
    void *w = data_of(grad_weight), *b = data_of(grad_bias);
    launch_kernel(f, device, op, blocks_of_rows(channels),
                  Grid{threads_for(r.rows / r.groups * r.places)}, 0, grad.data, input.data, mean,
                  rstd.data, w, dtype_of_view(grad_weight), b, dtype_of_view(grad_bias), r);
  }
}

}  // namespace

void layer_norm(const Context& c, const View& input, const View* weight, const View* bias,
                double eps, const View& out, const View& mean, const View& rstd) {
  run_forward(c, "layer_norm", input, out, mean.data, rstd,
              rows_of(input, mean.numel, weight, bias, eps, true));
}
void layer_norm_backward(const Context& c, const View& grad, const View& input, const View& mean,
                         const View& rstd, const View* weight, const View* grad_input,
                         const View* grad_weight, const View* grad_bias) {
  run_backward(c, "layer_norm_backward", grad, input, mean.data, rstd, grad_input, grad_weight,
               grad_bias, rows_of(input, mean.numel, weight, nullptr, 0, true));
}
void rms_norm(const Context& c, const View& input, const View* weight, double eps, const View& out,
              const View& rstd) {
  run_forward(c, "rms_norm", input, out, nullptr, rstd,
              rows_of(input, rstd.numel, weight, nullptr, eps, false));
}
void rms_norm_backward(const Context& c, const View& grad, const View& input, const View& rstd,
                       const View* weight, const View* grad_input, const View* grad_weight) {
  run_backward(c, "rms_norm_backward", grad, input, nullptr, rstd, grad_input, grad_weight, nullptr,
               rows_of(input, rstd.numel, weight, nullptr, 0, false));
}
void group_norm(const Context& c, const View& input, const View* weight, const View* bias,
                double eps, const View& out, const View& mean, const View& rstd) {
  run_forward(c, "group_norm", input, out, mean.data, rstd,
              groups_of(input, mean, weight, bias, eps));
}
void group_norm_backward(const Context& c, const View& grad, const View& input, const View& mean,
                         const View& rstd, const View* weight, const View* grad_input,
                         const View* grad_weight, const View* grad_bias) {
  run_backward(c, "group_norm_backward", grad, input, mean.data, rstd, grad_input, grad_weight,
               grad_bias, groups_of(input, mean, weight, nullptr, 0));
}

namespace {
// A view without its dim of channels, and the step between those.
Strided without_channels(const View& v, int64_t& step, const char* op) {
  Dims sizes(v.shape()), strides(v.stride());
  step = strides[1];
  sizes.erase(1);
  strides.erase(1);
  return strided(
      View{v.data, sizes.data(), strides.data(), sizes.size(), product(sizes), v.dtype, v.device},
      op);
}
}  // namespace

// The affine map stays on the device: it is what save_mean and save_invstd say, and the result is
// empty.
ChannelAffine batch_norm_train(const Context& context, const View& input, const BatchNormArgs& args,
                               const View* running_mean, const View* running_var, double momentum,
                               const View& save_mean, const View& save_invstd) {
  int device = context.device.index;
  use(device);
  int64_t step, channels = input.sizes[1];
  Strided x = without_channels(input, step, "batch_norm");
  if (!channels) return {};
  CUfunction f = statistics.get(static_cast<uint64_t>(input.dtype), device, "batch_norm",
                                [&] { return instance("channel_statistics", input.dtype); });
  launch_kernel(f, device, "batch_norm", blocks_of_rows(channels), Grid{threads_for(x.numel)}, 0, x,
                step, channels, momentum, args.eps, vector_of(running_mean), vector_of(running_var),
                vector_of(&save_mean), vector_of(&save_invstd));
  return {};
}
ChannelAffine batch_norm_eval(const Context&, const BatchNormArgs&, const View&, const View&) {
  return {};
}
void batch_norm_apply(const Context&, const View& input, const ChannelAffine&, const View&) {
  check_implemented(!input.numel, "batch_norm_apply: on CUDA the affine map stays on the device");
}
void batch_norm_backward(const Context& context, const View& grad_out,
                         const kernels::StripFormula* lazy, const View& input, const View* weight,
                         const View& mean, const View& invstd, bool train, const View* grad_input,
                         const View* grad_weight, const View* grad_bias) {
  check(!lazy, "batch_norm_backward: a lazy gradient on CUDA");
  int device = context.device.index;
  use(device);
  int64_t channels = input.sizes[1], grad_step, input_step, result_step = 0;
  if (!channels) return;
  Strided g = without_channels(grad_out, grad_step, "batch_norm"),
          x = without_channels(input, input_step, "batch_norm"), r{};
  if (grad_input) r = without_channels(*grad_input, result_step, "batch_norm");
  CUfunction f = batch_backward.get(static_cast<uint64_t>(input.dtype), device, "batch_norm",
                                    [&] { return instance("batch_norm_gradient", input.dtype); });
  launch_kernel(f, device, "batch_norm_backward", blocks_of_rows(channels),
                Grid{threads_for(x.numel)}, 0, g, grad_step, x, input_step, r, result_step,
                channels, static_cast<int>(train), vector_of(weight), vector_of(&mean),
                vector_of(&invstd), vector_of(grad_weight), vector_of(grad_bias));
}

}  // namespace rl::cuda
