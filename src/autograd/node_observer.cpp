#include "autograd/node_observer.h"

#include <functional>

namespace rl {

// A node's name may depend on how its op was called, so it is asked each time; what it says is
// kept.
const ObservedNames& observed_names(const Node& node) {
  static std::atomic<const ObservedNames*> known[256];  // lists that only grow
  std::string name = node.is_accumulator() ? "torch::autograd::AccumulateGrad" : node.name();
  std::atomic<const ObservedNames*>& list = known[std::hash<std::string>()(name) % 256];
  const ObservedNames* first = list.load(std::memory_order_acquire);
  for (const ObservedNames* k = first; k; k = k->next)
    if (k->name == name) return *k;
  auto* made = new ObservedNames{name, "autograd::engine::evaluate_function: " + name, first};
  while (!list.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {}
  return *made;
}

}  // namespace rl
