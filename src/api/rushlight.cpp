#include "api/rushlight.h"

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "core/generator.h"
#include "dispatch/install.h"
#include "program/archive.h"

namespace rushlight {

void initialize() {
  static const bool done = (rl::install_ops(), true);
  (void)done;
}

void manual_seed(uint64_t seed) {
  rl::Generator& generator = rl::default_generator();
  std::lock_guard<std::mutex> lock(generator.mutex);
  generator.manual_seed(seed);
}

const Tensor& set_requires_grad(const Tensor& t, bool value) {
  initialize();
  rl::check(t.is_leaf(), "requires_grad: only of leaves, which are not computed from others");
  rl::check(!value || rl::is_differentiable(t.dtype()), "requires_grad: a tensor of dtype ",
            t.dtype(), " has no gradient");
  t.impl()->requires_grad = value;
  return t;
}
Tensor& set_requires_grad(Tensor& t, bool value) {
  set_requires_grad(static_cast<const Tensor&>(t), value);
  return t;
}

void backward(const Tensor& root, const Tensor& gradient, bool retain_graph) {
  initialize();
  rl::check(root.requires_grad(), "backward: the tensor has no history of gradients");
  Tensor weight = gradient;
  if (!weight.defined()) {
    rl::check(root.numel() == 1, "backward: a tensor of shape ", root.sizes(),
              " needs a gradient of that shape");
    weight = ones_like(detach(root));
  }
  rl::run_backward({root}, {weight}, retain_graph, false, {}, true);
}

Tensor grad(const Tensor& leaf) { return rl::grad_of(leaf); }
void set_grad(const Tensor& leaf, const Tensor& value) { rl::set_grad(leaf, value); }
void zero_grad(const Tensor& leaf) { rl::set_grad(leaf, Tensor()); }

void save(const NamedTensors& tensors, const std::string& path) {
  initialize();
  rl::program::write_safetensors(path, {tensors.begin(), tensors.end()});
}

NamedTensors load(const std::string& path) {
  initialize();
  auto found = rl::program::read_safetensors(path);
  return {found.begin(), found.end()};
}

}  // namespace rushlight
