// What a profile and the NaN trap see of the engine's work.
#pragma once
#include "autograd/node.h"
#include "core/observer.h"

namespace rl {

// What a profile calls a node, and the engine's visit of it; kept for good.
struct ObservedNames {
  std::string name, visit;
  const ObservedNames* next;
};
const ObservedNames& observed_names(const Node& node);

// An event of a node as long as it lives; without names there is no profile.
class NodeObserver {
 public:
  NodeObserver(EventKind kind, const Node& node, const ObservedNames* names) {
    if (__builtin_expect(!names, 1)) return;
    const std::string& name = kind == EventKind::Visit ? names->visit : names->name;
    event_ = observer::begin(kind, name.c_str());
    if (event_) event_->sequence = static_cast<int64_t>(node.sequence);
  }
  ~NodeObserver() {
    if (__builtin_expect(event_ != nullptr, 0)) observer::end(event_);
  }
  NodeObserver(const NodeObserver&) = delete;
  NodeObserver& operator=(const NodeObserver&) = delete;

 private:
  Event* event_ = nullptr;
};

// Ops inside a node are not the program's own: the NaN trap looks at the node's results.
struct InsideNode {
  uint32_t& depth = thread_state().op_depth;
  InsideNode() { ++depth; }
  ~InsideNode() { --depth; }
};

}  // namespace rl
