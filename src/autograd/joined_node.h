// One node for an op that is made of others, where torch has one.
#pragma once
#include "autograd/node.h"

namespace rl {

// Tensors where others keep them.
struct TensorPointers {
  const Tensor* const* first;
  size_t count;
  const Tensor* const* begin() const { return first; }
  const Tensor* const* end() const { return first + count; }
};

// The node of `t`, if it was made after `since`, is shown under a name of its own.
void name_node(const Tensor& t, uint64_t since, const char* name);

// Has the results come from one node of that name, in place of the nodes made after `since`, which
// it runs. Its edges are those of `inputs` that can have a gradient, in their order, then those of
// `others` that the results depend on. Results that are views of an input keep their own nodes, of
// which the last gets the name. `name` lives as long as the process.
void join_nodes(const Tensor* results, size_t count, uint64_t since, const char* name,
                TensorPointers inputs, TensorPointers others);

}  // namespace rl
