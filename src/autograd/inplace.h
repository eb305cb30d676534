// In-place ops and views in the graph.
#pragma once
#include "autograd/node.h"

namespace rl {

// Makes `view` a differentiable view of `of` (or of `of`'s base). `rule` replays it on `of`.
Tensor make_view(const Tensor& of, Tensor view, Ref<ViewRule> rule = nullptr);

// Before an in-place op: leaves that require grad, expanded memory, read-only memory, views that
// cannot be recorded: RuntimeError naming the op. `recorded`: another input needs a gradient.
void check_in_place(const Tensor& t, const char* op, bool recorded = false);
// Before one that a program calls in a function which a transform of func runs: RuntimeError if the
// tensor is neither an argument of that function nor made by it. What the function left in it would
// be there for the next run, with a graph that ends in this one.
void check_not_captured(const Tensor& t, const char* op);
// After the bytes changed: bumps the version and leaves a note where saved bytes changed.
void bump_version(const Tensor& t, const char* op);
// After check_in_place, the op and bump_version: makes `node` the producer of `t`; on a view it
// rewrites the base's history. If the op reads `t`, that is the first edge of `node`.
void rebase_history(const Tensor& t, const Ref<Node>& node, uint32_t nr = 0);

// Called where a tensor's own history may have come to lead back to it; installed by bind/.
extern void (*tensor_got_own_history)(TensorImpl* t);

// Output `nr` of `owner` as saved for backward: seen through the history of the base where the op
// changed a view in place.
Edge saved_output_edge(const Node& owner, uint32_t nr);

// What a view of another geometry needs of the ops; dispatch/ installs them.
struct ViewOps {
  Tensor (*as_strided)(const Tensor&, IntSpan sizes, IntSpan strides, int64_t offset);
  Tensor (*as_strided_backward)(const Tensor& grad, const OutputMeta& base,
                                const Dims& base_strides, int64_t base_offset, IntSpan sizes,
                                IntSpan strides, int64_t offset);
  Tensor (*clone)(const Tensor&);
  void (*copy)(const Tensor& to, const Tensor& from);
};
extern ViewOps view_ops;

}  // namespace rl
