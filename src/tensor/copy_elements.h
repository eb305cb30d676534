// How tensors' elements are brought into another order. dispatch/ installs the kernel, so that the
// core links without kernels; only they make tensors in physical layout.
#pragma once
#include "core/view.h"

namespace rl {
extern void (*copy_elements)(const View& from, const View& to);
}
