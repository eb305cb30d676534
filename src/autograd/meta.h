// AutogradMeta: the rarely present autograd state of a tensor.
#pragma once
#include "autograd/node.h"

namespace rl {

struct AutogradMeta : MetaBase {
  Tensor grad;
  std::atomic<Node*> accumulator{nullptr};  // weak: the node owns the tensor
  std::vector<std::shared_ptr<TensorHook>> hooks;             // of a leaf
  std::vector<std::shared_ptr<TensorHook>> after_accumulate;  // register_post_accumulate_grad_hook
  void* python_hooks = nullptr;  // owned dict of the Python hooks of this tensor
  ~AutogradMeta() override;
};

AutogradMeta& meta(const Tensor& t);                 // created on first use
inline AutogradMeta* meta_or_null(const Tensor& t) { return static_cast<AutogradMeta*>(t.impl()->meta.get()); }
Tensor grad_of(const Tensor& t);
void set_grad(const Tensor& t, Tensor grad);
void add_tensor_hook(const Tensor& t, std::shared_ptr<TensorHook> hook);
void retain_grad(const Tensor& t);

// Drops what a leaf accumulates into; the node for `t` if it is a leaf that requires grad.
Ref<Node> accumulator(const Tensor& t);

}  // namespace rl
