// How tensors' elements are brought into another order. dispatch/ installs the kernels, so that the
// core links without kernels; only they make tensors in physical layout, or on another device.
#pragma once
#include "core/view.h"

namespace rl {
extern void (*copy_elements)(const View& from, const View& to);
// Their conjugates, or their negatives, or both; on devices other than the CPU.
extern void (*change_elements)(const View& from, const View& to, bool conjugate, bool negative);
}  // namespace rl
