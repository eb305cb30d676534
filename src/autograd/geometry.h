// A tensor's own sizes and strides, as apart from its elements.
#pragma once
#include "autograd/inplace.h"

namespace rl {

// As check_in_place, before a change of sizes and strides alone: it writes no element, so memory
// that is read-only or that several elements share does not matter.
void check_in_place_geometry(const Tensor& t, const char* op);

// What an op returns that computed elsewhere and looks at that as its result should be: a tensor
// by itself and not a view, for nobody else has what it is a view of.
Tensor without_base(Tensor view);

}  // namespace rl
