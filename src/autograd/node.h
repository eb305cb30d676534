// Node: one recorded op of the graph. It turns gradients of the op's outputs into gradients of its
// inputs and holds an edge to the producer of each input.
#pragma once
#include <string>

#include "core/small_vector.h"
#include "core/trace.h"
#include "tensor/tensor.h"

namespace rl {

struct GraphTask;
class Node;

// Output `nr` of `node`: where a gradient goes. Without a node it goes nowhere.
struct Edge {
  Ref<Node> node;
  uint32_t nr = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

using Gradients = SmallVector<Tensor, 2>;  // undefined entries are zeros

// What a gradient for one output of the forward op must look like.
struct OutputMeta {
  Dims sizes;
  DType dtype = DType::Float32;
  Device device;
};

// Called with the gradient of one tensor; may return a replacement.
struct TensorHook {
  virtual ~TensorHook() = default;
  virtual Tensor call(const Tensor& grad) = 0;
};
// Called around a node's apply; may replace entries.
struct NodeHook {
  virtual ~NodeHook() = default;
  virtual void call(Gradients& grad_inputs, const Gradients& grad_outputs) = 0;
};
struct NodeHooks {
  struct OnOutput {
    uint32_t nr;
    std::shared_ptr<TensorHook> hook;
  };
  std::vector<OnOutput> tensor;   // tensor.register_hook, in order of registration
  std::vector<OnOutput> retain;   // retain_grad: after the tensor hooks
  std::vector<std::shared_ptr<NodeHook>> before;  // register_prehook (grad_inputs is grad_outputs)
  std::vector<std::shared_ptr<NodeHook>> after;   // register_hook
};

class Node : public NodeBase {
 public:
  explicit Node(const char* op, size_t outputs = 1);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // grads: one per output. results: sized to the number of edges by the engine.
  virtual void apply(Gradients& grads, Gradients& results) = 0;
  // Drops saved tensors: backward has consumed them.
  virtual void release_saved() {}
  virtual std::string name() const;            // "AddBackward0"
  virtual bool is_accumulator() const { return false; }
  // Visits saved tensors by name, for `grad_fn._saved_*` and the collector.
  void destroy() override;

  bool wants(size_t i) const { return static_cast<bool>(edges[i].node); }
  bool wants_any(size_t from, size_t count) const {
    for (size_t i = from; i < from + count; ++i)
      if (wants(i)) return true;
    return false;
  }
  void set_inputs(std::initializer_list<const Tensor*> inputs);
  void add_input(const Tensor& input);
  NodeHooks& hooks();
  void check_unreleased() const { if (released) fail_released(); }
  [[noreturn]] void fail_released() const;

  const char* op;                 // "add": static
  uint64_t sequence;              // later ops run first in backward
  SmallVector<Edge, 2> edges;
  SmallVector<OutputMeta, 1> outputs;
  std::unique_ptr<NodeHooks> hook_lists;
  SourceLocation where;           // the user's line
  void* python = nullptr;         // borrowed Python wrapper, belongs to bind/
  void* metadata = nullptr;       // owned Python dict, belongs to bind/
  bool released = false;

  // Engine state, valid while `task` runs this node.
  std::atomic<GraphTask*> task{nullptr};
  int32_t dependencies = 0;
  bool needed = false;
  Gradients buffers;

 protected:
  ~Node() override;
};

extern void (*release_node_metadata)(void* dict);  // installed by bind/
int64_t live_nodes();

// Any of these needs a gradient and recording is on?
inline bool records(const Tensor& t);

// The edge at which a gradient of `t` arrives: its grad_fn (regenerated for a stale view) or its accumulator.
Edge gradient_edge(const Tensor& t);
Node* grad_fn(const Tensor& t);       // nullptr for a leaf; up to date for views
bool requires_grad(const Tensor& t);  // also of a view whose base has come to require it

inline bool records(const Tensor& t) { return grad_enabled() && t.defined() && requires_grad(t); }
template <class... Rest>
inline bool records(const Tensor& t, const Rest&... rest) { return grad_enabled() && (records(t) || records(rest...)); }
inline bool records(const TensorList& list) {
  if (!grad_enabled()) return false;
  for (const Tensor& t : list)
    if (t.defined() && requires_grad(t)) return true;
  return false;
}

// Makes `out` the output `nr` of `node`. Only floating and complex outputs take part.
void set_history(const Tensor& out, const Ref<Node>& node, uint32_t nr = 0);

}  // namespace rl
