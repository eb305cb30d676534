// Hands the engine and the view rules the ops they need, without their layers knowing ops.
#include "dispatch/install.h"

#include "autograd/engine.h"
#include "dispatch/generated.h"
#include "kernels/copy.h"
#include "tensor/copy_elements.h"

namespace rl {
namespace {

void add_in_place(const Tensor& to, const Tensor& t) { ops::add_(to, t); }
Tensor cast(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  if (t.is_complex() && !is_complex(dtype)) return ops::to_dtype(ops::real(t), dtype);
  return ops::to_dtype(t, dtype);
}
Tensor clone(const Tensor& t) { return ops::clone(t); }
Tensor zeros(IntSpan sizes, TensorOptions o) {
  return ops::zeros(Dims(sizes), o.dtype, {}, o.device);
}
Tensor add(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
Tensor as_strided(const Tensor& t, IntSpan sizes, IntSpan strides, int64_t offset) {
  return ops::as_strided(t, Dims(sizes), Dims(strides), offset);
}
Tensor as_strided_backward(const Tensor& grad, const OutputMeta& base, const Dims& base_strides,
                           int64_t base_offset, IntSpan sizes, IntSpan strides, int64_t offset) {
  return grad::as_strided_backward(grad, base, base_strides, base_offset, sizes, strides, offset);
}
void copy(const Tensor& to, const Tensor& from) { ops::copy_(to, from); }
bool has_nan(const Tensor& t) {
  if (!is_differentiable(t.dtype()) || t.is_meta()) return false;
  NoGradGuard guard;
  Tensor total = ops::sum(ops::ne(t, t));
  return *total.data<int64_t>() != 0;
}

// Where nobody has brought sparse tensors along; bind/ does.
bool never_sparse(const Tensor&) { return false; }
Tensor no_sparse(const Tensor&, const Tensor&, const Dims&) {
  fail(ErrorKind::NotImplemented, "sparse gradients are not available without Python");
}

}  // namespace

void install_ops() {
  engine_ops = {add,   add_in_place, grad::sum_to, cast,     clone,
                zeros, has_nan,      never_sparse, no_sparse};
  view_ops = {as_strided, as_strided_backward, clone, copy};
  copy_elements = kernels::copy;
}

}  // namespace rl
