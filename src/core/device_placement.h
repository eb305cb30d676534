// Where a new tensor goes: a device that was asked for, checked and with its number.
#pragma once
#include "core/device.h"

namespace rl {

// Of a backend that starts when it is first asked for; null where there is none. `start` raises
// what is missing; `current` is the device that "cuda" without a number means.
struct BackendStart {
  void (*start)();
  int (*current)();
  int (*count)();
};
extern const BackendStart* backend_starts[device_types];

// The device that a tensor says it is on: the current one where a device has no number, and none
// for the CPU and meta, which are one device each. An error if tensors cannot be made there.
Device placed_elsewhere(Device device);
inline Device placed(Device device) {
  return device.is_cpu() || device.is_meta() ? Device{device.type} : placed_elsewhere(device);
}

// Whether copies between the host and a device may go on after the call that asked for them.
bool copies_may_wait();
class CopiesMayWait {
 public:
  explicit CopiesMayWait(bool may);
  ~CopiesMayWait();
  CopiesMayWait(const CopiesMayWait&) = delete;
  CopiesMayWait& operator=(const CopiesMayWait&) = delete;

 private:
  bool before_;
};

}  // namespace rl
