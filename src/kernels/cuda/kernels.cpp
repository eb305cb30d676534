#include "kernels/cuda/kernels.h"

namespace rl::cuda {

void fill_table(kernels::KernelTable& table) {
#define RL_FILL(name) table.name = name;
  RL_CUDA_KERNELS(RL_FILL)
#undef RL_FILL
}

}  // namespace rl::cuda
