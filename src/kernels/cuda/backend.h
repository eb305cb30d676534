// The CUDA backend: its kernels, by the names of ops/kernels.py, and how it is started.
#pragma once

namespace rl::cuda {

// Makes the device type CUDA start this backend when it is first asked for. `prepare` runs before
// that: it says where libraries may lie.
void install(void (*prepare)());

}  // namespace rl::cuda
