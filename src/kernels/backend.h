// The backends: who runs kernels for the tensors of a device.
//
// A backend fills a KernelTable, and a DeviceMemory (core/device_memory.h) for the bytes, and
// registers both. A slot that it leaves empty raises an error that names the kernel and the device.
// The meta device has neither: shapes are worked out before a launch, which then does nothing.
#pragma once
#include "core/device_memory.h"
#include "kernels/table.h"

namespace rl::kernels {

extern const KernelTable cpu_kernels;

// What a launch on the device finds from then on.
void set_kernels(DeviceType type, const KernelTable& kernels);

// Both must outlive every tensor of the device.
void register_backend(DeviceType type, const KernelTable& kernels, const DeviceMemory& memory);

}  // namespace rl::kernels
