// Arguments of optimizers' steps, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

constexpr int slots_per_launch = 20;

struct UpdateSlot {
  void* arrays[5];
  int64_t end;  // of its elements among those of the launch
  double numbers[10];
};

struct UpdateSlots {
  int count = 0, rule = 0;
  int64_t total = 0;
  const float* scale = nullptr;      // gradients are divided by it, or null
  const float* found_inf = nullptr;  // nothing is done where it is not 0, or null
  UpdateSlot slots[slots_per_launch];
};

}  // namespace rl::cuda
