// Choosing elements by a condition.
#include "core/warning.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "impl_create.h"
#include "impl_masking.h"
#include "impl_shape.h"
#include "launch_index.h"
#include "ops_basic.h"
#include "ops_masking.h"
#include "ops_shape.h"

namespace rl {

void check_condition(const Tensor& condition) {
  if (condition.dtype() == DType::Bool) return;
  check(condition.dtype() == DType::UInt8, "where: expected a condition of dtype bool, but got ",
        condition.dtype());
  warn("where: a condition of dtype uint8 is deprecated; use bool");
}
namespace kernels {
extern const Loop where_loop;
}
namespace impl {
namespace {

void check_mask(const Tensor& mask, const char* op) {
  check(mask.dtype() == DType::Bool, op, ": only supports boolean masks, but got mask with dtype ",
        mask.dtype());
}

// value: 0-d, of input's dtype.
Tensor filled(const Tensor& input, const Tensor& mask, const Tensor& value, const Tensor& given) {
  static const kernels::Loop loop = [] {
    kernels::Loop named = kernels::where_loop;
    named.name = "masked_fill";
    return named;
  }();
  Tensor out = given;
  if (!input.impl()->standard_strides || !mask.impl()->standard_strides)
    if (!out.defined())  // contiguous, whatever the operands are
      out = rl::empty(broadcast_sizes(input.sizes(), mask.sizes(), "masked_fill"), options(input));
  return elementwise(loop, LoopType::Common, nullptr, out, mask, value, input);
}

}  // namespace

Tensor masked_fill(const Tensor& input, const Tensor& mask, const Scalar& value,
                   const Tensor& out) {
  check_mask(mask, "masked_fill");
  return filled(input, mask, element_like("masked_fill", value, input), out);
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
  check_elements("masked_select", mask);
  Tensor out = rl::empty(Dims{launch::count_true(mask)}, options(input));
  launch::masked_select(input, mask, out);
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
  launch::masked_scatter(out, expand(mask, sizes, false), source);
  return out;
}

Tensor nonzero(const Tensor& input) {
  check_elements("nonzero", input);
  Tensor mask = input.dtype() == DType::Bool ? input : ops::ne(input, wrap_number(Scalar(0)));
  // Column by column, so that the indices of each dim lie together.
  int64_t count = launch::count_true(mask);
  Tensor out =
      rl::empty_strided(Dims{count, input.dim()}, Dims{1, count}, {DType::Int64, input.device()});
  launch::nonzero(input, out);
  return out;
}

}  // namespace impl

namespace ops {}  // namespace ops

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
