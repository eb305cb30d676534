// A backward pass for many gradients of the same outputs at once.
#pragma once
#include "autograd/node.h"

namespace rl {

// How such a pass applies its nodes: the first dim of each gradient counts the batch.
struct GradientBatch {
  virtual ~GradientBatch() = default;
  // As Node::apply; the results fit the node's inputs.
  virtual void apply(Node& node, Gradients& grads, Gradients& results) = 0;
};

// Raised by `run_backward` before it has done anything: hooks and observers of the graph take one
// gradient at a time.
struct NotBatched {};

}  // namespace rl
