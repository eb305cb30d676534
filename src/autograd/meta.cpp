#include "autograd/meta.h"

#include <mutex>
#include <unordered_set>
#include <utility>

#include "autograd/engine.h"
#include "autograd/inplace.h"
#include "autograd/watched_sum.h"
#include "core/after_fork.h"
#include "core/fork_mutex.h"
#include "tensor/output_layout.h"

namespace rl {

void (*gradient_got_history)(const Tensor& t) = nullptr;
void (*hold_hooked_leaf)(TensorImpl* leaf) = nullptr;

// Keeps the gradient that arrives at a non-leaf. The graph owns it, the tensor may die before.
class RetainGrad : public TensorHook {
 public:
  explicit RetainGrad(AutogradMeta* owner) : owner_(owner) {}

  Tensor call(const Tensor& grad) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!owner_ || !grad.defined()) return {};
    Tensor& sum = owner_->grad;
    sum = sum.defined() ? engine_ops.add(sum, grad) : engine_ops.clone(grad);
    return {};
  }
  void forget_owner() {
    std::lock_guard<std::mutex> lock(mutex_);
    owner_ = nullptr;
  }

 private:
  std::mutex mutex_;
  AutogradMeta* owner_;
};

namespace {

// Takes the accumulator pointer out for a moment, which locks out everyone else, and puts back
// `node`. Only so can a reader count up a node, or the gradient, that another thread is about to
// let go. A fork may find it out: what is left then is an odd number of that time, and the node is
// lost to the child.
class AccumulatorLock {
 public:
  explicit AccumulatorLock(std::atomic<Node*>& slot) : slot_(slot) {
    if (!threads_share) {
      node = slot_.load(std::memory_order_relaxed);
      if (is_number(node)) node = nullptr;
      return;
    }
    Node* const taken = reinterpret_cast<Node*>(2 * fork_count() + 1);
    while ((node = slot_.exchange(taken, std::memory_order_acquire)) == taken) {}
    if (is_number(node)) node = nullptr;
  }
  ~AccumulatorLock() { slot_.store(node, std::memory_order_release); }
  AccumulatorLock(const AccumulatorLock&) = delete;
  AccumulatorLock& operator=(const AccumulatorLock&) = delete;

  Node* node;

 private:
  static bool is_number(Node* node) { return reinterpret_cast<uintptr_t>(node) & 1; }
  std::atomic<Node*>& slot_;
};

}  // namespace

static void discard_parked(Node* node) {
  if (!node) return;
  count(CountedNodes, 1);  // parked nodes are not counted
  delete static_cast<AccumulateGrad*>(node);
}

// A gradient may have a gradient, and so on for a million tensors: those that die while another is
// let go wait in a list instead of on the stack. It is linked by the addresses of their elements,
// which nobody asks for any more: to let something go takes no memory.
static void release_operands(Tensor grad) {
  static __thread void** waiting = nullptr;  // the first of them
  if (waiting) {
    if (grad.impl()->refs.load(std::memory_order_acquire) != 1) return;
    grad.impl()->data = std::exchange(*waiting, grad.impl());
    grad.ref().release();
    return;
  }
  void* first = nullptr;
  waiting = &first;
  grad = Tensor();
  while (first) {
    Ref<TensorImpl> next = Ref<TensorImpl>::adopt(static_cast<TensorImpl*>(first));
    first = next->data;
  }
  waiting = nullptr;
}

AutogradMeta::~AutogradMeta() {
  if (grad.defined()) release_operands(std::move(grad));
  if (retained) retained->forget_owner();
  discard_parked(
      AccumulatorLock(accumulator).node);  // one in use would keep its leaf, and so this, alive
}

AutogradMeta& meta(const Tensor& t) {
  std::unique_ptr<MetaBase>& slot = t.impl()->meta;
  if (!slot) {
    static ForkMutex creation(
        ForkRank::Autograd);  // a parameter may be met first by several threads
    ForkLock lock(creation);
    if (!slot) slot = std::make_unique<AutogradMeta>();
  }
  return static_cast<AutogradMeta&>(*slot);
}

Tensor grad_of(const Tensor& t) {
  AutogradMeta* m = meta_or_null(t);
  if (!m) return {};
  AccumulatorLock lock(m->accumulator);
  return m->grad;
}

void set_grad(const Tensor& t, Tensor grad) {
  if (!grad.defined() && !t.impl()->meta) return;
  AutogradMeta& m = meta(t);
  AccumulatorLock lock(m.accumulator);
  std::swap(m.grad.ref(), grad.ref());
}

std::optional<DType> grad_dtype(const Tensor& t) {
  AutogradMeta* m = meta_or_null(t);
  return m && m->has_grad_dtype ? m->grad_dtype : t.dtype();
}

void set_grad_dtype(const Tensor& t, std::optional<DType> dtype) {
  AutogradMeta& m = meta(t);
  m.has_grad_dtype = true;
  m.grad_dtype = dtype;
  AccumulatorLock lock(m.accumulator);
  auto* known = static_cast<AccumulateGrad*>(lock.node);
  if (known && !known->parked()) known->take_dtype();
}

bool gradient_has_history(const Tensor& t) {
  if (!t.impl()->meta) return false;
  Tensor grad = grad_of(t);
  return grad.defined() && grad.impl()->grad_fn;
}

void add_tensor_hook(const Tensor& t, std::shared_ptr<TensorHook> hook) {
  check(requires_grad(t), "cannot register a hook on a tensor that doesn't require gradient");
  if (Node* node = grad_fn(t))
    node->hooks().tensor.push_back({t.impl()->output_nr, std::move(hook)});
  else meta(t).hooks.push_back(std::move(hook));
}

void retain_grad(const Tensor& t) {
  check(requires_grad(t), "can't retain_grad on Tensor that has requires_grad=False");
  Node* node = grad_fn(t);
  if (!node || t.impl()->retains_grad) return;
  AutogradMeta& m = meta(t);
  m.retained = std::make_shared<RetainGrad>(&m);
  node->hooks().retain.push_back({t.impl()->output_nr, m.retained});
  t.impl()->retains_grad = true;
}

void move_retained_grad(TensorImpl* t, Node* from, uint32_t from_nr) {
  if (!t->retains_grad || !from) return;
  std::shared_ptr<RetainGrad>& hook = static_cast<AutogradMeta*>(t->meta.get())->retained;
  auto& old = from->hooks().retain;
  for (size_t i = 0; i < old.size(); ++i)
    if (old[i].hook == hook && old[i].nr == from_nr) {
      old.erase(old.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
  static_cast<Node*>(t->grad_fn.get())->hooks().retain.push_back({t->output_nr, hook});
}

namespace {

// A gradient lies in memory as its dense variable does, so that optimizers meet equal strides; that
// of a variable with gaps or overlap is contiguous.
bool same_layout(const Tensor& grad, const Tensor& variable) {
  if (grad.impl()->standard_strides && variable.impl()->standard_strides) return true;
  if (!is_dense(variable.sizes(), variable.strides())) return grad.is_contiguous();
  for (int64_t d = 0; d < grad.dim(); ++d) {
    bool same =
        grad.sizes()[d] == 1 ? grad.strides()[d] != 0 : grad.strides()[d] == variable.strides()[d];
    if (!same) return false;
  }
  return true;
}

// Uninitialised, as the gradient of `variable` is to lie.
Tensor empty_gradient(const Tensor& variable) {
  return is_dense(variable.sizes(), variable.strides())
             ? empty_like(variable)
             : empty(variable.sizes(), options(variable));
}

}  // namespace

static Ref<Node> accumulator_of(const Tensor& t, AutogradMeta& m) {
  for (;;) {
    AccumulatorLock lock(m.accumulator);
    if (!lock.node) {
      Ref<Node> fresh = Ref<Node>::adopt(new AccumulateGrad(t));
      lock.node = fresh.get();
      return fresh;
    }
    auto* known = static_cast<AccumulateGrad*>(lock.node);
    if (known->parked()) {
      known->outputs[0] = {t.sizes(), t.dtype(), t.device()};  // may throw
      known->variable = t;
      if (m.has_grad_dtype) known->take_dtype();
      known->refs.store(1, std::memory_order_relaxed);
      count(CountedNodes, 1);
      return Ref<Node>::adopt(known);
    }
    if (Ref<Node> node = share_if_alive(known)) return node;
    // another thread is about to park it
  }
}

Ref<Node> accumulator(const Tensor& t) {
  AutogradMeta& m = meta(t);
  Ref<Node> node = accumulator_of(t, m);
  if ((!m.hooks.empty() || !m.after_accumulate.empty()) && hold_hooked_leaf)
    hold_hooked_leaf(t.impl());
  return node;
}

void forget_accumulator(const Tensor& t) {
  AccumulatorLock lock(meta(t).accumulator);
  auto* known = static_cast<AccumulateGrad*>(std::exchange(lock.node, nullptr));
  if (known && known->parked()) discard_parked(known);
}

void reshape_accumulator(const Tensor& t) {
  AutogradMeta* m = meta_or_null(t);
  if (!m) return;
  AccumulatorLock lock(m->accumulator);
  auto* known = static_cast<AccumulateGrad*>(lock.node);
  if (!known || known->parked() || known->outputs[0].sizes == t.sizes()) return;
  known->outputs[0].sizes = t.sizes();
  known->reshaped = true;
}

// A view of other sizes that are the same but for dims of one element, or undefined.
static Tensor with_other_ones(const Tensor& t, IntSpan sizes) {
  auto others = [](IntSpan all) {
    Dims kept;
    for (int64_t size : all)
      if (size != 1) kept.push_back(size);
    return kept;
  };
  Dims strides;
  if (others(t.sizes()) != others(sizes) || !view_strides(t, sizes, strides)) return {};
  return view_ops.as_strided(t, sizes, strides, t.offset());
}

bool fits_as_before(const Node& owner, Tensor& grad) {
  if (!owner.is_accumulator() || !static_cast<const AccumulateGrad&>(owner).reshaped) return false;
  Tensor seen = with_other_ones(grad, owner.outputs[0].sizes);
  if (seen.defined()) grad = seen;
  return seen.defined();
}

AccumulateGrad::AccumulateGrad(Tensor leaf) : Node("accumulate_grad"), variable(std::move(leaf)) {
  sequence = UINT64_MAX;  // runs as soon as it can: its gradient need not wait in memory
  least_level = 0;
  outputs[0] = {variable.sizes(), variable.dtype(), variable.device()};
  take_dtype();
}

void AccumulateGrad::take_dtype() {
  std::optional<DType> dtype = grad_dtype(variable);
  outputs[0].dtype = dtype.value_or(variable.dtype());
  takes_any_dtype = !dtype;
}

void AccumulateGrad::destroy() {
  Tensor leaf;  // may die on return, and this node with it
  std::unique_ptr<NodeHooks> hooks;
  {
    AccumulatorLock lock(meta(variable).accumulator);
    if (lock.node == this) {
      leaf = std::move(variable);
      hooks = std::move(hook_lists);
      count(CountedNodes, -1);
      return;
    }
  }
  Node::destroy();
}

bool AccumulateGrad::runs_without_gradient() const {
  return !meta(variable).after_accumulate.empty();
}

void AccumulateGrad::apply(Gradients& grads, Gradients&) {
  check(!grads[0].defined() || !grad_fn(variable),
        "leaf variable has been moved into the graph interior: since the forward pass, a tensor of "
        "shape ",
        variable.sizes(), " that was a leaf in it was changed in place and recorded");
  if (!variable.impl()->requires_grad) return;  // since the forward pass: detach_(), frozen
  if (grads[0].defined()) add(grads[0]);
  // A hook may remove itself.
  std::vector<std::shared_ptr<TensorHook>> hooks = meta(variable).after_accumulate;
  for (const auto& hook : hooks) hook->call(variable);
}

void AccumulateGrad::add(Tensor& incoming) {
  Tensor known = grad_of(variable), seen;
  if (known.defined() && known.sizes() != incoming.sizes()) {  // from before a change in place
    Tensor fitting = with_other_ones(known, incoming.sizes());
    if (fitting.defined()) set_grad(variable, known = fitting);
  }
  if (sums_are_watched(incoming, known))
    seen = known.defined() ? watched_sum(known, incoming) : watched_sum(incoming, Tensor());
  if (seen.defined()) {
    set_grad(variable, seen);
  } else if (grad_enabled()) {
    set_grad(variable,
             known.defined() ? engine_ops.add(known, incoming) : engine_ops.clone(incoming));
    try {
      if (gradient_got_history && gradient_has_history(variable)) gradient_got_history(variable);
    } catch (...) {  // nobody would look for a cycle
      set_grad(variable, known);
      throw;
    }
  } else if (known.defined()) {
    // A sparse gradient has no room for a dense one.
    if (known.is_sparse() && !incoming.is_sparse())
      set_grad(variable, engine_ops.add(known, incoming));
    else engine_ops.add_in_place(known, incoming);
  } else if (incoming.is_meta() || variable.is_meta() || incoming.is_sparse() ||
             incoming.dtype() != variable.dtype()) {
    set_grad(variable, engine_ops.clone(incoming));
  } else if (is_exclusive(incoming) && same_layout(incoming, variable)) {
    TensorImpl* impl = incoming.impl();
    impl->base = nullptr;
    impl->view_rule = nullptr;
    impl->grad_fn = nullptr;
    impl->requires_grad = false;
    set_grad(variable, incoming);
  } else {
    Tensor copy = empty_gradient(variable);
    view_ops.copy(copy, incoming);
    set_grad(variable, std::move(copy));
  }
}

TensorList leaves_of(const std::vector<Edge>& roots, uint32_t level) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> ahead;
  auto look_at = [&](const Edge& edge) {
    if (edge && edge.node->least_level <= level && seen.insert(edge.node.get()).second)
      ahead.push_back(edge.node.get());
  };
  for (const Edge& root : roots) look_at(root);
  TensorList leaves;
  while (!ahead.empty()) {
    const Node* node = ahead.back();
    ahead.pop_back();
    if (node->is_accumulator())
      leaves.push_back(static_cast<const AccumulateGrad*>(node)->variable);
    for (const Edge& edge : node->edges) look_at(edge);
  }
  return leaves;
}

}  // namespace rl
