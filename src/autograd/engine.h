// The engine: a topological walk of the graph from the roots.
#pragma once
#include <functional>

#include "autograd/gradient_batch.h"
#include "autograd/node.h"

namespace rl {

// Gradients of the roots, weighted by `grads`, either accumulated into the leaves (inputs empty) or
// into `inputs` alone, or (accumulate false) returned for `inputs`; undefined where unreached.
// An input that is no leaf accumulates through its retain_grad, which the caller has switched on.
// With `batch`, the gradients have one more dim, the first, and so have the results. Works without
// the GIL; python hooks take it themselves. A deeply nested call runs on a thread of its own, so an
// exception must carry all that it tells.
TensorList run_backward(const TensorList& roots, const TensorList& grads, bool keep_graph,
                        bool create_graph, const std::vector<Edge>& inputs, bool accumulate,
                        GradientBatch* batch = nullptr);

// What `node` makes of the gradients of its outputs, outside of any pass: nothing is passed on and
// saved tensors stay. `skipped`: bit i, result i is of no use.
Gradients call_node(Node& node, Gradients grads, uint32_t skipped = 0);
// Reduces, casts or refuses result `i` of `node`, so that it fits the tensor it belongs to.
void fit_gradient(const Node& node, size_t i, Tensor& grad);

// Nobody else can see this tensor or its bytes: they may be changed or kept.
bool is_exclusive(const Tensor& t);

// What has come so far to input `i` of `node`, which runs: its apply adds to that and returns it,
// so that many gradients of parts of one tensor need one buffer. Undefined where nothing has come,
// or where what has come must stay as it is.
Tensor accumulated_gradient(const Node& node, size_t i);

// For hooks: a number for the pass this thread is inside of, or -1; whether that pass runs `node`
// now or later.
int64_t current_backward();
bool current_backward_runs(Node* node);
bool current_backward_is_restricted();  // to inputs that were named
// Calls f when that pass has ended without an error. f may ask for more calls and run other passes.
void after_current_backward(std::function<void()> f);

// With the mode Anomaly: does a gradient with a NaN in it raise an error?
extern bool anomaly_checks_nan;

// What the engine needs of the ops; dispatch/ installs them. add, add_in_place, cast and clone take
// gradients of any layout.
struct EngineOps {
  Tensor (*add)(const Tensor&, const Tensor&);
  void (*add_in_place)(const Tensor&, const Tensor&);
  Tensor (*sum_to)(const Tensor&, IntSpan sizes);  // reverses a broadcast
  Tensor (*cast)(const Tensor&, DType);
  Tensor (*clone)(const Tensor&);
  Tensor (*zeros)(IntSpan sizes, TensorOptions);
  bool (*has_nan)(const Tensor&);
  // For the NaN trap: `grads` are the addresses of those that the node was given, and
  // `stay_finite` is what stays_finite has said of them before.
  void (*check_gradients)(const Node&, const SmallVector<const void*, 2>& grads,
                          const Gradients& results, bool stay_finite);
  // In anomaly mode too.
  bool (*stays_finite)(const Node&, const Gradients& grads);
};
extern EngineOps engine_ops;

}  // namespace rl
