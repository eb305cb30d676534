#include "bind/generated.h"

#include "autograd/inplace.h"
#include "dispatch/generated.h"

namespace rl::bind {

Tensor write_out(const char* op, const Tensor& out, const Tensor& result) {
  check(!(records(out)) && !records(result), op,
        ": functions with out=... arguments don't support automatic differentiation, but one "
        "of the arguments requires grad.");
  check(can_cast(result.dtype(), out.dtype()), op, ": result type ", result.dtype(),
        " can't be cast to the desired output type ", out.dtype());
  check(out.device() == result.device(), op, ": Expected out tensor to have device ",
        result.device(), ", but got ", out.device());
  check(!has_internal_overlap(out.sizes(), out.strides()), op,
        ": unsupported operation: more than one element of the written-to tensor "
        "refers to a single memory location. Please clone() the tensor before performing the "
        "operation.");
  NoGradGuard guard;
  if (out.sizes() != result.sizes()) ops::resize_(out, result.sizes());
  ops::copy_(out, result);
  return out;
}

}  // namespace rl::bind
