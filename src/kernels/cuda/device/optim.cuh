// Fused optimizers: the rules of the host, an element a thread, several tensors a launch.
#pragma once
#include "kernels/cuda/device/prelude.cuh"
#include "kernels/optim_rules.h"
#include "kernels/cuda/device/optim.h"

namespace rl::cuda {

template <class S, int arrays> __global__ void update_slots(UpdateSlots u) {
  using T = compute_t<S>;
  for (int64_t i = thread_id(); i < u.total; i += thread_count()) {
    int k = 0;
    while (i >= u.slots[k].end) ++k;
    const UpdateSlot& slot = u.slots[k];
    int64_t at = i - (k ? u.slots[k - 1].end : 0);
    T values[5];
    for (int j = 0; j < arrays; ++j)
      values[j] = static_cast<T>(static_cast<const S*>(slot.arrays[j])[at]);
    void* pointers[5] = {values, values + 1, values + 2, values + 3, values + 4};
    kernels::apply<T>(static_cast<kernels::OptimRule>(u.rule), 1, pointers, slot.numbers);
    for (int j = 0; j < arrays; ++j)
      if (j != 1) static_cast<S*>(slot.arrays[j])[at] = static_cast<S>(values[j]);
  }
}

}  // namespace rl::cuda
