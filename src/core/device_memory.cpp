#include "core/device_memory.h"

#include <cstring>
#include <vector>

#include "core/error.h"

namespace rl {

const DeviceMemory* device_memory[device_types] = {};

const DeviceMemory& memory_of(Device device) {
  const DeviceMemory* memory = device_memory[static_cast<int>(device.type)];
  check(memory, "no backend is registered for device ", device);
  return *memory;
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (!bytes) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
  } else if (to_device.is_cpu() || to_device.type == from_device.type) {
    memory_of(from_device).copy(to, to_device, from, from_device, bytes);
  } else if (from_device.is_cpu()) {
    memory_of(to_device).copy(to, to_device, from, from_device, bytes);
  } else {  // two backends that do not know each other
    std::vector<char> host(bytes);
    memory_of(from_device).copy(host.data(), Device(), from, from_device, bytes);
    memory_of(to_device).copy(to, to_device, host.data(), Device(), bytes);
  }
}

}  // namespace rl
