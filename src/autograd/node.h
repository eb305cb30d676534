// Node: one recorded op of the graph. It turns gradients of the op's outputs into gradients of its
// inputs and holds an edge to the producer of each input.
#pragma once
#include <string>

#include "core/allocator.h"
#include "core/small_vector.h"
#include "core/trace.h"
#include "tensor/tensor.h"

namespace rl {

struct GraphTask;
class Node;
class SavedTensor;
struct SavedReader;

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
  std::vector<OnOutput> tensor;                   // tensor.register_hook, in order of registration
  std::vector<OnOutput> retain;                   // retain_grad: after the tensor hooks
  std::vector<std::shared_ptr<NodeHook>> before;  // register_prehook (grad_inputs is grad_outputs)
  std::vector<std::shared_ptr<NodeHook>> after;   // register_hook
};

// What a backward pass keeps for each node it will visit.
struct NodeState {
  int32_t dependencies = 0;  // gradients still to come
  int32_t capture = -1;      // the first request for a gradient that arrives here
  bool visited = false;
  bool needed = false;       // gradients must be brought here
  bool needs_apply = false;  // and apply must run: someone below is needed
  Gradients buffers;         // the sum of what has come, one per output
};

class Node : public NodeBase {
 public:
  explicit Node(const char* op, size_t outputs = 1);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  static void* operator new(size_t bytes) { return allocate(bytes); }
  static void operator delete(void* p, size_t bytes) { deallocate(p, bytes); }

  // grads: one per output. results: sized to the number of edges by the engine. Not called when no
  // gradient is defined, unless runs_without_gradient().
  virtual void apply(Gradients& grads, Gradients& results) = 0;
  virtual bool runs_without_gradient() const { return false; }
  // Drops saved tensors, and notes in `released` if there were any: backward has consumed them.
  virtual void release_saved() {}
  virtual std::string name() const;               // "AddBackward0"
  virtual void read_saved(SavedReader&) const {}  // shows it each thing it kept
  virtual bool is_accumulator() const { return false; }
  // Is its apply made of ops alone, and not of a program's code? (bind/gradient_batch.cpp)
  virtual bool takes_stand_ins() const { return true; }
  // Of a loss that its node may reduce: by how many elements its gradient is divided.
  virtual int64_t* reduction() { return nullptr; }
  void destroy() override;

  // Is the gradient of input `i` of use? False too where the running backward does not need it.
  bool wants(size_t i) const { return edges[i].node && !(i < 32 && skipped >> i & 1); }
  bool wants_any(size_t from, size_t count) const {
    for (size_t i = from; i < from + count; ++i)
      if (wants(i)) return true;
    return false;
  }
  bool shows(size_t i) const { return !(i < 32 && numbers >> i & 1); }
  void add_input(const Tensor& input);
  NodeHooks& hooks();
  void check_unreleased() const {
    if (released) fail_released();
  }
  [[noreturn]] void fail_released() const;

  const char* op;                // "add": static
  const char* called = nullptr;  // its name where an op made of others gives it one: static
  uint64_t sequence;             // later ops run first in backward
  SmallVector<Edge, 2> edges;
  SmallVector<OutputMeta, 1> outputs;
  std::unique_ptr<NodeHooks> hook_lists;
  SourceLocation where;                // the user's line
  std::atomic<void*> python{nullptr};  // borrowed Python wrapper, belongs to bind/
  void* metadata = nullptr;            // owned Python dict, belongs to bind/
  Node* inside = nullptr;              // the node that runs this one, which changed a view in place
  bool released = false;
  uint32_t least_level;  // passes of lower levels do not see it (DerivativeLevels)

  uint32_t numbers = 0;                      // bit i: input i is a number, which is shown nowhere
  uint32_t skipped = 0;                      // bit i: the running apply need not compute result i
  std::atomic<const void*> runner{nullptr};  // see RunLock
  std::atomic<GraphTask*> task{nullptr};     // the backward pass that `state` belongs to
  NodeState state;

  Node* next = nullptr;  // in a list of those to be deleted, or of the garbage collector

 protected:
  ~Node() override;
};

// Held while a node's apply runs or its saved tensors are read or released: threads may run
// backward through one graph at the same time. The thread that has it may take it again.
class RunLock {
 public:
  explicit RunLock(Node& node) : node_(&node) {
    const void *self = thread_state().runs_for, *holder = nullptr;
    if (replace_if_equal(node.runner, holder, self)) return;
    if (holder == self) node_ = nullptr;
    else wait(self);
  }
  ~RunLock() {
    if (node_) node_->runner.store(nullptr, std::memory_order_release);
  }
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void wait(const void* self);
  Node* node_;
};

Ref<Node> share_if_alive(Node* node);  // null if its last count is gone

extern void (*release_node_metadata)(void* dict);  // installed by bind/
int64_t live_nodes();

// The edge at which a gradient of `t` arrives: its grad_fn (regenerated for a stale view) or its
// accumulator.
Edge gradient_edge(const Tensor& t);
Node* view_grad_fn(TensorImpl* view);
inline Node* grad_fn(const Tensor& t) {  // nullptr for a leaf; up to date for views
  TensorImpl* impl = t.impl();
  return impl->base ? view_grad_fn(impl) : static_cast<Node*>(impl->grad_fn.get());
}
inline bool requires_grad(const Tensor& t) { return t.requires_grad(); }

// Any of these needs a gradient and recording is on? Of stand-ins (dispatch/batched.h) what they
// are made of is recorded.
inline bool records_nodes() { return !(mode() & (NoGrad | Inference | VolatileCall | Batched)); }
inline bool records(const Tensor& t) { return records_nodes() && t.defined() && requires_grad(t); }
template <class... Rest>
inline bool records(const Tensor& t, const Rest&... rest) {
  return records_nodes() && (records(t) || records(rest...));
}
inline bool records(const TensorList& list) {
  if (!records_nodes()) return false;
  for (const Tensor& t : list)
    if (t.defined() && requires_grad(t)) return true;
  return false;
}

// Makes `out` the output `nr` of `node`, which may get more outputs so. Only floating and complex
// outputs take part.
void set_history(const Tensor& out, Ref<Node> node, uint32_t nr = 0);

}  // namespace rl
