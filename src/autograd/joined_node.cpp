#include "autograd/joined_node.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/engine.h"
#include "autograd/geometry.h"
#include "autograd/meta.h"
#include "autograd/saved_tensor.h"

namespace rl {
namespace {

// An argument that was not given has an empty edge, a number none.
bool can_have_edge(const Tensor& t) {
  return !t.defined() || (is_differentiable(t.dtype()) && !t.impl()->wrapped_number);
}

Edge edge_of(const Tensor& t) {
  bool has_edge = t.defined() && is_differentiable(t.dtype()) && requires_grad(t);
  return has_edge ? gradient_edge(t) : Edge();
}

bool is_same(const Edge& a, const Edge& b) {
  return a.node.get() == b.node.get() && (!a.node || a.nr == b.nr);
}

// Where a gradient goes inside of a joined node: to a step, or to one of its own edges.
struct Target {
  int32_t step = -1, edge = -1;
};

class JoinedNode final : public Node {
 public:
  struct Step {
    Ref<Node> node;
    std::vector<Target> targets;  // of its edges
  };

  // `steps`: those that run first in backward stand first.
  JoinedNode(const char* op, const char* name, std::vector<Step> steps, std::vector<Edge> inputs,
             std::vector<Edge> roots)
      : Node(op, 0), steps_(std::move(steps)) {
    called = name;
    for (Edge& edge : inputs) edges.push_back(std::move(edge));
    for (const Edge& root : roots) roots_.push_back({step_of(root.node.get()), root.nr});
  }

  void apply(Gradients& grads, Gradients& results) override {
    std::vector<Gradients> sums(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) sums[i].resize(steps_[i].node->outputs.size());
    for (size_t i = 0; i < roots_.size(); ++i)
      if (grads[i].defined()) add(sums[roots_[i].step][roots_[i].nr], std::move(grads[i]));
    std::vector<uint32_t> skips = skipped_of_steps();
    for (size_t i = 0; i < steps_.size(); ++i) {
      Node& node = *steps_[i].node;
      Gradients found = call_node(node, std::move(sums[i]), skips[i]);
      for (size_t k = 0; k < found.size(); ++k) {
        const Target& to = steps_[i].targets[k];
        if (!found[k].defined() || (to.step < 0 && to.edge < 0)) continue;
        fit_gradient(node, k, found[k]);
        if (to.step >= 0) add(sums[size_t(to.step)][node.edges[k].nr], std::move(found[k]));
        else add(results[size_t(to.edge)], std::move(found[k]));
      }
    }
  }

  void release_saved() override {
    for (Step& step : steps_) {
      // A gradient of a gradient leads to what a step has saved, and so to other steps themselves.
      if (current_backward_runs(step.node.get())) continue;
      RunLock lock(*step.node);
      step.node->release_saved();
    }
  }

  void read_saved(SavedReader& reader) const override {
    for (const Step& step : steps_) reader.inner(step.node.get());
  }

 private:
  struct Root {
    size_t step;
    uint32_t nr;
  };

  size_t step_of(const Node* node) const {
    auto is_node = [node](const Step& step) { return step.node.get() == node; };
    return size_t(std::find_if(steps_.begin(), steps_.end(), is_node) - steps_.begin());
  }

  static void add(Tensor& sum, Tensor grad) {
    sum = sum.defined() ? engine_ops.add(sum, grad) : std::move(grad);
  }

  // What the steps need not compute, since the running backward does not need it.
  std::vector<uint32_t> skipped_of_steps() const {
    std::vector<uint32_t> skips(steps_.size(), 0);
    if (!skipped) return skips;
    std::vector<char> needed(steps_.size(), 0);
    for (size_t i = steps_.size(); i-- > 0;) {
      const std::vector<Target>& targets = steps_[i].targets;
      for (size_t k = 0; k < targets.size(); ++k) {
        const Target& to = targets[k];
        bool is_needed =
            to.step >= 0 ? needed[size_t(to.step)] : to.edge >= 0 && wants(size_t(to.edge));
        needed[i] = needed[i] || is_needed;
        if (!is_needed && k < 32) skips[i] |= uint32_t(1) << k;
      }
    }
    return skips;
  }

  std::vector<Step> steps_;
  std::vector<Root> roots_;  // what makes each output
};

// The nodes between results and inputs, as a search in depth finds them.
class Steps {
 public:
  Steps(uint64_t since, TensorPointers inputs, TensorPointers others) : since_(since) {
    for (const Tensor* t : inputs)
      if (can_have_edge(*t)) edges.push_back(edge_of(*t));
    for (const Edge& edge : edges)
      if (edge) ends_.insert(edge.node.get());
    for (const Tensor* t : others)
      if (Edge edge = edge_of(*t)) ends_.insert(edge.node.get());
  }

  bool is_step(const Node* node) const {
    return node->sequence > since_ && !node->is_accumulator() && !ends_.count(node);
  }

  void find(const Ref<Node>& root) {
    std::vector<Ref<Node>> ahead{root};
    while (!ahead.empty()) {
      Ref<Node> node = std::move(ahead.back());
      ahead.pop_back();
      if (!numbers_.try_emplace(node.get(), 0).second) continue;
      for (const Edge& edge : node->edges) {
        if (!edge) continue;
        if (is_step(edge.node.get())) ahead.push_back(edge.node);
        else number_of(edge);
      }
      nodes.push_back(std::move(node));
    }
  }

  std::vector<JoinedNode::Step> in_order() {
    std::sort(nodes.begin(), nodes.end(),
              [](const Ref<Node>& a, const Ref<Node>& b) { return a->sequence > b->sequence; });
    for (size_t i = 0; i < nodes.size(); ++i) numbers_[nodes[i].get()] = int32_t(i);
    std::vector<JoinedNode::Step> steps;
    for (const Ref<Node>& node : nodes) {
      std::vector<Target> targets;
      for (const Edge& edge : node->edges) {
        Target to;
        auto found = edge ? numbers_.find(edge.node.get()) : numbers_.end();
        if (found != numbers_.end()) to.step = found->second;
        else if (edge) to.edge = number_of(edge);
        targets.push_back(to);
      }
      steps.push_back({node, std::move(targets)});
    }
    return steps;
  }

  std::vector<Ref<Node>> nodes;
  std::vector<Edge> edges;  // of the inputs, and what else is met

 private:
  int32_t number_of(const Edge& edge) {
    for (size_t i = 0; i < edges.size(); ++i)
      if (is_same(edges[i], edge)) return int32_t(i);
    edges.push_back(edge);
    return int32_t(edges.size() - 1);
  }

  uint64_t since_;
  std::unordered_set<const Node*> ends_;  // what has made the inputs
  std::unordered_map<const Node*, int32_t> numbers_;
};

// Whether a step has saved that tensor, whose history then must stay what it is.
struct SavedFinder final : SavedReader {
  explicit SavedFinder(const Tensor& wanted) : wanted(wanted.impl()) {}
  void tensor(const char*, const SavedTensor& saved) override {
    found = found || saved.tensor().impl() == wanted;
  }
  void tensors(const char* name, const std::vector<SavedTensor>& saved) override {
    for (const SavedTensor& s : saved) tensor(name, s);
  }
  void value(const char*, SavedValue) override {}
  const TensorImpl* wanted;
  bool found = false;
};

bool is_saved(const Tensor& t, const std::vector<Ref<Node>>& nodes) {
  SavedFinder finder(t);
  for (const Ref<Node>& node : nodes) node->read_saved(finder);
  return finder.found;
}

Node* own_node(const Tensor& t) { return static_cast<Node*>(t.impl()->grad_fn.get()); }

struct Results {
  const Tensor* first;
  size_t count;
  const Tensor* begin() const { return first; }
  const Tensor* end() const { return first + count; }
};

// Does the edge lead to what has made `t`?
bool leads_to(const Edge& edge, const Tensor& t) {
  if (!t.defined() || !requires_grad(t)) return !edge;
  if (Node* node = grad_fn(t)) return edge.node.get() == node && edge.nr == t.impl()->output_nr;
  return edge && edge.node->is_accumulator() &&
         static_cast<AccumulateGrad*>(edge.node.get())->variable.is_same(t);
}

// Does one node do all of it, with the edges that are wanted? Numbers may have empty ones.
bool is_one(Results results, TensorPointers inputs) {
  const Node* node = nullptr;
  for (const Tensor& t : results) {
    const Node* own = t.defined() ? own_node(t) : nullptr;
    if (own && node && own != node) return false;
    if (own) node = own;
  }
  if (!node) return true;
  const bool has_number = std::any_of(inputs.begin(), inputs.end(), [](const Tensor* t) {
    return t->defined() && t->impl()->wrapped_number;
  });
  size_t i = 0;
  auto skip = [&] {
    while (i < node->edges.size() && !node->edges[i] && (has_number || !node->shows(i))) ++i;
  };
  for (const Tensor* t : inputs) {
    if (!can_have_edge(*t)) continue;
    if (i < node->edges.size() && !leads_to(node->edges[i], *t)) skip();
    if (i == node->edges.size() || !leads_to(node->edges[i], *t)) return false;
    ++i;
  }
  skip();
  return i == node->edges.size();
}

void name_nodes(Results results, uint64_t since, const char* name) {
  for (const Tensor& t : results)
    if (t.defined()) name_node(t, since, name);
}

}  // namespace

void name_node(const Tensor& t, uint64_t since, const char* name) {
  Node* node = own_node(t);
  if (node && node->sequence > since && !node->is_accumulator()) node->called = name;
}

void join_nodes(const Tensor* first, size_t count, uint64_t since, const char* name,
                TensorPointers inputs, TensorPointers others) {
  const Results results{first, count};
  if (is_one(results, inputs)) return name_nodes(results, since, name);
  TensorList joined;
  std::vector<Edge> roots;
  Steps steps(since, inputs, others);
  bool can_join = true;
  for (const Tensor& t : results) {
    Node* node = t.defined() ? own_node(t) : nullptr;
    if (!node || !steps.is_step(node)) continue;
    const TensorImpl* impl = t.impl();
    Node* of_base = impl->base ? static_cast<Node*>(impl->base->grad_fn.get()) : nullptr;
    // A view of an input shares its history.
    if (impl->base && !(of_base && steps.is_step(of_base))) can_join = false;
    joined.push_back(t);
    roots.push_back({Ref<Node>::share(node), impl->output_nr});
    steps.find(roots.back().node);
  }
  for (const Tensor& t : joined) can_join = can_join && !is_saved(t, steps.nodes);
  if (!can_join) return name_nodes({joined.data(), joined.size()}, since, name);
  if (roots.empty()) return;
  std::vector<JoinedNode::Step> in_order = steps.in_order();
  auto node = make_ref<JoinedNode>(roots[0].node->op, name, std::move(in_order),
                                   std::move(steps.edges), roots);
  uint32_t nr = 0;
  for (const Tensor& t : joined) set_history(without_base(t), node, nr++);
}

}  // namespace rl
