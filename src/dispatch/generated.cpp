#include "dispatch/generated.h"

#include "impl_create.h"
#include "kernels/copy_hints.h"
#include "launch_copy.h"
#include "ops_create.h"
#include "ops_shape.h"

namespace rl {
namespace {

struct NotDifferentiable final : Node {
  NotDifferentiable(const char* op, const char* reason) : Node(op), reason(reason) {}
  void apply(Gradients&, Gradients&) override {
    fail(ErrorKind::Runtime, "derivative for ", op, " is not implemented: ", reason);
  }
  const char* reason;
};

// Of an op whose result does not change with its input.
struct Constant final : Node {
  explicit Constant(const char* op) : Node(op) {}
  void apply(Gradients&, Gradients& results) override {
    results[0] = ops::zeros(outputs[0].sizes, outputs[0].dtype, {}, outputs[0].device);
  }
};

}  // namespace

void fail_same_device(const char* op, const char* a_name, Device a, const char* b_name, Device b) {
  fail(ErrorKind::Runtime, op, ": expected all tensors to be on the same device, but ", a_name,
       " is on ", a, " and ", b_name, " on ", b);
}

Tensor clone_unrecorded(const Tensor& t) {
  Tensor copy = empty_like(t);
  launch::copy(t, copy);
  return copy;
}

Tensor clone_before_change(const Tensor& t) {
  Tensor copy = clone_unrecorded(t);
  Edge history = gradient_edge(t);
  copy.impl()->grad_fn = history.node;
  copy.impl()->output_nr = history.nr;
  return copy;
}

Tensor saved_copy_if_overlapping(const Tensor& t, const Tensor& changed) {
  return t.defined() && t.impl()->storage == changed.impl()->storage ? clone_before_change(t) : t;
}

namespace {
Ref<Node> not_differentiable(const char* op, const char* reason, const TensorList& inputs) {
  Ref<Node> node = make_ref<NotDifferentiable>(op, reason);
  for (const Tensor& t : inputs)
    if (t.defined()) node->add_input(t);
  return node;
}
}  // namespace

void refuse_gradient(const Tensor& changed, const char* op, const char* reason,
                     const TensorList& inputs) {
  if (is_differentiable(changed.dtype()))
    rebase_history(changed, not_differentiable(op, reason, inputs));
}
void stop_gradient(const Tensor& changed, const char* op) {
  if (!is_differentiable(changed.dtype())) return;
  Ref<Node> node = make_ref<Constant>(op);
  node->add_input(changed);
  rebase_history(changed, node);
}

Tensor materialize(const Tensor& grad, const OutputMeta& like) {
  return grad.defined() ? grad : ops::zeros(like.sizes, like.dtype, {}, like.device);
}

TensorList materialize_all(const Gradients& grads, const SmallVector<OutputMeta, 1>& like) {
  TensorList all;
  for (size_t i = 0; i < grads.size(); ++i) {
    bool missing = !grads[i].defined();  // one zero, seen many times: these are copied anyway
    Tensor zero = missing ? ops::zeros(Dims(), like[i].dtype, {}, like[i].device) : Tensor();
    all.push_back(missing ? ops::expand(zero, like[i].sizes) : grads[i]);
  }
  return all;
}

TensorList unpack_all(const std::vector<SavedTensor>& saved, const Node& owner) {
  TensorList all;
  for (const SavedTensor& s : saved) all.push_back(s.defined() ? s.unpack(owner) : Tensor());
  return all;
}

void save_all(std::vector<SavedTensor>& saved, const TensorList& tensors, bool is_output) {
  saved.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined()) saved[i].save(tensors[i], is_output);
}

void put_all(Gradients& results, size_t from, const TensorList& grads) {
  for (size_t i = 0; i < grads.size(); ++i) results[from + i] = grads[i];
}

TensorList make_views(const Tensor& of, TensorList views) {
  for (Tensor& v : views) v = make_view(of, std::move(v));
  return views;
}

// A view has the node of its base's last change, which is not the op's.
Tensor without_gradient(Tensor result, const char* op, const char* reason,
                        const TensorList& inputs) {
  if (is_differentiable(result.dtype()))
    set_history(result, not_differentiable(op, reason, inputs));
  return result;
}

TensorList without_gradient(TensorList results, const char* op, const char* reason,
                            const TensorList& inputs) {
  for (Tensor& t : results) t = without_gradient(std::move(t), op, reason, inputs);
  return results;
}

namespace {
constexpr const char* invert_advice =
    "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.";
}  // namespace

void fail_negation() {
  fail(ErrorKind::Runtime, "Negation, the `-` operator, on a bool tensor is not supported. ",
       invert_advice);
}
void fail_subtraction(bool both) {
  if (both)
    fail(ErrorKind::Runtime,
         "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
         "`logical_xor()` operator instead.");
  fail(ErrorKind::Runtime, "Subtraction, the `-` operator, with a bool tensor is not supported. ",
       invert_advice);
}

static void check_fits(const Tensor& target, const Tensor& result, const char* op) {
  check(result.sizes() == target.sizes(), op, ": the result has shape ", result.sizes(),
        ", the tensor to change has ", target.sizes());
  check(can_cast(result.dtype(), target.dtype()), op, ": result type ", result.dtype(),
        " can't be cast to the desired output type ", target.dtype());
}

void replace(const Tensor& target, const Tensor& result, const char* op) {
  check_fits(target, result, op);
  ops::copy_(target, result);
}

Tensor copy_unless(const Tensor& out, const Tensor& input) {
  if (out.defined()) return out;
  kernels::CopyToChange hint;
  return impl::clone(input);
}

Tensor contiguous_copy_unless(const Tensor& out, const Tensor& input) {
  if (out.defined()) return out;
  kernels::CopyToChange hint;
  return impl::clone(input, MemoryFormat::Contiguous);
}

Tensor empty_unless(const Tensor& out, const Tensor& input, DType dtype) {
  return out.defined() && out.dtype() == dtype ? out : empty_like(input, dtype);
}

Tensor written_to(const Tensor& out, const Tensor& result, const char* op) {
  if (!out.defined() || out.impl() == result.impl()) return result;
  // Truth values of uint8 tensors are uint8, and fit into bool: prepare_out has asked.
  if (out.dtype() != DType::Bool || result.dtype() != DType::UInt8) check_fits(out, result, op);
  launch::copy(result, out);
  return out;
}

Tensor copy_if_overlapping(const Tensor& t, const Tensor& changed) {
  bool shared = t.defined() && memory_overlap(t, changed) != Overlap::None;
  return shared ? clone_unrecorded(t) : t;
}

TensorList copy_if_overlapping(TensorList tensors, const Tensor& changed) {
  for (Tensor& t : tensors) t = copy_if_overlapping(t, changed);
  return tensors;
}

Tensor copy_if_overlapping(const Tensor& t, const TensorList& changed) {
  Tensor apart = t;
  for (const Tensor& c : changed) apart = copy_if_overlapping(apart, c);
  return apart;
}

Tensor converted(const Tensor& t, std::optional<DType> dtype) {
  return dtype && *dtype != t.dtype() ? impl::to_dtype(t, dtype) : t;
}

}  // namespace rl
