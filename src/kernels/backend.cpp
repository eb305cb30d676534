#include "kernels/backend.h"

namespace rl::kernels {

void register_backend(DeviceType type, const KernelTable& kernels, const DeviceMemory& memory) {
  set_kernels(type, kernels);
  device_memory[static_cast<int>(type)] = &memory;
}

}  // namespace rl::kernels
