#include "autograd/node.h"

#include <cctype>
#include <chrono>
#include <thread>

#include "autograd/meta.h"
#include "autograd/node_streams.h"
#include "core/after_fork.h"
#include "core/interpreter.h"

namespace rl {

void (*release_node_metadata)(void* dict) = nullptr;

int64_t live_nodes() { return count_alive(CountedNodes); }

Node::Node(const char* op, size_t output_count)
    : op(op), sequence(++thread_state().next_sequence), least_level(thread_state().levels.least) {
  outputs.resize(output_count);
  where = source_here();
  count(CountedNodes, 1);
}

Node::~Node() {
  forget(where);
  if (metadata) release_node_metadata(metadata);
  count(CountedNodes, -1);
}

// A node may be the last owner of the one before it, and so on for a million nodes: whoever dies
// while another is being deleted waits in a list instead of on the stack.
void Node::destroy() {
  ThreadState& thread = thread_state();
  next = static_cast<Node*>(thread.deletion_queue);
  thread.deletion_queue = this;
  if (thread.deleting_node) return;
  thread.deleting_node = true;
  while (auto* node = static_cast<Node*>(thread.deletion_queue)) {
    thread.deletion_queue = node->next;
    if (__builtin_expect(device_streams.load(std::memory_order_relaxed) != nullptr, 0))
      forget_stream(*node);
    delete node;
  }
  thread.deleting_node = false;
}

Ref<Node> share_if_alive(Node* node) {
  int32_t count = node->refs.load(std::memory_order_relaxed);
  while (count > 0)
    if (node->refs.compare_exchange_weak(count, count + 1, std::memory_order_relaxed))
      return Ref<Node>::adopt(node);
  return nullptr;
}

// Without the interpreter, which the holder may be waiting for: the node may call Python.
void RunLock::wait(const void* self) {
  ScopedGilReleaseWait waiting(true);
  for (int tries = 0;; ++tries) {
    const void* holder = nullptr;
    if (node_->runner.compare_exchange_strong(holder, self, std::memory_order_acquire)) return;
    if (tries == 100 && fork_count() && stayed_behind(holder) &&
        node_->runner.compare_exchange_strong(holder, self, std::memory_order_acquire))
      return;
    if (tries < 100) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// "log_softmax" gives "LogSoftmaxBackward0", "max_pool2d" "MaxPool2DBackward0": a letter is a
// capital where no letter stands before it.
std::string Node::name() const {
  if (called) return called;
  std::string text;
  bool inside = false;
  for (const char* c = op; *c; ++c) {
    bool letter = std::isalpha(static_cast<unsigned char>(*c));
    if (*c != '_') text += static_cast<char>(letter && !inside ? std::toupper(*c) : *c);
    inside = letter;
  }
  return text + "Backward0";
}

void Node::fail_released() const {
  std::string line = describe(where);
  fail(ErrorKind::Runtime,
       "Trying to backward through the graph a second time (or directly access saved tensors after "
       "they have already been freed). What ",
       op, line.empty() ? "" : " on ", line, " saved for ", name(),
       " was freed by the first backward. Specify retain_graph=True there to keep it.");
}

void Node::add_input(const Tensor& input) { edges.push_back(gradient_edge(input)); }

NodeHooks& Node::hooks() {
  if (!hook_lists) hook_lists = std::make_unique<NodeHooks>();
  return *hook_lists;
}

Edge gradient_edge(const Tensor& t) {
  if (!t.defined()) return {};
  if (Node* node = grad_fn(t)) return {Ref<Node>::share(node), t.impl()->output_nr};
  if (requires_grad(t)) return {accumulator(t), 0};
  return {};
}

void set_history(const Tensor& out, Ref<Node> node, uint32_t nr) {
  TensorImpl* impl = out.impl();
  if (!is_differentiable(impl->dtype)) return;
  if (node->outputs.size() <= nr) node->outputs.resize(nr + 1);
  OutputMeta& meta = node->outputs[nr];
  meta.sizes = impl->sizes;
  meta.dtype = impl->dtype;
  meta.device = impl->device;
  if (__builtin_expect(device_streams.load(std::memory_order_relaxed) != nullptr, 0) && nr == 0)
    remember_stream(*node, impl->device);
  impl->grad_fn = std::move(node);
  impl->output_nr = nr;
  __atomic_store_n(&impl->view_version, out.version(), __ATOMIC_RELEASE);  // the others before it
}

}  // namespace rl
