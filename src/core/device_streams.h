// The queues of work that a device has, for those who know no device: the backward pass runs each
// node on the stream of its forward.
#pragma once
#include <atomic>

#include "core/device.h"

namespace rl {

struct DeviceStreams {
  void* (*current)(Device device);
  void (*set_current)(Device device, void* stream);
  void (*wait)(Device device, void* waiting, void* other);  // for what `other` was given so far
  void (*keep)(Device device, void* memory, void* stream);  // the stream uses the memory too
};

// Null until the program makes another stream than the default one current: until then there is
// nothing to remember.
inline std::atomic<const DeviceStreams*> device_streams{nullptr};

}  // namespace rl
