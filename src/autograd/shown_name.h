// The name that a composite's result shows as its grad_fn: torch's, which has one node for what is
// several here.
#pragma once
#include <utility>

#include "autograd/meta.h"
#include "autograd/node.h"
#include "core/thread_state.h"

namespace rl {

inline uint64_t last_node() { return thread_state().next_sequence; }

// Name the node of `t`, if it is younger than `since`; `name` is static.
void name_node(const Tensor& t, uint64_t since, const char* name);
template <class Results> void name_node(const Results& results, uint64_t since, const char* name) {
  for (const Tensor& t : results) name_node(t, since, name);
}

template <class F> auto shown_as(const char* name, F&& compute) {
  uint64_t since = last_node();
  auto result = std::forward<F>(compute)();
  name_node(result, since, name);
  return result;
}

}  // namespace rl
