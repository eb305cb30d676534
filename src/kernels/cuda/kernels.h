// The kernels of this backend. Those that are missing leave their slot empty: a call raises an
// error that names the kernel and the device.
//
// For what fills the table alone: a file of kernels includes the headers of its own, so that a new
// kernel of another family does not compile it again. A definition of another type than its slot's
// is one that the linker does not find.
#pragma once
#include "kernels/backend.h"
#include "kernels/cuda/list.h"

namespace rl::cuda {

// Each has the type of its slot.
#define RL_DECLARE(name) std::remove_pointer_t<decltype(kernels::KernelTable::name)> name;
RL_CUDA_KERNELS(RL_DECLARE)
#undef RL_DECLARE

void fill_table(kernels::KernelTable& table);

}  // namespace rl::cuda
