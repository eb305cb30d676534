#include "autograd/saved_tensor.h"

#include "autograd/inplace.h"
#include "core/text_stream.h"

namespace rl {

std::unique_ptr<PackedTensor> (*pack_saved)(const Tensor& t) = nullptr;

void SavedTensor::save(const Tensor& t, bool is_output) {
  if (defined()) release();
  if (!t.defined()) return;
  const TensorImpl* impl = t.impl();
  check(!impl->inference,
        "Inference tensors cannot be saved for backward. Make it under no_grad() instead of "
        "inference_mode(), or use its clone().");
  is_output_ = is_output;
  output_nr_ = impl->output_nr;
  if (__builtin_expect((mode() & SavedHooks) && pack_saved && !impl->wrapped_number, 0)) {
    needs_history_ = is_output ? is_differentiable(impl->dtype) : requires_grad(t);
    GradModeGuard unrecorded(false);
    packed_ = pack_saved(is_output ? alias(t) : t);  // an output with its node would be a cycle
    if (packed_) {
      if (needs_history_ && !is_output) packed_->history = gradient_edge(t);
      return;
    }
  }
  tensor_ = is_output ? alias(t) : t;
  needs_history_ = is_output && is_differentiable(impl->dtype);
  had_history_ = !is_output && impl->grad_fn;
  version_ = t.version();
  if (!impl->storage->saved) impl->storage->saved = true;
}

namespace {
Tensor with_history(const Tensor& data, const Edge& edge) {
  Tensor out = alias(data);
  out.impl()->grad_fn = edge.node;
  out.impl()->output_nr = edge.nr;
  return out;
}
}  // namespace

Tensor SavedTensor::unpack(const Node& owner) const {
  if (__builtin_expect(!tensor_.defined(), 0)) {
    if (!packed_) {
      owner.check_unreleased();
      return {};
    }
    Tensor data = packed_->unpack();
    if (!needs_history_ || !grad_enabled()) return data;
    return with_history(data, is_output_ ? saved_output_edge(owner, output_nr_) : packed_->history);
  }
  if (__builtin_expect(tensor_.version() != version_, 0)) fail_changed(owner);
  if (!grad_enabled()) return tensor_;
  if (__builtin_expect(had_history_ && !tensor_.impl()->grad_fn, 0)) fail_detached(owner);
  if (!needs_history_) return tensor_;
  return with_history(tensor_, saved_output_edge(owner, output_nr_));
}

void SavedTensor::replace_by(std::unique_ptr<PackedTensor> packed) {
  if (!is_output_ && requires_grad(tensor_)) {
    needs_history_ = true;
    packed->history = gradient_edge(tensor_);
  }
  packed_ = std::move(packed);
  tensor_ = Tensor();
}

bool SavedTensor::release() {
  const bool had_one = defined();
  tensor_ = Tensor();
  packed_.reset();
  return had_one;
}

namespace {

const char* tensor_type_name(DType t) {
  static const char* const names[dtype_count] = {
      "Bool", "Byte",     "Char",  "Short",  "Int",          "Long",
      "Half", "BFloat16", "Float", "Double", "ComplexFloat", "ComplexDouble"};
  return names[static_cast<int>(t)];
}

std::string by_whom(const char* op, SourceLocation where) {
  std::string line = describe(where);
  return line.empty() ? op : op + (" (" + line + ")");
}

// What to write instead of the in-place op.
std::string advice(const char* op) {
  std::string name = op;
  bool has_plain_form = name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_' &&
                        name != "copy_" && name != "fill_" && name != "zero_";
  if (!has_plain_form) return "Change a copy, `x.clone()`";
  name.pop_back();
  return "Make a new tensor instead, `x = x." + name + "(...)`, or change a copy, `x.clone()`";
}

}  // namespace

void SavedTensor::fail_detached(const Node& owner) const {
  fail(
      ErrorKind::Runtime, "Trying to use a saved tensor that has been detached in-place: of shape ",
      tensor_.sizes(), ", it was saved by ", by_whom(owner.op, owner.where),
      " with a history, by which gradients of gradients go, and detach_() has taken that away. Use "
      "`x = x.detach()` instead");
}

void SavedTensor::fail_changed(const Node& owner) const {
  const TensorImpl* impl = tensor_.impl();
  const Node* node = is_output_ ? &owner : static_cast<Node*>(impl->grad_fn.get());
  TextStream origin;
  if (node)
    origin << ", which is output " << (is_output_ ? output_nr_ : impl->output_nr) << " of "
           << node->name() << ",";
  const ChangeNote* change = impl->storage->last_change;
  fail(ErrorKind::Runtime,
       "one of the variables needed for gradient computation has been modified by an inplace "
       "operation: [torch.",
       tensor_type_name(impl->dtype), "Tensor ", impl->sizes, "]", origin.str(), " is at version ",
       tensor_.version(), "; expected version ", version_, " instead. It was saved by ",
       by_whom(owner.op, owner.where),
       change ? " and changed by " + by_whom(change->op, change->where) : "", ". ",
       advice(change ? change->op : ""),
       "; autograd.graph.allow_mutation_on_saved_tensors() keeps the old values.");
}

}  // namespace rl
