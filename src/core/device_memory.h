// Where the bytes of a device come from and how they move: what a backend provides to Storage. The
// CPU's are those of core/allocator.h; a meta tensor has none.
#pragma once
#include <cstddef>

#include "core/allocator.h"
#include "core/device.h"

namespace rl {

struct DeviceMemory {
  // OutOfMemory error on failure. `bytes` may be 0.
  void* (*allocate)(size_t bytes, Device device);
  void (*deallocate)(void* data, size_t bytes, Device device);
  // Between this device and the host, or within this device. A host side may be used on return.
  void (*copy)(void* to, Device to_device, const void* from, Device from_device, size_t bytes);
};

// By DeviceType; null where no backend is registered.
extern const DeviceMemory* device_memory[device_types];

const DeviceMemory& memory_of(Device device);  // an error where no backend is registered

inline void* allocate_on(Device device, size_t bytes) {
  if (__builtin_expect(device.is_cpu(), 1)) return allocate(bytes);
  return memory_of(device).allocate(bytes, device);
}
inline void deallocate_on(Device device, void* data, size_t bytes) {
  if (__builtin_expect(device.is_cpu(), 1)) return deallocate(data, bytes);
  memory_of(device).deallocate(data, bytes, device);
}
// From any device to any other.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes);

}  // namespace rl
