// AutogradMeta: the rarely present autograd state of a tensor.
#pragma once
#include <optional>

#include "autograd/node.h"

namespace rl {

class RetainGrad;

struct AutogradMeta : MetaBase {
  Tensor grad;
  bool has_grad_dtype = false;  // else it is that of the tensor
  std::optional<DType> grad_dtype;
  std::atomic<Node*> accumulator{nullptr};         // not counted; see AccumulateGrad. Also
                                                   // the lock of itself and of `grad`
  std::shared_ptr<RetainGrad> retained;            // retain_grad of a non-leaf
  std::vector<std::shared_ptr<TensorHook>> hooks;  // of a leaf
  std::vector<std::shared_ptr<TensorHook>> after_accumulate;  // register_post_accumulate_grad_hook
  TensorImpl* next = nullptr;                                 // in a list of the garbage collector
  ~AutogradMeta() override;
};

AutogradMeta& meta(const Tensor& t);  // created on first use
inline AutogradMeta* meta_or_null(const Tensor& t) {
  return static_cast<AutogradMeta*>(t.impl()->meta.get());
}
Tensor grad_of(const Tensor& t);
void set_grad(const Tensor& t, Tensor grad);
// The dtype that gradients of a leaf are cast to, by default its own; none if any may come.
std::optional<DType> grad_dtype(const Tensor& t);
void set_grad_dtype(const Tensor& t, std::optional<DType> dtype);
void add_tensor_hook(const Tensor& t, std::shared_ptr<TensorHook> hook);
void retain_grad(const Tensor& t);
// Whether the gradient of `t` has a history, which may lead back to `t`.
bool gradient_has_history(const Tensor& t);
// Called where backward has left such a gradient; installed by bind/.
extern void (*gradient_got_history)(const Tensor& t);
// Called where the graph comes to own a count of a leaf that has hooks; installed by bind/.
extern void (*hold_hooked_leaf)(TensorImpl* leaf);
// After the producer of `t` changed from `from` to its present one.
void move_retained_grad(TensorImpl* t, Node* from, uint32_t from_nr);

// Where the gradients of a leaf end: adds them to its `grad`. While a graph refers to it, it owns
// its leaf; when the last graph lets go, the leaf keeps it for the next one (`parked`), because
// making one costs as much as a small op.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(Tensor leaf);
  void destroy() override;
  bool parked() const { return !variable.defined(); }
  void apply(Gradients& grads, Gradients& results) override;
  bool runs_without_gradient() const override;  // hooks after accumulation are called even so
  std::string name() const override { return "torch::autograd::AccumulateGrad"; }
  bool is_accumulator() const override { return true; }

  void take_dtype();  // of gradients, from the leaf

  Tensor variable;  // undefined while parked
  bool takes_any_dtype = false;
  bool reshaped = false;  // see reshape_accumulator

 private:
  void add(Tensor& incoming);
};

// The one node that accumulates into the leaf `t`.
Ref<Node> accumulator(const Tensor& t);
// The leaves that gradients of the roots come to, in passes of a level (DerivativeLevels).
TensorList leaves_of(const std::vector<Edge>& roots, uint32_t level);
// After `.data` was replaced by data of another shape or dtype: the next use makes a new
// accumulator.
void forget_accumulator(const Tensor& t);
// After a leaf was given another shape in place, unrecorded: gradients are to have its present
// shape. Those that a graph brings which knew the former one are seen so, where dims of one element
// are all the difference, and else are refused.
void reshape_accumulator(const Tensor& t);
// Whether `owner` is the accumulator of such a leaf and `grad` one that can be seen so; then it is.
bool fits_as_before(const Node& owner, Tensor& grad);

}  // namespace rl
