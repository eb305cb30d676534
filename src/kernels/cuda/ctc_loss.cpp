#include "kernels/ctc_loss.h"

#include "kernels/cuda/device/ctc.h"
#include "kernels/cuda/launch.h"

namespace rl::cuda {
namespace {

using kernels::CtcLengths;

constexpr const char* header = "kernels/cuda/device/ctc.cuh";

KernelTemplate forwards(header), backwards(header);

// The lengths, in the device's memory, and the rest of the arguments.
class Ctc {
 public:
  Ctc(const Context& context, const View& log_probs, const View& labels, const CtcLengths& lengths,
      const View& alpha)
      : memory_(static_cast<size_t>(log_probs.sizes[1]) * 16, context.device.index) {
    int64_t batch = log_probs.sizes[1], *at = memory_.get<int64_t>();
    upload(context, at, lengths.inputs.data(), static_cast<size_t>(batch) * 8);
    upload(context, at + batch, lengths.targets.data(), static_cast<size_t>(batch) * 8);
    args = {strided_as_is(log_probs, "ctc_loss"),
            strided_as_is(labels, "ctc_loss"),
            strided_as_is(alpha, "ctc_loss"),
            at,
            at + batch,
            lengths.blank,
            faults(context.device.index, "ctc_loss")};
  }
  CtcArgs args;

 private:
  Scratch memory_;
};

CUfunction kernel_of(KernelTemplate& kernel, const char* name, DType dtype, int device) {
  check_implemented(dtype == DType::Float32 || dtype == DType::Float64,
                    "ctc_loss: not implemented on CUDA for dtype ", dtype);
  return kernel.get(static_cast<uint64_t>(dtype), device, "ctc_loss",
                    [&] { return instance(name, dtype); });
}

}  // namespace

void ctc_loss(const Context& context, const View& log_probs, const View& labels,
              const CtcLengths& lengths, const View& loss, const View& alpha) {
  int device = context.device.index;
  use(device);
  CUfunction f = kernel_of(forwards, "ctc_forward", log_probs.dtype, device);
  if (!loss.numel) return;
  Ctc ctc(context, log_probs, labels, lengths, alpha);
  launch_kernel(f, device, "ctc_loss", blocks_of_rows(loss.numel), Grid{block_threads}, 0, ctc.args,
                loss.data, loss.strides[0]);
}
void ctc_loss_backward(const Context& context, const View& grad, const View& log_probs,
                       const View& labels, const CtcLengths& lengths, const View& loss,
                       const View& alpha, const View& out) {
  int device = context.device.index;
  use(device);
  CUfunction f = kernel_of(backwards, "ctc_backward", log_probs.dtype, device);
  if (!out.numel) return;
  Ctc ctc(context, log_probs, labels, lengths, alpha);
  int64_t item = itemsize(log_probs.dtype);
  Scratch rows(static_cast<size_t>(loss.numel * 2 * alpha.sizes[2] * item), device);
  launch_kernel(f, device, "ctc_loss_backward", blocks_of_rows(loss.numel), Grid{block_threads}, 0,
                ctc.args, strided_as_is(grad, "ctc_loss"), strided_as_is(loss, "ctc_loss"),
                strided_as_is(out, "ctc_loss"), rows.get());
}

}  // namespace rl::cuda
