// What the generated op files stand on.
#pragma once
#include "autograd/inplace.h"
#include "autograd/joined_node.h"
#include "autograd/node.h"
#include "autograd/saved_tensor.h"
#include "dispatch/elementwise.h"
#include "dispatch/grad.h"
#include "dispatch/observe.h"
#include "dispatch/op_types.h"
#include "dispatch/operators.h"
#include "dispatch/result_memory.h"
#include "tensor/physical_layout.h"

namespace rl {

inline OutputMeta meta_of(const Tensor& t) { return {t.sizes(), t.dtype(), t.device()}; }

// An error that names two arguments on different devices. A number may come from the CPU.
[[noreturn]] void fail_same_device(const char* op, const char* a_name, Device a, const char* b_name,
                                   Device b);
inline void check_same_device(const char*, const char*, const Tensor&) {}
template <class... Rest>
void check_same_device(const char* op, const char* a_name, const Tensor& a, const char* b_name,
                       const Tensor& b, const Rest&... rest) {
  if (!a.defined() || (a.dim() == 0 && a.device().is_cpu()))
    return check_same_device(op, b_name, b, rest...);
  bool agree = !b.defined() || is_same_device(a.device(), b.device()) ||
               (b.dim() == 0 && b.device().is_cpu());
  if (__builtin_expect(!agree, 0)) fail_same_device(op, a_name, a.device(), b_name, b.device());
  check_same_device(op, a_name, a, rest...);
}

// Runs f with recording off; the caller has recorded the op as a whole.
template <class F> auto unrecorded(F&& f) {
  NoGradGuard guard;
  return f();
}
Tensor clone_unrecorded(const Tensor& t);
Tensor clone_before_change(
    const Tensor& t);  // with the history that an in-place op is about to replace

// An undefined gradient as zeros.
Tensor materialize(const Tensor& grad, const OutputMeta& like);
TensorList materialize_all(const Gradients& grads, const SmallVector<OutputMeta, 1>& like);

TensorList unpack_all(const std::vector<SavedTensor>& saved, const Node& owner);
void save_all(std::vector<SavedTensor>& saved, const TensorList& tensors, bool is_output = false);
void put_all(Gradients& results, size_t from, const TensorList& grads);

template <class List> void set_history_all(const List& outputs, const Ref<Node>& node) {
  uint32_t nr = 0;
  for (const Tensor& t : outputs) set_history(t, node, nr++);
}
template <class F> Tensor name_nodes(const char* name, F&& f) {
  const uint64_t since = thread_state().next_sequence;
  Tensor result = f();
  name_node(result, since, name);
  return result;
}
// The nodes that f records are one, of that name, which has edges for `inputs` (join_nodes).
template <class F>
auto join_steps(const char* name, std::initializer_list<const Tensor*> inputs,
                std::initializer_list<const Tensor*> others, F&& f) {
  const uint64_t since = thread_state().next_sequence;
  auto result = f();
  if (thread_state().next_sequence == since) return result;  // nothing was recorded
  if constexpr (std::is_same_v<decltype(result), Tensor>)
    join_nodes(&result, 1, since, name, {inputs.begin(), inputs.size()},
               {others.begin(), others.size()});
  else
    join_nodes(result.data(), result.size(), since, name, {inputs.begin(), inputs.size()},
               {others.begin(), others.size()});
  return result;
}
template <class F> void name_node_in_place(const char* name, const Tensor& changed, F&& f) {
  const uint64_t since = thread_state().next_sequence;
  f();
  name_node(changed, since, name);
}
TensorList make_views(const Tensor& of, TensorList views);

inline void append_to(TensorList& all, const Tensor& t) { all.push_back(t); }
inline void append_to(TensorList& all, const TensorList& more) {
  all.insert(all.end(), more.begin(), more.end());
}
template <class... Given> TensorList inputs_of(const Given&... given) {
  TensorList all;
  (append_to(all, given), ...);
  return all;
}

// Gives the result a node that refuses to run backward and says why. It has edges to the inputs, so
// that who asks for their gradients alone is refused too.
Tensor without_gradient(Tensor result, const char* op, const char* reason,
                        const TensorList& inputs);
TensorList without_gradient(TensorList results, const char* op, const char* reason,
                            const TensorList& inputs);
template <size_t N>
std::array<Tensor, N> without_gradient(std::array<Tensor, N> results, const char* op,
                                       const char* reason, const TensorList& inputs) {
  for (Tensor& t : results) t = without_gradient(std::move(t), op, reason, inputs);
  return results;
}

// After an in-place op that has no gradient, or whose gradient is zero, on tensors that record.
// `inputs`: what it reads, `changed` first.
void refuse_gradient(const Tensor& changed, const char* op, const char* reason,
                     const TensorList& inputs);
void stop_gradient(const Tensor& changed, const char* op);
// `t` as an in-place op on `changed` may save it: a copy where both look at the same storage.
Tensor saved_copy_if_overlapping(const Tensor& t, const Tensor& changed);

// Guards of rows: torch refuses these on truth values, with advice.
[[noreturn]] void fail_negation();
[[noreturn]] void fail_subtraction(bool both);
inline void check_negation(const Tensor& t) {
  if (__builtin_expect(t.dtype() == DType::Bool, 0)) fail_negation();
}
inline void check_subtraction(const Tensor& a, const Tensor& b) {
  bool first = a.dtype() == DType::Bool, second = b.dtype() == DType::Bool;
  if (__builtin_expect(first || second, 0)) fail_subtraction(first && second);
}

// A factor must be of a kind that the result has: no fraction beside integers, no truth value
// beside numbers, no complex number beside real ones.
void check_kind_of_factor(const char* op, const char* name, const Scalar& factor, DType result);
inline void check_factor(const char* op, const char* name, const Scalar& factor, const Tensor& a,
                         const Tensor& b) {
  if (__builtin_expect(!factor.is_integral(), 0))
    check_kind_of_factor(op, name, factor, result_type(a, b));
}
// The same of complex numbers alone.
template <class... Tensors>
void check_real(const char* op, const char* name, const Scalar& factor, const Tensors&... tensors) {
  check(!factor.is_complex() || (is_complex(tensors.dtype()) || ...), op, ": ", name, " ", factor,
        " is complex, but no tensor is");
}

// What impl functions of rows with an in-place form make of their last argument, `out`: in place it
// is their first argument, otherwise undefined.
// out, or a copy of input: for ops that change some of its elements.
Tensor copy_unless(const Tensor& out, const Tensor& input);
Tensor contiguous_copy_unless(const Tensor& out, const Tensor& input);
// out, or a new tensor: for ops that write all of them. `dtype` is the result's.
Tensor empty_unless(const Tensor& out, const Tensor& input, DType dtype);
inline Tensor empty_unless(const Tensor& out, const Tensor& input) {
  return empty_unless(out, input, input.dtype());
}
// `result`, copied to `out` if that is another tensor, whose shape and dtype must allow it.
Tensor written_to(const Tensor& out, const Tensor& result, const char* op);
// `t` as a kernel may read it while it writes `changed`: a copy where they share memory.
Tensor copy_if_overlapping(const Tensor& t, const Tensor& changed);
TensorList copy_if_overlapping(TensorList tensors, const Tensor& changed);
Tensor copy_if_overlapping(const Tensor& t, const TensorList& changed);
// `t` in a dtype, if one is given.
Tensor converted(const Tensor& t, std::optional<DType> dtype);

// Copies a result into `target`, recorded: the in-place form of a composite.
void replace(const Tensor& target, const Tensor& result, const char* op);

}  // namespace rl
