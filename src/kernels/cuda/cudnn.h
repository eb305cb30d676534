// Convolutions by cuDNN, where it is installed.
#pragma once
#include "kernels/context.h"
#include "kernels/conv.h"

namespace rl::cuda {

// A weight takes images to positions, as convolutions do. What is computed of the other two.
enum class ConvolutionOf { Positions, Images, Weight };

// Computes it and returns true; false where cuDNN is missing or has no engine for it, and the plain
// way has to.
bool cudnn_convolution(const kernels::Context& context, ConvolutionOf of, const View& images,
                       const View& positions, const View& weight, const kernels::ConvGeometry& g);

// torch.backends.cudnn's switches.
struct CudnnSwitches {
  bool enabled = true, benchmark = false, deterministic = false, allow_tf32 = true;
  int benchmark_limit = 10;
};
void set_cudnn_switches(const CudnnSwitches& switches);
// 0 where it is missing.
int64_t cudnn_version();

}  // namespace rl::cuda
