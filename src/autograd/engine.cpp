#include "autograd/engine.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "autograd/current_node.h"
#include "autograd/hooks.h"
#include "autograd/meta.h"
#include "autograd/new_stack.h"
#include "autograd/node_observer.h"
#include "autograd/node_streams.h"
#include "autograd/watched_sum.h"
#include "core/interpreter.h"
#include "tensor/physical_layout.h"

namespace rl {

EngineOps engine_ops;
Tensor (*watched_sum)(const Tensor& a, const Tensor& b) = nullptr;
bool anomaly_checks_nan = true;

bool is_exclusive(const Tensor& t) {
  const TensorImpl* impl = t.impl();
  const Storage* storage = impl->storage.get();
  if (impl->device.is_meta() || impl->sparse) return false;
  if (impl->refs.load(std::memory_order_acquire) != 1 || !storage->owned) return false;
  int32_t owners = 1;
  if (impl->base) {
    if (impl->base->refs.load(std::memory_order_acquire) != 1) return false;
    owners = 2;
  }
  return storage->refs.load(std::memory_order_acquire) == owners &&
         !has_internal_overlap(impl->sizes, impl->strides);
}

namespace {

// A cast leaves it to the engine to cast its gradient back.
bool takes_any_dtype(const Node& node, const Node& from) {
  return node.is_accumulator() && static_cast<const AccumulateGrad&>(node).takes_any_dtype &&
         from.name() != "ToCopyBackward0";
}

// Reduces, casts or refuses a gradient so that it fits output `nr` of `owner`.
void validate_grad(Tensor& grad, const Node& owner, size_t nr, const Node& from, size_t index) {
  const OutputMeta& want = owner.outputs[nr];
  const TensorImpl* impl = grad.impl();
  bool fits = impl->dtype == want.dtype && impl->sizes == want.sizes && impl->device == want.device;
  if (__builtin_expect(fits, 1)) return;
  auto refuse = [&](const auto&... conflict) {
    fail(ErrorKind::Runtime, "Function ", from.name(), " returned an invalid gradient at index ",
         index, " - ", conflict...);
  };
  // Of a class that dispatches, or for a batch: on meta, whatever device the elements are on.
  const bool on_meta = impl->device.is_meta() || want.device.is_meta();
  const bool dispatches = on_meta && (watched_sum || mode() & Batched);
  if (impl->device != want.device && !dispatches)
    refuse("expected device ", want.device, " but got ", impl->device);
  if (impl->sizes != want.sizes) {
    int64_t extra = grad.dim() - want.sizes.size();
    fits = extra >= 0;
    for (int64_t d = 0; fits && d < want.sizes.size(); ++d)
      fits = want.sizes[d] == 1 || want.sizes[d] == grad.sizes()[d + extra];
    if (fits) grad = engine_ops.sum_to(grad, want.sizes);
    else if (!fits_as_before(owner, grad))
      refuse("got ", grad.sizes(), " but expected shape compatible with ", want.sizes);
  }
  if (grad.dtype() != want.dtype && !takes_any_dtype(owner, from))
    grad = engine_ops.cast(grad, want.dtype);
}

std::string recorded_at(const Node& node) {
  std::string line = describe(node.where);
  return line.empty() ? "" : std::string(" It belongs to ") + node.op + " on " + line + ".";
}

using Addresses = SmallVector<const void*, 2>;
Addresses addresses(const Gradients& grads) {
  Addresses found;
  for (const Tensor& t : grads) found.push_back(t.defined() ? t.impl() : nullptr);
  return found;
}

// A lazy gradient, whose elements the node that it is for computes with its own.
bool is_computed_later(const Tensor& t) {
  Ref<ChannelsLastContents> contents = channels_last_contents(t);
  return contents && !contents->is_computed();
}

bool any_defined(const Gradients& grads) {
  return std::any_of(grads.begin(), grads.end(), [](const Tensor& t) { return t.defined(); });
}

bool runs_later(const Node* a, const Node* b) { return a->sequence < b->sequence; }

}  // namespace

// One backward pass. Its state of a node lies in the node itself, unless another pass (a nested
// one, or one of another thread) was there first: then in a table of its own.
struct GraphTask {
 public:
  GraphTask(bool keep_graph, bool create_graph, bool restricted, GradientBatch* batch)
      : keep_graph_(keep_graph),
        create_graph_(create_graph),
        restricted_(restricted),
        batch_(batch) {
    claimed_.reserve(256);
  }

  ~GraphTask() {
    if (left_ == claimed_.size()) return;
    for (Node* node : claimed_)  // not reached, for want of need or after an exception
      if (node->task.load(std::memory_order_relaxed) == this) clear(*node);
  }
  GraphTask(const GraphTask&) = delete;
  GraphTask& operator=(const GraphTask&) = delete;

  int64_t id() const { return id_; }
  bool is_restricted() const { return restricted_; }
  Node* visiting() const { return visiting_; }
  bool will_visit(Node* node) {
    if (node == visiting_) return true;
    if (node->task.load(std::memory_order_relaxed) == this) return node->state.needed;
    auto found = elsewhere_.find(node);
    return found != elsewhere_.end() && found->second.needed && found->second.dependencies > 0;
  }

  void at_end(std::function<void()> f) { at_end_.push_back(std::move(f)); }
  void end() {
    for (size_t i = 0; i < at_end_.size(); ++i) std::exchange(at_end_[i], nullptr)();
  }

  void request(const Edge& input, bool accumulate) {
    Capture capture{input.nr, -1, {}};
    if (input) {
      NodeState& s = claim(input.node.get());
      s.needed = true;
      if (accumulate) {
        s.needs_apply = true;  // of a computed tensor too, so that the hooks of its node are called
      } else {
        capture.next = s.capture;
        s.capture = static_cast<int32_t>(captures_.size());
      }
    }
    if (!accumulate) captures_.push_back(std::move(capture));
  }

  Tensor take_sum(const Node& node, size_t i) {
    if (streams_.used() || batch_) return {};  // the sum belongs to another stream, or is of many
    if (&node != visiting_ || create_graph_ || node.hook_lists || (mode() & Anomaly)) return {};
    const Edge& edge = node.edges[i];
    NodeState& s = state(edge.node.get());
    if (s.buffers.empty()) return {};
    Tensor& sum = s.buffers[edge.nr];
    bool ours = sum.defined() && is_exclusive(sum);
    return ours ? std::exchange(sum, Tensor()) : Tensor();
  }

  TensorList run(const std::vector<Edge>& roots, const TensorList& grads) {
    for (const Edge& root : roots) compute_dependencies(root.node.get());
    if (batch_ && (has_hooks_ || mode() & (Observed | Anomaly))) throw NotBatched{};
    for (size_t i = 0; i < roots.size(); ++i) {
      const auto& [node, nr] = roots[i];
      Tensor grad = grads[i];
      if (grad.defined() && !batch_) validate_grad(grad, *node, nr, *node, nr);
      accumulate(roots[i], std::move(grad));
    }
    Interruption interruption;
    for (uint32_t visited = 1; !ready_.empty(); ++visited) {
      if (visited % 16 == 0) interruption.poll();
      Node* node = ready_.front();
      std::pop_heap(ready_.begin(), ready_.end(), runs_later);
      ready_.pop_back();
      visit(*node);
    }
    if (streams_.used()) streams_.finish();
    TensorList captured;
    for (Capture& c : captures_) captured.push_back(std::move(c.grad));
    return captured;
  }

 private:
  struct Capture {
    uint32_t nr;
    int32_t next;  // another request at the same node, or -1
    Tensor grad;
  };
  struct Later {
    const void* gradient;  // its address, which alone is compared
    Ref<Node> by;
  };
  struct Frame {
    Node* node;
    NodeState* state;
    size_t next_edge;
  };

  NodeState& state(Node* node) {
    bool inside = node->task.load(std::memory_order_relaxed) == this;
    return inside ? node->state : elsewhere_.find(node)->second;
  }

  // The state of `node`, from now on kept by this task.
  NodeState& claim(Node* node) {
    if (node->task.load(std::memory_order_relaxed) == this) return node->state;
    if (!elsewhere_.empty()) {
      auto found = elsewhere_.find(node);
      if (found != elsewhere_.end()) return found->second;
    }
    GraphTask* nobody = nullptr;
    claimed_.push_back(node);  // first, as what is claimed must be cleared
    bool mine = replace_if_equal(node->task, nobody, this);
    if (!mine) claimed_.pop_back();
    NodeState& s = mine ? node->state : elsewhere_[node];
    s.needed = s.needs_apply = !restricted_;
    return s;
  }

  void clear(Node& node) {
    node.state = NodeState();
    node.task.store(nullptr, std::memory_order_release);
  }

  bool sees(const Node& node) const { return node.least_level <= level_; }

  // A gradient that comes to a hidden node goes no further.
  void push(Node* node, NodeState& s) {
    s.visited = true;
    if (node->hook_lists) has_hooks_ = true;
    if (!sees(*node)) s.needs_apply = false;
    path_.push_back({node, &s, sees(*node) ? 0 : node->edges.size()});
  }

  // Counts how many gradients each node below `root` waits for, and marks what leads to inputs.
  void compute_dependencies(Node* root) {
    NodeState& s = claim(root);
    ++s.dependencies;
    if (s.visited) return;
    push(root, s);
    while (!path_.empty()) {
      Frame& top = path_.back();
      if (top.next_edge == top.node->edges.size()) {
        NodeState& done = *top.state;
        path_.pop_back();
        done.needed = done.needed || done.needs_apply;
        if (!path_.empty() && done.needed) path_.back().state->needs_apply = true;
        continue;
      }
      Node* child = top.node->edges[top.next_edge++].node.get();
      if (!child) continue;
      NodeState& below = claim(child);
      ++below.dependencies;
      if (below.visited) {
        if (below.needed) top.state->needs_apply = true;
        continue;
      }
      push(child, below);
    }
  }

  // Adds a gradient to what has come to an output; after the last one the node is ready.
  void accumulate(const Edge& to, Tensor grad) {
    NodeState& s = state(to.node.get());
    if (!s.needed) return;
    if (streams_.used()) streams_.hand_over(grad, *to.node);
    if (grad.defined()) {
      if (s.buffers.empty()) s.buffers.resize(to.node->outputs.size());
      Tensor& sum = s.buffers[to.nr];
      if (!sum.defined()) sum = std::move(grad);
      else add(sum, std::move(grad), *to.node);
    }
    if (--s.dependencies > 0) return;
    ready_.push_back(to.node.get());
    std::push_heap(ready_.begin(), ready_.end(), runs_later);
  }

  void add(Tensor& sum, Tensor grad, const Node& to) {
    BackwardStreams::Scope on_its_stream(streams_, to);
    if (sums_are_watched(sum, grad)) {
      if (Tensor seen = watched_sum(sum, grad); seen.defined()) {
        sum = std::move(seen);
        return;
      }
    }
    if (!create_graph_ && !is_exclusive(sum) && is_exclusive(grad)) std::swap(sum, grad);
    if (!create_graph_ && is_exclusive(sum)) engine_ops.add_in_place(sum, grad);
    else sum = engine_ops.add(sum, grad);
  }

  void visit(Node& node) {
    if (__builtin_expect(!(mode() & Profiled), 1)) return visit_unobserved(node);
    names_ = &observed_names(node);
    NodeObserver observer(EventKind::Visit, node, names_);
    visit_unobserved(node);
  }

  void visit_unobserved(Node& node) {
    BackwardStreams::Scope on_its_stream(streams_, node);
    visiting_ = &node;
    NodeState& s = state(&node);
    Gradients grads = std::move(s.buffers);
    int32_t capture = s.capture;
    bool needs_apply = s.needs_apply;
    if (&s == &node.state) {
      clear(node);
      ++left_;
    }
    grads.resize(node.outputs.size());
    if (node.hook_lists || capture >= 0) make_writable(grads);
    if (node.hook_lists || node.is_accumulator()) run_tensor_hooks(node, grads);
    for (; capture >= 0; capture = captures_[capture].next) {
      captures_[capture].grad = grads[captures_[capture].nr];
      if (streams_.used()) streams_.hand_to_caller(captures_[capture].grad);
    }
    if (!needs_apply) return;
    if (node.hook_lists && !node.hook_lists->before.empty()) {
      run_node_hooks(node, node.hook_lists->before, grads, grads);
      for (size_t i = 0; i < grads.size(); ++i)
        if (grads[i].defined()) validate_grad(grads[i], node, i, node, i);
    }
    Gradients results(node.edges.size());
    if (node.hook_lists && !node.hook_lists->after.empty()) {
      apply_hooked(node, grads, results);
    } else {
      apply(node, grads, results, !keep_graph_);
    }
    grads.clear();  // so that a gradient passed on unchanged has one owner
    if (!batch_) validate(node, results);
    for (size_t i = 0; i < results.size(); ++i)
      if (const Edge& edge = node.edges[i]) accumulate(edge, std::move(results[i]));
  }

  static void validate(const Node& node, Gradients& results) {
    for (size_t i = 0; i < results.size(); ++i)
      if (node.edges[i] && results[i].defined()) fit_gradient(node, i, results[i]);
  }

  // Hooks see what `next_functions` shows.
  static void run_hooks_after(Node& node, Gradients& results, const Gradients& grads) {
    Gradients shown;
    for (size_t i = 0; i < results.size(); ++i)
      if (node.shows(i)) shown.push_back(results[i]);
    run_node_hooks(node, node.hook_lists->after, shown, grads);
    for (size_t i = 0, from = 0; i < results.size(); ++i)
      if (node.shows(i)) results[i] = std::move(shown[from++]);
  }

  // Hooks see gradients that fit, may call backward through the node again, and leave it whole if
  // they raise.
  void apply_hooked(Node& node, Gradients& grads, Gradients& results) {
    Gradients shown = grads;  // to hooks: nobody reuses their memory
    apply(node, grads, results, false);
    validate(node, results);
    run_hooks_after(node, results, grads);
    if (keep_graph_) return;
    RunLock lock(node);
    node.release_saved();
  }

  void apply(Node& node, Gradients& grads, Gradients& results, bool releases) {
    bool runs = any_defined(grads) || node.runs_without_gradient();
    uint32_t skipped = 0;
    if (restricted_)
      for (size_t i = 0; i < node.edges.size() && i < 32; ++i)
        if (node.edges[i] && !state(node.edges[i].node.get()).needed) skipped |= uint32_t(1) << i;
    RunLock lock(node);
    if (runs) {
      node.skipped = skipped;
      // Whoever does not see the node does not see what its gradients are made of either.
      LeastLevel hidden(std::max(node.least_level, thread_state().levels.least));
      if (__builtin_expect(batch_ != nullptr, 0)) batch_->apply(node, grads, results);
      else if (__builtin_expect(mode() & (Observed | Anomaly), 0))
        apply_watched(node, grads, results);
      else node.apply(grads, results);
    }
    if (releases) node.release_saved();
  }

  static void apply_trapped(Node& node, Gradients& grads, Gradients& results) {
    const Addresses given = addresses(grads);
    const bool stay_finite = engine_ops.stays_finite(node, grads);
    {
      InsideNode inside;
      node.apply(grads, results);
    }
    engine_ops.check_gradients(node, given, results, stay_finite);
  }

  void apply_watched(Node& node, Gradients& grads, Gradients& results) {
    NodeObserver observer(EventKind::Apply, node, mode() & Profiled ? names_ : nullptr);
    if (mode() & Trapped) apply_trapped(node, grads, results);
    else if (mode() & Anomaly) apply_checked(node, grads, results);
    else node.apply(grads, results);
  }

  void apply_checked(Node& node, Gradients& grads, Gradients& results) {
    const Addresses given = addresses(grads);
    const bool stay_finite = anomaly_checks_nan && engine_ops.stays_finite(node, grads);
    try {
      node.apply(grads, results);
    } catch (const Error& error) {
      throw Error(error.kind(), error.what() + recorded_at(node));
    }
    if (!anomaly_checks_nan || stay_finite) return;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined()) continue;
      if (is_computed_later(results[i]))
        later_.push_back({results[i].impl(), Ref<Node>::share(&node)});
      else if (engine_ops.has_nan(results[i]))
        fail(ErrorKind::Runtime, "Function '", node.name(), "' returned nan values in its ", i,
             "th output.", recorded_at(node), computed_with(given));
    }
  }

  // Of a gradient that was computed together with those of the node that it was given to.
  std::string computed_with(const Addresses& given) const {
    for (auto made = later_.rbegin(); made != later_.rend(); ++made)
      if (std::find(given.begin(), given.end(), made->gradient) != given.end())
        return " They may begin in what it was given, which was computed with them, by '" +
               made->by->name() + "'." + recorded_at(*made->by);
    return "";
  }

  bool keep_graph_, create_graph_, restricted_;
  bool has_hooks_ = false;  // does a node that is reached?
  GradientBatch* batch_;
  const uint32_t level_ = thread_state().levels.seeing;
  static inline std::atomic<int64_t> next_id_{0};
  const int64_t id_ = next_id_.fetch_add(1, std::memory_order_relaxed);
  BackwardStreams streams_;
  Node* visiting_ = nullptr;
  const ObservedNames* names_ = nullptr;  // of the node that is visited, in a profile
  size_t left_ = 0;                       // claimed nodes that have been visited
  std::vector<Node*> claimed_;
  std::unordered_map<Node*, NodeState> elsewhere_;
  std::vector<Capture> captures_;
  std::vector<Later> later_;  // in anomaly mode
  std::vector<Frame> path_;
  std::vector<Node*> ready_;  // heap, latest first
  std::vector<std::function<void()>> at_end_;
};

namespace {

constexpr uint32_t stack_depth = 48;   // nested passes on one stack
constexpr uint32_t max_depth = 20000;  // and in all

struct DepthGuard {
  uint32_t& depth = thread_state().backward_depth;
  DepthGuard() { ++depth; }
  ~DepthGuard() { --depth; }
};

// Makes a pass the innermost of this thread for a scope.
struct CurrentTask {
  void*& current = thread_state().backward_task;
  void* const outer = current;
  explicit CurrentTask(GraphTask* task) { current = task; }
  ~CurrentTask() { current = outer; }
};

}  // namespace

TensorList run_backward(const TensorList& roots, const TensorList& grads, bool keep_graph,
                        bool create_graph, const std::vector<Edge>& inputs, bool accumulate,
                        GradientBatch* batch) {
  check(roots.size() == grads.size(), "backward: ", roots.size(), " tensors but ", grads.size(),
        " gradients");
  uint32_t nested = thread_state().backward_depth;
  check(nested < max_depth, "backward: ", nested, " backward passes run inside of each other");
  if (nested % stack_depth == stack_depth - 1)
    return on_new_stack([&] {
      return run_backward(roots, grads, keep_graph, create_graph, inputs, accumulate, batch);
    });
  std::vector<Edge> edges;  // these hold the graph while it runs, whatever hooks do to the tensors
  for (size_t i = 0; i < roots.size(); ++i) {
    Edge edge = gradient_edge(roots[i]);
    check(static_cast<bool>(edge), "element ", i,
          " of tensors does not require grad and does not have a grad_fn");
    edges.push_back(std::move(edge));
  }
  DepthGuard depth;
  GradModeGuard recording(create_graph);
  LeastLevel outside_no_grad(thread_state().levels.least_outside);
  ModeGuard inside(InBackward, 0);
  observer::Scope event(EventKind::Backward, "autograd::engine::run_backward");
  GraphTask task(keep_graph, create_graph, !inputs.empty(), batch);
  for (const Edge& input : inputs) task.request(input, accumulate);
  CurrentTask current(&task);
  TensorList found = task.run(edges, grads);
  task.end();
  return found;
}

void fit_gradient(const Node& node, size_t i, Tensor& grad) {
  const Edge& edge = node.edges[i];
  validate_grad(grad, *edge.node, edge.nr, node, i);
}

Gradients call_node(Node& node, Gradients grads, uint32_t skipped) {
  check_type(grads.size() == node.outputs.size(), node.name(), ": expected ", node.outputs.size(),
             " arguments, got ", grads.size(), " instead: a gradient, or None, for each output");
  for (size_t i = 0; i < grads.size(); ++i)
    if (grads[i].defined()) validate_grad(grads[i], node, i, node, i);
  CurrentTask none(nullptr);
  ModeGuard inside(InBackward, 0);
  Gradients results(node.edges.size());
  RunLock lock(node);
  node.skipped = skipped;
  if (any_defined(grads) || node.runs_without_gradient()) node.apply(grads, results);
  return results;
}

Tensor accumulated_gradient(const Node& node, size_t i) {
  auto* task = static_cast<GraphTask*>(thread_state().backward_task);
  return task ? task->take_sum(node, i) : Tensor();
}

int64_t current_backward() {
  auto* task = static_cast<GraphTask*>(thread_state().backward_task);
  return task ? task->id() : -1;
}

Node* current_node() {
  auto* task = static_cast<GraphTask*>(thread_state().backward_task);
  return task ? task->visiting() : nullptr;
}

bool current_backward_is_restricted() {
  auto* task = static_cast<GraphTask*>(thread_state().backward_task);
  return task && task->is_restricted();
}

void after_current_backward(std::function<void()> f) {
  auto* task = static_cast<GraphTask*>(thread_state().backward_task);
  check(task != nullptr, "Final callbacks can only be installed during backward pass.");
  task->at_end(std::move(f));
}

bool current_backward_runs(Node* node) {
  auto* task = static_cast<GraphTask*>(thread_state().backward_task);
  return task && task->will_visit(node);
}

}  // namespace rl
