// Choosing elements by a condition.
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "kernels/copy.h"
#include "kernels/index.h"

namespace rl {
namespace kernels {
RL_LOOP(where_loop, "masked_fill", 0)
}
namespace impl {
namespace {

void check_mask(const Tensor& mask, const char* op) {
  check(mask.dtype() == DType::Bool, op, ": only supports boolean masks, but got mask with dtype ",
        mask.dtype());
}

// value: 0-d, of input's dtype.
Tensor filled(const Tensor& input, const Tensor& mask, const Tensor& value, const Tensor& out) {
  return elementwise(kernels::where_loop, LoopType::Common, nullptr, out, mask, value, input);
}

}  // namespace

Tensor masked_fill(const Tensor& input, const Tensor& mask, const Scalar& value,
                   const Tensor& out) {
  check_mask(mask, "masked_fill");
  check_fits("masked_fill", value, input.dtype());
  Tensor one = rl::empty(Dims(), options(input));
  if (!one.is_meta()) kernels::fill(one.view(), value);
  return filled(input, mask, one, out);
}

Tensor masked_fill(const Tensor& input, const Tensor& mask, const Tensor& value,
                   const Tensor& out) {
  check_mask(mask, "masked_fill");
  check(value.dim() == 0,
        "masked_fill: only supports a 0-dimensional value tensor, but got tensor with ",
        value.dim(), " dimension(s).");
  check_element("masked_fill", value, input.dtype());
  return filled(input, mask,
                value.dtype() == input.dtype() ? value : to_dtype(value, input.dtype()), out);
}

Tensor masked_pick(const Tensor& input, const Tensor& mask) {
  check(!mask.is_meta() && !input.is_meta(),
        "masked_select: the shape of the result depends on the data, which meta tensors lack");
  Tensor out = rl::empty(Dims{kernels::count_true(mask.view())}, options(input));
  kernels::masked_select(input.view(), mask.view(), out.view());
  return out;
}

Tensor masked_scatter(const Tensor& input, const Tensor& mask, const Tensor& source,
                      const Tensor& given) {
  check(source.dtype() == input.dtype(),
        "masked_scatter: expected self and source to have same dtypes but got ", input.dtype(),
        " and ", source.dtype());
  check_mask(mask, "masked_scatter");
  Dims sizes = broadcast_sizes(input.sizes(), mask.sizes(), "masked_scatter");
  check(!given.defined() || sizes == given.sizes(), "masked_scatter_: mask of shape ", mask.sizes(),
        " does not fit a tensor of shape ", input.sizes());
  Tensor out =
      given.defined() ? given : clone(expand(input, sizes, false), MemoryFormat::Contiguous);
  if (!out.is_meta())
    kernels::masked_scatter(out.view(), expand(mask, sizes, false).view(), source.view());
  return out;
}

Tensor nonzero(const Tensor& input) {
  check(!input.is_meta(),
        "nonzero: the shape of the result depends on the data, which meta tensors lack");
  Tensor mask = input.dtype() == DType::Bool ? input : ops::ne(input, wrap_number(Scalar(0)));
  Tensor out = rl::empty(Dims{kernels::count_true(mask.view()), input.dim()},
                         {DType::Int64, input.device()});
  kernels::nonzero(input.view(), out.view());
  return out;
}

}  // namespace impl

namespace ops {

TensorList nonzero_tuple(const Tensor& input) {
  return unbind(nonzero(input.dim() ? input : reshape(input, Dims{1})), 1);
}

Tensor masked_select(const Tensor& input, const Tensor& mask) {
  check(mask.dtype() == DType::Bool, "masked_select: expected BoolTensor for mask, got ",
        mask.dtype());
  Dims sizes = broadcast_sizes(input.sizes(), mask.sizes(), "masked_select");
  return masked_pick(expand(input, sizes), expand(mask, sizes));
}

}  // namespace ops

namespace grad {

using namespace ops;

// The elements of source beyond those that mask has places for have gradient 0.
Tensor masked_scatter_source(const Tensor& grad, const Tensor& mask, IntSpan sizes) {
  Tensor used = masked_select(grad, mask);
  return reshape(constant_pad_nd(used, Dims{0, product(sizes) - used.numel()}, Scalar(0)),
                 Dims(sizes));
}

}  // namespace grad
}  // namespace rl
