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
#include "ops_reduction.h"
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
  TensorOptions statistics = options(input, compute_dtype(input.dtype()));
  Dims channels{input.sizes()[1]};
  // An output of its own, of which a graph may be made: the buffer stays outside of any.
  Tensor mean = training ? rl::empty(channels, statistics) : alias(running_mean);
  Tensor invstd =
      training ? rl::empty(channels, statistics) : ops::rsqrt(running_var + Scalar(eps));
  if (input.is_meta()) return {empty_suggested(input.sizes(), input, input.dtype()), mean, invstd};
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
  if (affine.scale.empty() && channels[0]) {  // a device whose statistics stay there
    NoGradGuard guard;
    Dims along(input.dim(), 1);
    along[1] = channels[0];
    auto shaped = [&](const Tensor& t) { return ops::reshape(t, along); };
    Tensor scale = weight.defined() ? invstd * weight : invstd;
    Tensor out = (input - shaped(mean)) * shaped(scale);
    if (bias.defined()) out = out + shaped(bias);
    return {ops::to_dtype(out, input.dtype()), mean, invstd};
  }
  Tensor out = make_lazy_affine(input, affine.scale, affine.shift);
  if (!out.defined()) {
    out = empty_suggested(input.sizes(), input, input.dtype());
    launch::batch_norm_apply(physical(input), affine, physical(out));
  }
  return {out, mean, invstd};
}

namespace {
struct Rows {
  Tensor input;
  Dims kept;  // the leading sizes, and ones
};
Rows rows_of(const char* op, const Tensor& input, const Dims& size) {
  check_norm_dtype(op, input);
  Rows r{ops::contiguous(input), input.sizes()};
  for (int64_t i = 0; i < size.size(); ++i) r.kept[input.dim() - 1 - i] = 1;
  return r;
}
TensorOptions statistics_options(const Tensor& input) {
  return options(input, compute_dtype(input.dtype()));
}
// `out`, contiguous, or a copy in the format that the input suggests.
Tensor in_format_of(const Tensor& input, const Tensor& out) {
  MemoryFormat format = suggested_format(input);
  return format == MemoryFormat::Contiguous ? out : clone(out, format);
}
Tensor ordered(const Tensor& t) { return t.defined() ? ops::contiguous(t) : t; }
}  // namespace

std::array<Tensor, 3> layer_norm_kernel(const Tensor& input, const Dims& size, const Tensor& weight,
                                        const Tensor& bias, double eps) {
  Rows r = rows_of("layer_norm", input, size);
  Tensor out = rl::empty(input.sizes(), options(input));
  Tensor mean = rl::empty(r.kept, statistics_options(input)),
         rstd = rl::empty(r.kept, statistics_options(input));
  Tensor w = ordered(weight), b = ordered(bias);
  launch::layer_norm(r.input, w, b, eps, out, mean, rstd);
  return {out, mean, rstd};
}

std::array<Tensor, 2> rms_norm_kernel(const Tensor& input, const Dims& size, const Tensor& weight,
                                      double eps) {
  Rows r = rows_of("rms_norm", input, size);
  Tensor out = rl::empty(input.sizes(), options(input)),
         rstd = rl::empty(r.kept, statistics_options(input));
  Tensor w = ordered(weight);
  launch::rms_norm(r.input, w, eps, out, rstd);
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

// The gradients of y = centred * rstd * weight with composed ops, statistics computed anew from the
// input so that they are differentiated too. `reduce` are the dims the statistics run over;
// `spread` brings weight to input's shape.
struct Composed {
  Tensor input_gradient, normalised;
};
Composed normalise_backward(const Tensor& grad, const Tensor& input, const Dims& reduce,
                            bool centred, double eps) {
  Tensor mean_of = centred ? mean(input, reduce, true) : Tensor();
  Tensor x = centred ? input - mean_of : input;
  Tensor rstd = rsqrt(mean(x * x, reduce, true) + Scalar(eps));
  Tensor y = x * rstd;
  Tensor inner = grad - y * mean(grad * y, reduce, true);
  if (centred) inner = inner - mean(grad, reduce, true);
  return {rstd * inner, y};
}

Dims other_dims(int64_t ndim, int64_t kept) {
  Dims dims;
  for (int64_t d = 0; d < ndim; ++d)
    if (d != kept) dims.push_back(d);
  return dims;
}
Tensor channel_shape(const Tensor& t, int64_t ndim) {
  Dims sizes(ndim, 1);
  sizes[1] = t.numel();
  return view(t, sizes);
}

// Layer and RMS norm.
std::array<Tensor, 3> composed_row_norm(const Tensor& grad, const Tensor& input, const Dims& size,
                                        const Tensor& weight, bool centred, double eps,
                                        const Wanted& wanted) {
  std::array<Tensor, 3> result;
  Composed c;
  if (wanted.input || wanted.weight)
    c = normalise_backward(weight.defined() ? grad * weight : grad, input,
                           last_dims(input.dim(), size.size()), centred, eps);
  if (wanted.input) result[0] = c.input_gradient;
  if (wanted.weight) result[1] = sum_to(grad * c.normalised, size);
  if (wanted.bias) result[2] = sum_to(grad, size);
  return result;
}

// All the gradients in one pass; the parameters have sizes `size`.
template <class Kernel>
std::array<Tensor, 3> fused_norm(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                 const Dims& size, const Wanted& wanted, Kernel kernel) {
  std::array<Tensor, 3> result;
  if (wanted.input) result[0] = rl::empty(input.sizes(), options(input));
  if (wanted.weight) result[1] = rl::empty(size, options(input));
  if (wanted.bias) result[2] = rl::empty(size, options(input));
  Tensor g = contiguous(unless_same(grad, input.dtype())), x = contiguous(input),
         w = impl::ordered(weight);
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
  Dims reduce = other_dims(input.dim(), 1), channels{input.sizes()[1]};
  std::array<Tensor, 3> result;
  if (grad_enabled()) {
    Tensor weighted = weight.defined() ? grad * channel_shape(weight, input.dim()) : grad;
    Composed c;
    if (training && (of_input || of_weight))
      c = normalise_backward(weighted, input, reduce, true, eps);
    Tensor scale = channel_shape(invstd, input.dim());
    if (of_input) result[0] = training ? c.input_gradient : weighted * scale;
    if (of_weight) {
      Tensor normalised =
          training ? c.normalised : (input - channel_shape(mean, input.dim())) * scale;
      result[1] = sum(grad * normalised, reduce, false);
    }
    if (of_bias) result[2] = sum(grad, reduce, false);
    return result;
  }
  IncomingGradient incoming(grad, input, of_input);
  if (of_input) result[0] = incoming.result();
  Tensor g = incoming.formula()
                 ? Tensor()
                 : in_order(unless_same(grad, input.dtype()), has_physical_layout(input));
  if (of_weight) result[1] = rl::empty(channels, options(input));
  if (of_bias) result[2] = rl::empty(channels, options(input));
  if (input.is_meta()) return result;
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
  if (grad_enabled()) return composed_row_norm(grad, input, size, weight, true, eps, wanted);
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
  if (grad_enabled()) return composed_row_norm(grad, input, size, weight, false, eps, wanted);
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
  if (grad_enabled()) {
    Dims grouped{input.sizes()[0], num_groups, -1}, others = other_dims(input.dim(), 1);
    Tensor weighted = weight.defined() ? grad * channel_shape(weight, input.dim()) : grad;
    std::array<Tensor, 3> result;
    Composed c;
    if (wanted.input || wanted.weight)
      c = normalise_backward(reshape(weighted, grouped), reshape(input, grouped), Dims{2}, true,
                             eps);
    if (wanted.input) result[0] = reshape(c.input_gradient, input.sizes());
    if (wanted.weight) result[1] = sum(grad * reshape(c.normalised, input.sizes()), others, false);
    if (wanted.bias) result[2] = sum(grad, others, false);
    return result;
  }
  return fused_norm(grad, input, weight, Dims{input.sizes()[1]}, wanted,
                    [&](const Tensor& g, const Tensor& x, const Tensor& w, const Tensor& grad_input,
                        const Tensor& grad_weight, const Tensor& grad_bias) {
                      launch::group_norm_backward(g, x, mean, rstd, w, grad_input, grad_weight,
                                                  grad_bias);
                    });
}

}  // namespace grad

void check_trailing(const char* op, const Tensor& input, const Dims& size, const Tensor& weight,
                    const Tensor& bias) {
  check(!size.empty(), op, ": Expected normalized_shape to be at least 1-dimensional, got ", size);
  check(!weight.defined() || weight.sizes() == size, op,
        ": Expected weight to be of same shape as normalized_shape, but got weight of shape ",
        weight.defined() ? weight.sizes() : Dims(), " and normalized_shape = ", size);
  check(!bias.defined() || bias.sizes() == size, op,
        ": Expected bias to be of same shape as normalized_shape, but got bias of shape ",
        bias.defined() ? bias.sizes() : Dims(), " and normalized_shape = ", size);
  bool fits = input.dim() >= size.size();
  for (int64_t i = 1; fits && i <= size.size(); ++i)
    fits = input.sizes()[input.dim() - i] == size[size.size() - i];
  check(fits, op, ": Given normalized_shape=", size, ", expected input with shape [*, ", size,
        "], but got input of size ", input.sizes());
}

namespace {
void check_channels(const char* op, const char* what, const Tensor& t, int64_t channels) {
  check(!t.defined() || (t.dim() == 1 && t.numel() == channels), op, ": ", what, " should contain ",
        channels, " elements not ", t.defined() ? t.sizes() : Dims());
}
}  // namespace

void check_batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                      const Tensor& weight, const Tensor& bias, bool training) {
  check(input.dim() >= 2, "batch_norm: expected input with at least 2 dims (N, C, *), got shape ",
        input.sizes());
  int64_t channels = input.sizes()[1];
  check_value(!training || input.numel() != channels || input.numel() == 0,
              "Expected more than 1 value per channel when training, got input size ",
              input.sizes());
  check(training || (running_mean.defined() && running_var.defined()),
        "batch_norm: Expected running_mean and running_var to be defined when training=False");
  check_channels("batch_norm", "running_mean", running_mean, channels);
  check_channels("batch_norm", "running_var", running_var, channels);
  check_channels("batch_norm", "weight", weight, channels);
  check_channels("batch_norm", "bias", bias, channels);
}

void check_group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight,
                      const Tensor& bias) {
  check(input.dim() >= 2,
        "group_norm: Expected at least 2 dimensions for input tensor but received ", input.dim());
  int64_t channels = input.sizes()[1];
  check(num_groups > 0, "group_norm: Expected num groups to be greater than 0, got ", num_groups);
  check(channels % num_groups == 0,
        "group_norm: Expected number of channels in input to be divisible by num_groups, but got "
        "input of shape ",
        input.sizes(), " and num_groups=", num_groups);
  check_channels("group_norm", "weight", weight, channels);
  check_channels("group_norm", "bias", bias, channels);
}

}  // namespace rl
