// Calls of the hooks that sit on tensors and nodes, with checks of what they return.
#pragma once
#include "autograd/node.h"

namespace rl {

// Copies of gradients that are one number seen many times: whoever is shown them may change them.
// Not of those that are so in torch too.
void make_writable(Gradients& grads);

// Tensor hooks in the order of registration, then those of retain_grad, on the gradients of the
// node's outputs.
void run_tensor_hooks(Node& node, Gradients& grads);

void run_node_hooks(const Node& node, const std::vector<std::shared_ptr<NodeHook>>& list,
                    Gradients& changed, const Gradients& grad_outputs);

}  // namespace rl
