#include "autograd/hooks.h"

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "autograd/watched_sum.h"

namespace rl {
namespace {

void replace(Tensor& grad, Tensor by, const Node& node) {
  if (!by.defined()) return;
  check(grad.defined(), "a hook of ", node.name(),
        " can't replace a None gradient with a non-None value");
  check(by.dtype() == grad.dtype() && by.device() == grad.device(), "a hook of ", node.name(),
        " has changed the type of value (was ", grad.dtype(), " on ", grad.device(), ", got ",
        by.dtype(), " on ", by.device(), ")");
  check(by.sizes() == grad.sizes(), "a hook of ", node.name(),
        " has changed the size of value (was ", grad.sizes(), ", got ", by.sizes(), ")");
  grad = std::move(by);
}

}  // namespace

void make_writable(Gradients& grads) {
  for (Tensor& grad : grads) {
    if (!grad.defined() || grad.impl()->repeats ||
        !has_internal_overlap(grad.sizes(), grad.strides()))
      continue;
    Tensor copy = sums_are_watched(grad, Tensor()) ? watched_sum(grad, Tensor()) : Tensor();
    grad = copy.defined() ? copy : engine_ops.clone(grad);
  }
}

// Both functions copy a list before they run it: a hook may add or remove hooks.
void run_tensor_hooks(Node& node, Gradients& grads) {
  if (node.is_accumulator()) {
    auto hooks = meta(static_cast<AccumulateGrad&>(node).variable).hooks;
    if (!hooks.empty()) make_writable(grads);
    for (const auto& hook : hooks) replace(grads[0], hook->call(grads[0]), node);
  }
  if (!node.hook_lists) return;
  for (auto list : {&NodeHooks::tensor, &NodeHooks::retain}) {
    std::vector<NodeHooks::OnOutput> hooks = node.hook_lists.get()->*list;
    for (const auto& [nr, hook] : hooks) replace(grads[nr], hook->call(grads[nr]), node);
  }
}

void run_node_hooks(const Node& node, const std::vector<std::shared_ptr<NodeHook>>& list,
                    Gradients& changed, const Gradients& grad_outputs) {
  auto hooks = list;
  for (const auto& hook : hooks) {
    size_t count = changed.size();
    hook->call(changed, grad_outputs);
    check(changed.size() == count, "a hook of ", node.name(),
          " has changed the number of gradients from ", count, " to ", changed.size());
  }
}

}  // namespace rl
