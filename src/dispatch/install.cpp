// Hands the engine and the view rules the ops they need, without their layers knowing ops.
#include "dispatch/install.h"

#include <cmath>

#include "autograd/engine.h"
#include "dispatch/generated.h"
#include "dispatch/sparse.h"
#include "dispatch/trap.h"
#include "launch_copy.h"
#include "launch_elementwise.h"
#include "launch_magnitude.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_reduction.h"
#include "ops_shape.h"
#include "tensor/copy_elements.h"
#include "tensor/physical_layout.h"

namespace rl {

namespace kernels {
extern const Loop neg_loop;
}

namespace {

void add_in_place(const Tensor& to, const Tensor& t) {
  if (to.is_sparse() || t.is_sparse()) sparse::add_(to, t);
  else ops::add_(to, t);
}
Tensor cast(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  if (t.is_sparse())
    return sparse::map(t, [&](const Tensor& values) { return cast(values, dtype); });
  if (t.is_complex() && !is_complex(dtype)) return ops::to_dtype(ops::real(t), dtype);
  return ops::to_dtype(t, dtype);
}
Tensor clone(const Tensor& t) { return t.is_sparse() ? sparse::clone(t) : ops::clone(t); }
Tensor zeros(IntSpan sizes, TensorOptions o) {
  return ops::zeros(Dims(sizes), o.dtype, {}, o.device);
}
Tensor add(const Tensor& a, const Tensor& b) {
  return a.is_sparse() || b.is_sparse() ? sparse::add(a, b) : ops::add(a, b);
}
Tensor as_strided(const Tensor& t, IntSpan sizes, IntSpan strides, int64_t offset) {
  return ops::as_strided(t, Dims(sizes), Dims(strides), offset);
}
Tensor as_strided_backward(const Tensor& grad, const OutputMeta& base, const Dims& base_strides,
                           int64_t base_offset, IntSpan sizes, IntSpan strides, int64_t offset) {
  return grad::as_strided_backward(grad, base, base_strides, base_offset, sizes, strides, offset);
}
void copy(const Tensor& to, const Tensor& from) { ops::copy_(to, from); }
void change(const View& from, const View& to, bool conjugate, bool negative) {
  if (conjugate) launch::conj_copy(from, to);
  if (negative)
    launch::run_loop(kernels::neg_loop, compute_dtype(to.dtype), kernels::LoopResult::Same, to,
                     {conjugate ? &to : &from, 1, to.device}, nullptr);
}
bool has_nan(const Tensor& t) {
  if (t.is_sparse()) return has_nan(sparse_data(t).values);
  if (!is_differentiable(t.dtype()) || t.is_meta()) return false;
  PhysicalView elements(t);
  return t.numel() && std::isnan(launch::largest_magnitude(elements));
}

}  // namespace

void install_ops() {
  engine_ops = {add,     add_in_place,          grad::sum_to,      cast, clone, zeros,
                has_nan, trap::check_gradients, trap::stays_finite};
  view_ops = {as_strided, as_strided_backward, clone, copy};
  copy_elements = [](const View& from, const View& to) { launch::copy(from, to); };
  change_elements = change;
}

}  // namespace rl
