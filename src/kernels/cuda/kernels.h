// The kernels of this backend. Those that are missing leave their slot empty: a call raises an
// error that names the kernel and the device.
#pragma once
#include "kernels/backend.h"
#include "kernels/cuda/list.h"

namespace rl::cuda {

using kernels::Context;

// Each has the type of its slot.
#define RL_DECLARE(name) std::remove_pointer_t<decltype(kernels::KernelTable::name)> name;
RL_CUDA_KERNELS(RL_DECLARE)
#undef RL_DECLARE

void fill_table(kernels::KernelTable& table);

}  // namespace rl::cuda
