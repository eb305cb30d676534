// One node for an op that is made of others, where torch has one.
#pragma once
#include "autograd/node.h"

namespace rl {

// Has the results come from one node of that name, in place of the nodes made after `since`, which
// it runs. Its edges are those of `inputs` that can have a gradient, in their order, then those of
// `others` that the results depend on. Results that are views of an input keep their own nodes, of
// which the last gets the name. `name` lives as long as the process.
void join_nodes(const TensorList& results, uint64_t since, const char* name,
                const std::vector<const Tensor*>& inputs,
                const std::vector<const Tensor*>& others = {});

}  // namespace rl
