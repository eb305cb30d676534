#include "bind/generated.h"

#include "autograd/inplace.h"
#include "dispatch/generated.h"

namespace rl::bind {
namespace {

// The result exists by now: an `out` that lies over what was read is written right in any case. It
// is refused as torch refuses it: unless it is one of the inputs as a whole, or has gaps.
void check_apart(const char* op, const Tensor& out, const Tensor& other, bool resized) {
  Overlap overlap = memory_overlap(out, other);
  bool exact = is_dense(out.sizes(), out.strides()) && is_dense(other.sizes(), other.strides());
  check(overlap == Overlap::None || (!resized && (overlap == Overlap::Same || !exact)), op,
        ": unsupported operation: some elements of the input tensor and the written-to tensor ",
        resized ? "of another shape than the result " : "", "refer to a single memory location. ",
        "Please clone() the tensor before performing the operation.");
}

void check_out(const char* op, const Tensor& out, const Tensor& result, const TensorList& inputs,
               OutDType dtype) {
  check(!records(out) && !records(result), op,
        ": functions with out=... arguments don't support automatic differentiation, but one "
        "of the arguments requires grad.");
  check(can_cast(result.dtype(), out.dtype()), op, ": result type ", result.dtype(),
        " can't be cast to the desired output type ", out.dtype());
  check(dtype == OutDType::Castable || out.dtype() == result.dtype(), op,
        ": Expected out tensor to have dtype ", result.dtype(), ", but got ", out.dtype(),
        " instead");
  check(out.device() == result.device(), op, ": Expected out tensor to have device ",
        result.device(), ", but got ", out.device());
  check(!has_internal_overlap(out.sizes(), out.strides()), op,
        ": unsupported operation: more than one element of the written-to tensor "
        "refers to a single memory location. Please clone() the tensor before performing the "
        "operation.");
  bool resized = out.sizes() != result.sizes();
  for (const Tensor& input : inputs) check_apart(op, out, input, resized);
}

void write(const Tensor& out, Tensor& result) {
  if (out.sizes() != result.sizes()) ops::resize_(out, result.sizes());
  ops::copy_(out, result);
  result = out;
}

}  // namespace

Tensor write_out(const char* op, const Arguments& a, int place, const Tensor& result,
                 OutDType dtype) {
  const Tensor& out = a.tensor(place);
  check_out(op, out, result, a.all_tensors_before(place), dtype);
  NoGradGuard guard;
  Tensor written = result;
  write(out, written);
  return written;
}

void write_out(const char* op, const Arguments& a, int place, Tensor* results, size_t count,
               OutDType dtype) {
  const TensorList out = a.tensors(place);
  check_type(out.size() == count, op, ": out expects ", count, " tensors, got ", out.size());
  const TensorList inputs = a.all_tensors_before(place);
  for (size_t i = 0; i < count; ++i) {
    check_out(op, out[i], results[i], inputs, dtype);
    for (size_t k = 0; k < i; ++k)
      check(memory_overlap(out[i], out[k]) == Overlap::None, op,
            ": unsupported operation: tensors of out share memory");
  }
  NoGradGuard guard;
  for (size_t i = 0; i < count; ++i) write(out[i], results[i]);
}

}  // namespace rl::bind
