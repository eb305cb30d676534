#include "autograd/inplace.h"

#include <cstring>

#include "autograd/engine.h"
#include "autograd/geometry.h"
#include "autograd/meta.h"
#include "autograd/saved_tensor.h"
#include "core/fork_mutex.h"
#include "core/interpreter.h"
#include "tensor/lazy_view.h"

namespace rl {

ViewOps view_ops;
void (*tensor_got_own_history)(TensorImpl* t) = nullptr;

namespace {

// A window given by geometry, its offset counted from that of the tensor it looks at.
struct Window {
  Dims sizes, strides;
  int64_t offset;

  Window(const TensorImpl* view, const TensorImpl* of)
      : sizes(view->sizes), strides(view->strides), offset(view->offset - of->offset) {}
  Tensor on(const Tensor& t) const {
    return view_ops.as_strided(t, sizes, strides, t.offset() + offset);
  }
};

struct WindowRule : ViewRule {
  Window window;
  WindowRule(const TensorImpl* view, const TensorImpl* of) : window(view, of) {}
  Tensor replay(const Tensor& base) const override { return window.on(base); }
};

struct ChainRule : ViewRule {
  Ref<ViewRule> first, second;
  ChainRule(Ref<ViewRule> a, Ref<ViewRule> b) : first(std::move(a)), second(std::move(b)) {}
  Tensor replay(const Tensor& base) const override { return second->replay(first->replay(base)); }
};

Ref<ViewRule> window_rule(const TensorImpl* view, const TensorImpl* of) {
  return make_ref<WindowRule>(view, of);
}

// Producer of a view whose own was overtaken by an in-place op.
class AsStrided final : public Node {
 public:
  AsStrided(const TensorImpl* view, const TensorImpl* base)
      : Node("as_strided"),
        base_{base->sizes, base->dtype, base->device},
        base_strides_(base->strides),
        base_offset_(base->offset),
        sizes_(view->sizes),
        strides_(view->strides),
        offset_(view->offset) {}

  void apply(Gradients& grads, Gradients& results) override {
    results[0] = view_ops.as_strided_backward(grads[0], base_, base_strides_, base_offset_, sizes_,
                                              strides_, offset_);
  }

 private:
  OutputMeta base_;
  Dims base_strides_;
  int64_t base_offset_;
  Dims sizes_, strides_;
  int64_t offset_;
};

// Producer of a base after an in-place op on a view of it: the gradient of the window goes through
// the op's node, the rest passes unchanged.
class CopySlices final : public Node {
 public:
  // The first edge leads to the base's former producer, the rest are of the op's other inputs.
  CopySlices(const Tensor& view, const Tensor& base, Ref<Node> op_node)
      : Node("copy_slices"),
        base_{base.sizes(), base.dtype(), base.device()},
        base_strides_(base.strides()),
        window_(view.impl(), base.impl()),
        rule_(view.impl()->view_rule),
        inner_(std::move(op_node)) {
    const Edge* first = inner_->edges.begin();
    uses_view_ = !inner_->edges.empty() && first->node.get() == view.impl()->grad_fn.get() &&
                 (!first->node || first->nr == view.impl()->output_nr);
    inner_->inside = this;
    add_input(base);
    for (size_t i = uses_view_; i < inner_->edges.size(); ++i) edges.push_back(inner_->edges[i]);
  }

  ~CopySlices() override { inner_->inside = nullptr; }
  std::string name() const override { return "torch::autograd::CopySlices"; }
  void read_saved(SavedReader& reader) const override { reader.inner(inner_.get()); }

  void apply(Gradients& grads, Gradients& results) override {
    Tensor whole = whole_gradient(grads[0]);
    Tensor slice = view_of(whole);
    Gradients inner_grads(1), inner_results(inner_->edges.size());
    inner_grads[0] = view_ops.clone(slice);
    {
      RunLock lock(*inner_);
      inner_->skipped = uses_view_ ? skipped : skipped >> 1;
      inner_->apply(inner_grads, inner_results);
    }
    if (wants(0)) {
      if (uses_view_ && inner_results[0].defined()) view_ops.copy(slice, inner_results[0]);
      else view_ops.copy(slice, engine_ops.zeros({nullptr, 0}, options(slice)));
      results[0] = std::move(whole);
    }
    for (size_t i = 1; i < results.size(); ++i)
      results[i] = std::move(inner_results[uses_view_ ? i : i - 1]);
  }

  void release_saved() override {
    RunLock lock(*inner_);
    inner_->release_saved();
  }

  Edge view_edge() {
    Tensor whole = empty_strided(base_.sizes, base_strides_, {base_.dtype, base_.device});
    set_history(whole, Ref<Node>::share(this));
    return gradient_edge(view_of(whole));
  }

 private:
  Tensor view_of(const Tensor& whole) const {
    return rule_ ? rule_->replay(whole) : window_.on(whole);
  }

  // The gradient of the base in memory laid out like the base, free to be changed.
  Tensor whole_gradient(Tensor& grad) const {
    bool reusable = !grad_enabled() && !hook_lists && is_exclusive(grad);
    if (reusable && grad.strides() == base_strides_) return std::move(grad);
    Tensor whole = empty_strided(base_.sizes, base_strides_, {base_.dtype, base_.device});
    view_ops.copy(whole, grad);
    return whole;
  }

  OutputMeta base_;
  Dims base_strides_;
  Window window_;
  Ref<ViewRule> rule_;
  Ref<Node> inner_;
  bool uses_view_;  // the op's first input is the view it changes
};

const char* origin_name(ViewOrigin origin) {
  return origin == ViewOrigin::NoGradMode      ? "in no_grad mode"
         : origin == ViewOrigin::InferenceMode ? "in inference mode"
                                               : "inside a custom Function";
}

void check_origin(const TensorImpl* t, const char* op) {
  const char* where = origin_name(t->view_origin);
  switch (t->view_origin) {
    case ViewOrigin::Recorded: return;
    case ViewOrigin::NoGradMode:
    case ViewOrigin::InferenceMode:
      fail(ErrorKind::Runtime, "A view was created ", where,
           " and is being modified inplace with "
           "grad mode enabled (by ",
           op, "). Make and change it either both ", where, " or both outside.");
    case ViewOrigin::CustomFunction:
      fail(ErrorKind::Runtime, "This view was created ", where,
           " (or because an input was returned "
           "as-is) and is being modified inplace (by ",
           op,
           "), which would bypass the Function's "
           "backward. Return a clone() from its forward.");
  }
}

// Held while the producer of a view is rebuilt: threads that do no more than read the view may all
// find it stale. Where the interpreter has a lock of its own that serves, and must, as Python code
// may run meanwhile.
class ViewLock {
 public:
  ViewLock() {
    if (interpreter_has_lock || rebuilding) return;
    mutex().lock();
    rebuilding = locked_ = true;
  }
  ~ViewLock() {
    if (!locked_) return;
    rebuilding = false;
    mutex().unlock();
  }
  ViewLock(const ViewLock&) = delete;
  ViewLock& operator=(const ViewLock&) = delete;

 private:
  static ForkMutex& mutex() {
    static auto* instance = new ForkMutex(ForkRank::Views);
    return *instance;
  }
  static __thread bool rebuilding;  // by this thread
  bool locked_ = false;
};
__thread bool ViewLock::rebuilding = false;

bool is_stale(const TensorImpl* view) {
  return __atomic_load_n(&view->view_version, __ATOMIC_ACQUIRE) !=
         view->storage->version.load(std::memory_order_relaxed);
}

// Before `t` gets another producer: if nodes have kept it, or the one that accumulates into it
// lives, its new history may lead back to it.
void note_own_history(TensorImpl* t) {
  if (t->in_own_history || !(t->storage->saved || t->meta)) return;
  t->in_own_history = true;
  if (tensor_got_own_history) tensor_got_own_history(t);
}

// Rebuilds the producer of a view from that of its base.
void regenerate(TensorImpl* view) {
  Tensor base(view->base);
  const auto* of_base = static_cast<const Node*>(base.impl()->grad_fn.get());
  LeastLevel as_base(of_base ? of_base->least_level : 0);
  Ref<NodeBase> old = view->grad_fn;
  uint32_t old_nr = view->output_nr;
  note_own_history(view);
  if (view->view_rule) {
    ModeGuard recording(0, NoGrad | Inference);
    Tensor replayed = view->view_rule->replay(base);
    view->grad_fn = replayed.impl()->grad_fn;
    view->output_nr = replayed.impl()->output_nr;
    __atomic_store_n(&view->view_version, base.version(), __ATOMIC_RELEASE);
  } else {
    Ref<Node> node = make_ref<AsStrided>(view, base.impl());
    node->add_input(base);
    set_history(Tensor(Ref<TensorImpl>::share(view)), node);
  }
  move_retained_grad(view, static_cast<Node*>(old.get()), old_nr);
}

}  // namespace

Edge saved_output_edge(const Node& owner, uint32_t nr) {
  if (owner.inside) return static_cast<CopySlices*>(owner.inside)->view_edge();
  return {Ref<Node>::share(const_cast<Node*>(&owner)), nr};
}

Node* view_grad_fn(TensorImpl* view) {
  const TensorImpl* base = view->base.get();
  if (is_stale(view) && base->is_volatile) {
    ViewLock lock;
    view->is_volatile = true;
    view->grad_fn = nullptr;
    return nullptr;
  }
  if (is_stale(view) && is_differentiable(view->dtype) && requires_grad(Tensor(view->base))) {
    ViewLock lock;
    if (!is_stale(view)) return static_cast<Node*>(view->grad_fn.get());
    if (view->view_origin == ViewOrigin::Recorded) {
      regenerate(view);
    } else {
      // Its values now come from an op that its own history does not know. A base that is still a
      // leaf was changed unrecorded, which leaves the view the leaf it was.
      check(!base->grad_fn, "A view was created ", origin_name(view->view_origin),
            " and its base or another view of its base has been modified inplace with grad mode "
            "enabled: its gradient is not defined. Make the view again after the change.");
      view->view_version = view->storage->version.load(std::memory_order_relaxed);
    }
  }
  return static_cast<Node*>(view->grad_fn.get());
}

Tensor make_view(const Tensor& of, Tensor view, Ref<ViewRule> rule) {
  const TensorImpl* from = of.impl();
  TensorImpl* to = view.impl();
  if (from->inference) return view;
  if (rule || from->view_rule) {
    Ref<ViewRule> last = rule ? std::move(rule) : window_rule(to, from);
    Ref<ViewRule> first = from->view_rule;
    if (!first && from->base) first = window_rule(from, from->base.get());
    if (first) last = make_ref<ChainRule>(std::move(first), std::move(last));
    to->view_rule = std::move(last);
  }
  to->base = from->base ? from->base : of.ref();
  uint32_t now = mode();
  to->view_origin = now & Inference ? ViewOrigin::InferenceMode
                    : now & NoGrad  ? ViewOrigin::NoGradMode
                                    : from->view_origin;
  to->view_version = view.version();
  return view;
}

namespace {

// Backward passes of some levels would have to see the tensor as it was, others as it becomes.
void check_levels(const Tensor& t, const char* op) {
  const DerivativeLevels& levels = thread_state().levels;
  if (levels.least <= levels.current || levels.current < 2) return;
  const Node* node = grad_fn(t);
  check(!node || node->least_level > levels.current, op,
        ": inside no_grad() and several transforms of func, a tensor that depends on their inputs "
        "is changed in place, and they would differ in its derivatives; use an operation that is "
        "not in place");
}

void check_history(const Tensor& t, const char* op, bool recorded) {
  const TensorImpl* impl = t.impl();
  check(!impl->inference || (mode() & Inference),
        "Inplace update to inference tensor outside InferenceMode is not allowed (", op,
        "): change its clone().");
  if (mode() & (NoGrad | Inference))
    return;  // the rules hold where a volatile input stops recording
  bool needs_grad = requires_grad(t);
  if (!needs_grad && !recorded) return;
  if (impl->base) {
    check_origin(impl, op);
    // A view may remember more than its base, of which detach_() and requires_grad_(False) make
    // a leaf.
    check(impl->base->grad_fn || !(impl->base->requires_grad || grad_fn(t)),
          "a view of a leaf Variable that requires grad is being used in an in-place operation: ",
          op, ". Change it inside no_grad(), or work on a clone().");
  }
  if (mode() & Pushing) check_levels(t, op);
  check(!needs_grad || grad_fn(t) || (impl->base && impl->base->grad_fn),
        "a leaf Variable that requires grad is being used in an in-place operation: ", op,
        ". Change it inside no_grad(), or work on a clone().");
}

// What sets all elements to one number may set one of them more than once.
bool only_sets(const char* op) { return !std::strcmp(op, "fill_") || !std::strcmp(op, "zero_"); }

}  // namespace

void check_in_place_geometry(const Tensor& t, const char* op) { check_history(t, op, false); }

Tensor without_base(Tensor view) {
  view.impl()->base = nullptr;
  view.impl()->view_rule = nullptr;
  return view;
}

void check_in_place(const Tensor& t, const char* op, bool recorded) {
  const TensorImpl* impl = t.impl();
  check(!impl->storage->read_only, op, ": the tensor's memory is read-only; change its clone()");
  check(!has_internal_overlap(impl->sizes, impl->strides) || only_sets(op),
        "unsupported operation: more than one element of the written-to tensor refers to a single "
        "memory location (",
        op, " on shape ", impl->sizes, " with strides ", impl->strides, "): change its clone().");
  check_history(t, op, recorded);
  if (__builtin_expect(impl->lazy, 0)) begin_lazy_write(t);
}

void check_not_captured(const Tensor& t, const char* op) {
  check(
      !(mode() & Transformed) || t.impl()->level >= thread_state().levels.counted(), op,
      ": During a grad (vjp, jvp, jacrev, ...) transform, the function attempted to call in-place "
      "operation ",
      op, " that would mutate a captured Tensor of shape ", t.sizes(),
      ". Pass it to the function as an argument, or use an operation that is not in place.");
}

void bump_version(const Tensor& t, const char* op) {
  if (__builtin_expect(t.impl()->lazy, 0)) end_lazy_write(t);
  if (t.impl()->inference) return;
  Storage* storage = t.storage().get();
  count_up(storage->version, 1u);
  if (!storage->saved) return;
  auto* note = new ChangeNote{op, source_here()};
  // Two threads may both be here.
  delete __atomic_exchange_n(&storage->last_change, note, __ATOMIC_ACQ_REL);
}

void rebase_history(const Tensor& t, const Ref<Node>& node, uint32_t nr) {
  TensorImpl* impl = t.impl();
  if (!is_differentiable(impl->dtype)) return;
  if (!impl->base) {
    Ref<NodeBase> old = impl->grad_fn;
    uint32_t old_nr = impl->output_nr;
    note_own_history(impl);
    set_history(t, node, nr);
    move_retained_grad(impl, static_cast<Node*>(old.get()), old_nr);
    return;
  }
  check_origin(impl, node->op);
  check(node->outputs.size() == 1, node->op,
        ": an op with several outputs cannot change a view in place");
  TensorImpl* base = impl->base.get();
  check(impl->view_rule || impl->offset >= base->offset, node->op,
        ": cannot record an in-place op on a view that reaches in front of its base");
  node->outputs[0] = {impl->sizes, impl->dtype, impl->device};
  Tensor whole(impl->base);
  rebase_history(whole, make_ref<CopySlices>(t, whole, node));
  regenerate(impl);
}

}  // namespace rl
