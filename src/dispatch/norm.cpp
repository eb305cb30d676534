// Normalisation: fused kernels forward and backward; the backward as composed ops where it is
// differentiated again.

#include <optional>

#include "autograd/engine.h"
#include "dispatch/body.h"
#include "dispatch/generated.h"
#include "dispatch/lazy_expression.h"
#include "dispatch/optional_view.h"
#include "impl_create.h"
#include "impl_norm.h"
#include "launch_batch_norm.h"
#include "launch_norm.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_norm.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {
namespace {

void check_norm_dtype(const char* op, const Tensor& input) {
  check_implemented(input.is_floating(), op, ": not implemented for dtype ", input.dtype());
}

Tensor unless_same(const Tensor& t, DType dtype) {
  return t.dtype() == dtype ? t : impl::to_dtype(t, dtype);
}

struct Wanted {
  bool input, weight, bias;
};

}  // namespace

namespace impl {

std::array<Tensor, 3> batch_norm_kernel(const Tensor& input, const Tensor& weight,
                                        const Tensor& bias, const Tensor& running_mean,
                                        const Tensor& running_var, bool training, double momentum,
                                        double eps) {
  check_norm_dtype("batch_norm", input);
  launch::place_of("batch_norm", input, weight, bias, running_mean, running_var);
  TensorOptions statistics = options(input, compute_dtype(input.dtype()));
  Dims channels{input.sizes()[1]};
  // An output of its own, of which a graph may be made: the buffer stays outside of any.
  Tensor mean = training ? rl::empty(channels, statistics) : alias(running_mean);
  Tensor invstd =
      training ? rl::empty(channels, statistics) : ops::rsqrt(running_var + Scalar(eps));
  OptionalView w(weight), b(bias), m(running_mean), v(running_var);
  kernels::BatchNormArgs args{w.get(), b.get(), eps};
  kernels::ChannelAffine affine;
  if (training) {
    for (const Tensor& changed : {running_mean, running_var})
      if (changed.defined()) check_in_place(changed, "batch_norm");
    affine =
        launch::batch_norm_train(physical(input), args, m.get(), v.get(), momentum, mean, invstd);
    for (const Tensor& changed : {running_mean, running_var})
      if (changed.defined()) bump_version(changed, "batch_norm");
  } else {
    affine = launch::batch_norm_eval(args, *m.get(), *v.get());
  }
  Tensor out;
  if (!affine.scale.empty()) out = make_lazy_affine(input, affine.scale, affine.shift);
  if (!out.defined()) {
    out = empty_suggested(input.sizes(), input, input.dtype());
    launch::batch_norm_apply(physical(input), affine, args, mean, invstd, physical(out));
  }
  return {out, mean, invstd};
}

namespace {
TensorOptions statistics_options(const Tensor& input) {
  return options(input, compute_dtype(input.dtype()));
}
// `out`, contiguous, or a copy in the format that the input suggests.
Tensor in_format_of(const Tensor& input, const Tensor& out) {
  MemoryFormat format = suggested_format(input);
  return format == MemoryFormat::Contiguous ? out : clone(out, format);
}
}  // namespace

std::array<Tensor, 2> rms_norm_kernel(const Tensor& input, const Dims& size, const Tensor& weight,
                                      double eps) {
  check_norm_dtype("rms_norm", input);
  Tensor out = rl::empty(input.sizes(), options(input)),
         rstd = make_output(shape::of_rows(input, size), input.device());
  launch::rms_norm(ops::contiguous(input), ordered(weight), eps, out, rstd);
  return {in_format_of(input, out), rstd};
}

std::array<Tensor, 3> group_norm_kernel(const Tensor& input, int64_t num_groups,
                                        const Tensor& weight, const Tensor& bias, double eps) {
  check_norm_dtype("group_norm", input);
  Tensor x = ops::contiguous(input), out = rl::empty(input.sizes(), options(input));
  Dims groups{input.sizes()[0], num_groups};
  Tensor mean = rl::empty(groups, statistics_options(input)),
         rstd = rl::empty(groups, statistics_options(input));
  Tensor w = ordered(weight), b = ordered(bias);
  launch::group_norm(x, w, b, eps, out, mean, rstd);
  return {in_format_of(input, out), mean, rstd};
}

}  // namespace impl

namespace grad {

using namespace ops;

namespace {

// Gradients of parameters keep the digits that these have beside an input of fewer.
TensorOptions parameter_options(const Tensor& input, const Tensor& weight) {
  return options(input, weight.defined() ? weight.dtype() : input.dtype());
}

// All the gradients in one pass; the parameters have sizes `size`.
template <class Kernel>
std::array<Tensor, 3> fused_norm(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                 const Dims& size, const Wanted& wanted, Kernel kernel) {
  std::array<Tensor, 3> result;
  if (wanted.input) result[0] = rl::empty(input.sizes(), options(input));
  if (wanted.weight) result[1] = rl::empty(size, parameter_options(input, weight));
  if (wanted.bias) result[2] = rl::empty(size, parameter_options(input, weight));
  Tensor g = contiguous(unless_same(grad, input.dtype())), x = contiguous(input),
         w = ordered(weight);
  kernel(g, x, w, result[0], result[1], result[2]);
  return result;
}

}  // namespace

namespace {

// How the gradient of a batch norm reads the gradient that came: where nobody else reads that any
// more, its elements are computed on the way if they are lazy, and the result takes its storage.
class IncomingGradient {
 public:
  IncomingGradient(const Tensor& grad, const Tensor& input, bool of_input)
      : grad_(grad), input_(input) {
    Ref<ChannelsLastContents> contents = channels_last_contents(grad),
                              x = channels_last_contents(input);
    last_reader_ = grad.dtype() == input.dtype() && grad.is_contiguous() && input.is_contiguous() &&
                   !contents == !x && is_exclusive(grad) && !(contents && contents->is_leased());
    if (!last_reader_ || !contents || contents->is_computed()) return;
    BufferLease elements = x->lease();
    if (of_input) {
      lazy_ = take_expression(grad, elements);
    } else if ((lazy_ = lazy_expression(grad))) {
      lazy_->rematerialize(elements);
    }
  }
  const kernels::StripFormula* formula() const { return lazy_ ? &lazy_->formula() : nullptr; }
  // Uninitialized, and perhaps the gradient's own elements: to be written after those are read.
  Tensor result() const {
    if (!last_reader_) return empty_in_layout_of(input_, input_.dtype());
    copy_on_write(grad_);
    return alias(grad_);
  }

 private:
  const Tensor &grad_, &input_;
  bool last_reader_;
  std::optional<LazyExpression> lazy_;
};

}  // namespace

std::array<Tensor, 3> batch_norm_gradients(const Tensor& grad, const Tensor& input,
                                           const Tensor& weight, const Tensor& mean,
                                           const Tensor& invstd, bool training, double eps,
                                           bool of_input, bool of_weight, bool of_bias) {
  if (grad_enabled())
    return composed_batch_norm(grad, input, weight, mean, invstd, training, eps, of_input,
                               of_weight, of_bias);
  Dims channels{input.sizes()[1]};
  std::array<Tensor, 3> result;
  IncomingGradient incoming(grad, input, of_input);
  if (of_input) result[0] = incoming.result();
  Tensor g = incoming.formula()
                 ? Tensor()
                 : in_order(unless_same(grad, input.dtype()), has_physical_layout(input));
  if (of_weight) result[1] = rl::empty(channels, parameter_options(input, weight));
  if (of_bias) result[2] = rl::empty(channels, parameter_options(input, weight));
  PhysicalView x(input);
  std::optional<PhysicalView> gradient, written;
  if (g.defined()) gradient.emplace(g);
  if (of_input) written.emplace(result[0]);
  launch::batch_norm_backward(gradient ? gradient->view() : x.view(), incoming.formula(), x, weight,
                              mean, invstd, training, written ? &written->view() : nullptr,
                              result[1], result[2]);
  return result;
}

std::array<Tensor, 3> layer_norm_gradients(const Tensor& grad, const Tensor& input,
                                           const Dims& size, const Tensor& mean, const Tensor& rstd,
                                           const Tensor& weight, double eps, bool of_input,
                                           bool of_weight, bool of_bias) {
  Wanted wanted{of_input, of_weight, of_bias};
  if (grad_enabled())
    return composed_row_norm(grad, input, size, weight, true, eps, of_input, of_weight, of_bias);
  return fused_norm(grad, input, weight, size, wanted,
                    [&](const Tensor& g, const Tensor& x, const Tensor& w, const Tensor& grad_input,
                        const Tensor& grad_weight, const Tensor& grad_bias) {
                      launch::layer_norm_backward(g, x, mean, rstd, w, grad_input, grad_weight,
                                                  grad_bias);
                    });
}

std::array<Tensor, 3> rms_norm_gradients(const Tensor& grad, const Tensor& input, const Dims& size,
                                         const Tensor& rstd, const Tensor& weight, double eps,
                                         bool of_input, bool of_weight) {
  Wanted wanted{of_input, of_weight, false};
  if (grad_enabled())
    return composed_row_norm(grad, input, size, weight, false, eps, of_input, of_weight, false);
  return fused_norm(grad, input, weight, size, wanted,
                    [&](const Tensor& g, const Tensor& x, const Tensor& w, const Tensor& grad_input,
                        const Tensor& grad_weight, const Tensor&) {
                      launch::rms_norm_backward(g, x, rstd, w, grad_input, grad_weight);
                    });
}

std::array<Tensor, 3> group_norm_gradients(const Tensor& grad, const Tensor& input,
                                           int64_t num_groups, const Tensor& mean,
                                           const Tensor& rstd, const Tensor& weight, double eps,
                                           bool of_input, bool of_weight, bool of_bias) {
  Wanted wanted{of_input, of_weight, of_bias};
  if (grad_enabled())
    return composed_group_norm(grad, input, num_groups, weight, eps, of_input, of_weight, of_bias);
  return fused_norm(grad, input, weight, Dims{input.sizes()[1]}, wanted,
                    [&](const Tensor& g, const Tensor& x, const Tensor& w, const Tensor& grad_input,
                        const Tensor& grad_weight, const Tensor& grad_bias) {
                      launch::group_norm_backward(g, x, mean, rstd, w, grad_input, grad_weight,
                                                  grad_bias);
                    });
}

}  // namespace grad

}  // namespace rl
