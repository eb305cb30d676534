// Softmax and losses.
#include "autograd/geometry.h"
#include "autograd/shown_name.h"
#include "core/warning.h"
#include "dispatch/body.h"
#include "dispatch/generated.h"
#include "impl_create.h"
#include "impl_loss.h"
#include "launch_cross_entropy.h"
#include "launch_ctc_loss.h"
#include "launch_nll_loss.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_loss.h"
#include "ops_masking.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl {
namespace {

kernels::Reduction reduction_of(const std::string& text) {
  if (text == "none") return kernels::Reduction::None;
  if (text == "mean") return kernels::Reduction::Mean;
  check_value(text == "sum", text, " is not a valid value for reduction");
  return kernels::Reduction::Sum;
}

}  // namespace

// The older arguments, where they are given, decide.
std::string reduction_name(std::optional<bool> size_average, std::optional<bool> reduce,
                           const std::string& reduction) {
  if (!size_average && !reduce) return reduction;
  std::string meant = size_average.value_or(true) ? "mean" : "sum";
  if (!reduce.value_or(true)) meant = "none";
  warn(("size_average and reduce are deprecated, use reduction='" + meant + "'").c_str());
  return meant;
}

void check_reduction(const std::string& reduction) { reduction_of(reduction); }

// Losses of regression take weights that are as many as the inputs.
void check_loss_weight(const Tensor& input, const Tensor& weight) {
  check_value(!weight.defined() || weight.sizes() == input.sizes(),
              "Weights and input must have the same size, got weights of shape ",
              weight.defined() ? weight.sizes() : input.sizes(), " for an input of shape ",
              input.sizes());
}

void check_probabilities(const char* op, const Tensor& input) {
  if (input.is_meta() || !input.numel() || !input.is_floating()) return;
  Tensor inside = unrecorded([&] {
    return ops::all(ops::logical_and(ops::ge(input, wrap_number(Scalar(0))),
                                     ops::le(input, wrap_number(Scalar(1)))));
  });
  check(item<bool>(inside), op, ": all elements of input should be between 0 and 1");
}

namespace impl {

std::array<Tensor, 2> nll_loss_kernel(const Tensor& input, const Tensor& target,
                                      const Tensor& weight, int64_t ignore_index,
                                      const std::string& reduction) {
  kernels::Reduction how = reduction_of(reduction);
  Tensor loss =
      rl::empty(how == kernels::Reduction::None ? target.sizes() : Dims(), options(input));
  Tensor total = rl::empty(Dims(), options(input));
  launch::nll_loss(input, target, weight, ignore_index, how, loss, total);
  return {loss, total};
}

Tensor nll_loss_gradient_kernel(const Tensor& grad, const Tensor& target, const Tensor& weight,
                                int64_t ignore_index, const std::string& reduction,
                                const Tensor& total_weight, const Dims& size) {
  Tensor out = rl::empty(size, options(total_weight));
  Tensor g = grad.dtype() == out.dtype() ? grad : to_dtype(grad, out.dtype());
  launch::nll_loss_backward(g, target, weight, ignore_index, reduction_of(reduction), total_weight,
                            out);
  return out;
}

namespace {
void check_lengths(const Tensor& log_probs, const Tensor& labels, const Dims& inputs,
                   const Dims& targets, int64_t blank) {
  check(log_probs.dim() == 3, "ctc_loss: expected log_probs of (steps, batch, classes), got shape ",
        log_probs.sizes());
  int64_t steps = log_probs.sizes()[0], batch = log_probs.sizes()[1];
  check(labels.dim() == 2 && labels.sizes()[0] == batch && labels.dtype() == DType::Int64,
        "ctc_loss: expected labels of (", batch, ", longest target) of dtype int64, got shape ",
        labels.sizes(), " of ", labels.dtype());
  check(0 <= blank && blank < log_probs.sizes()[2], "ctc_loss: blank ", blank, " is not one of ",
        log_probs.sizes()[2], " classes");
  auto fit = [&](const char* name, const Dims& lengths, int64_t most) {
    check(lengths.size() == batch, "ctc_loss: expected ", batch, " ", name, ", got ",
          lengths.size());
    for (int64_t n : lengths)
      check(0 <= n && n <= most, "ctc_loss: ", name, " must be from 0 to ", most, ", got ", n);
  };
  fit("input_lengths", inputs, steps);
  fit("target_lengths", targets, labels.sizes()[1]);
}
}  // namespace

std::array<Tensor, 2> ctc_loss_kernel(const Tensor& log_probs, const Tensor& labels,
                                      const Dims& input_lengths, const Dims& target_lengths,
                                      int64_t blank) {
  check_lengths(log_probs, labels, input_lengths, target_lengths, blank);
  int64_t steps = log_probs.sizes()[0], batch = log_probs.sizes()[1];
  Tensor loss = rl::empty(Dims{batch}, options(log_probs));
  Tensor alpha = rl::empty(Dims{batch, steps, 2 * labels.sizes()[1] + 3}, options(log_probs));
  launch::ctc_loss(log_probs, labels, {input_lengths, target_lengths, blank}, loss, alpha);
  return {loss, alpha};
}

Tensor ctc_loss_gradient(const Tensor& grad, const Tensor& log_probs, const Tensor& labels,
                         const Dims& input_lengths, const Dims& target_lengths, int64_t blank,
                         const Tensor& loss, const Tensor& alpha) {
  check_lengths(log_probs, labels, input_lengths, target_lengths, blank);
  Tensor probs = ops::contiguous(log_probs), out = empty_like(probs);
  launch::ctc_loss_backward(grad, probs, labels, {input_lengths, target_lengths, blank}, loss,
                            alpha, out);
  return out;
}

std::array<Tensor, 4> cross_entropy_kernel(const Tensor& input, const Tensor& target,
                                           const Tensor& weight, int64_t ignore_index,
                                           const std::string& reduction, double label_smoothing) {
  kernels::Reduction how = reduction_of(reduction);
  TensorOptions sums = options(input, compute_dtype(input.dtype()));
  Tensor loss =
      rl::empty(how == kernels::Reduction::None ? target.sizes() : Dims(), options(input));
  std::array<Tensor, 4> result{loss, rl::empty(target.sizes(), sums),
                               rl::empty(target.sizes(), sums), rl::empty(Dims(), sums)};
  if (loss.is_meta()) return result;
  View x = input.view(), t = target.view(), w;
  if (weight.defined()) w = weight.view();
  launch::cross_entropy({x, t, weight.defined() ? &w : nullptr, ignore_index, how, label_smoothing},
                        loss, result[1], result[2], result[3]);
  return result;
}

}  // namespace impl

namespace grad {

Tensor softmax_second(const Tensor& grad, const Tensor& grad_output, const Tensor& output,
                      int64_t dim) {
  // out = output * (g - sum(g * output)), differentiated by output.
  Dims d{dim};
  Tensor inner = ops::sum(grad_output * output, d, true), outer = ops::sum(grad * output, d, true);
  return grad * (grad_output - inner) - outer * grad_output;
}

Tensor nll_loss_gradient(const Tensor& grad, const Tensor& target, const Tensor& weight,
                         int64_t ignore_index, const std::string& reduction,
                         const Tensor& total_weight, const OutputMeta& input) {
  return ops::nll_loss_gradient_kernel(grad, target, weight, ignore_index, reduction, total_weight,
                                       input.sizes);
}
namespace {

// How much of each class a target is: the loss is the sum of goal * -log_softmax(input).
Tensor goals(const Tensor& input, const Tensor& target, const Tensor& weight, int64_t ignore_index,
             double smoothing) {
  int64_t classes = input.sizes()[1];
  Dims by_class(input.dim(), 1);
  by_class[1] = classes;
  Tensor index = ops::unsqueeze(impl::to_dtype(target, DType::Int64), 1);
  Tensor numbers = ops::arange(Scalar(int64_t(0)), Scalar(classes), Scalar(int64_t(1)),
                               DType::Int64, {}, input.device());
  Tensor goal = impl::to_dtype(ops::eq(ops::view(numbers, by_class), index), input.dtype()) *
                    Scalar(1 - smoothing) +
                Scalar(smoothing / static_cast<double>(classes));
  if (weight.defined()) goal = goal * ops::view(weight, by_class);
  return ops::masked_fill(goal, ops::eq(index, wrap_number(Scalar(ignore_index))), Scalar(0));
}

}  // namespace

Tensor cross_entropy_gradient(const Tensor& grad, const Tensor& input, const Tensor& target,
                              const Tensor& weight, const Tensor& largest, const Tensor& sums,
                              const Tensor& total_weight, int64_t ignore_index,
                              const std::string& reduction, double label_smoothing) {
  if (grad_enabled()) {  // by ops that can be differentiated again
    Tensor goal = goals(input, target, weight, ignore_index, label_smoothing);
    Tensor g = grad.dim() ? ops::unsqueeze(grad, 1) : grad;
    if (reduction == "mean") {  // total_weight is 0 where all targets are ignored
      Tensor ignored = ops::eq(ops::unsqueeze(target, 1), wrap_number(Scalar(ignore_index)));
      g = ops::where(ignored, wrap_number(Scalar(0)),
                     g / ops::where(ignored, wrap_number(Scalar(1)), total_weight));
    }
    return g * (ops::softmax(input, 1) * ops::sum(goal, Dims{1}, true) - goal);
  }
  Tensor out = rl::empty(input.sizes(), options(input));
  if (out.is_meta()) return out;
  Tensor g = grad.dtype() == input.dtype() ? grad : impl::to_dtype(grad, input.dtype());
  View x = input.view(), t = target.view(), w;
  if (weight.defined()) w = weight.view();
  launch::cross_entropy_backward({x, t, weight.defined() ? &w : nullptr, ignore_index,
                                  reduction_of(reduction), label_smoothing},
                                 g, largest, sums, total_weight, out);
  return out;
}

Tensor nll_loss_kernel_first(const Tensor& input, const Tensor& target, const Tensor& weight,
                             int64_t ignore_index, const std::string& reduction) {
  return ops::nll_loss_kernel(input, target, weight, ignore_index, reduction)[0];
}

}  // namespace grad

namespace ops {

namespace {

void check_class_weight(const char* op, const Tensor& weight, int64_t classes) {
  check(!weight.defined() || (weight.dim() == 1 && weight.numel() == classes), op,
        ": weight tensor should be defined either for all ", classes,
        " classes or no classes but got weight tensor of shape ",
        weight.defined() ? weight.sizes() : Dims());
}

// Scores, class targets and weights in the shapes and dtypes that kernels take.
struct ClassTargets {
  ClassTargets(const char* op, const Tensor& input, const Tensor& target, const Tensor& given)
      : scores(input), targets(target), weight(given), single(input.dim() == 1) {
    check_value(input.dim() > 0, op, ": input must have at least one dim, got shape ",
                input.sizes());
    check(!records(weight), op,
          ": The function is not differentiable with respect to argument 'weight'. This input "
          "cannot have requires_grad True.");
    if (single) scores = unsqueeze(input, 0);
    if (single && target.dim() == 0) targets = unsqueeze(target, 0);
    check_implemented(input.is_floating(), op, ": not implemented for dtype ", input.dtype());
    check(targets.dtype() == DType::Int64 || targets.dtype() == DType::UInt8, op,
          ": expected a target of dtype int64, got ", target.dtype());
    Dims expected = scores.sizes();
    check(expected.size() > 1, op, ": expected classes in dim 1 of input");
    expected.erase(1);
    int64_t batch = scores.sizes()[0], classes = scores.sizes()[1];
    int64_t target_batch = targets.dim() ? targets.sizes()[0] : 0;
    check_value(batch == target_batch, "Expected input batch_size (", batch,
                ") to match target batch_size (", target_batch, ").");
    check(targets.sizes() == expected, op, ": expected target size ", expected, ", got ",
          targets.sizes());
    check_class_weight(op, weight, classes);
    if (weight.defined())
      weight =
          contiguous(weight.dtype() == input.dtype() ? weight : to_dtype(weight, input.dtype()));
  }

  Tensor finish(const Tensor& loss) const {
    return single && loss.dim() == 1 ? without_base(squeeze(loss, Dims{0})) : loss;
  }

  Tensor scores, targets, weight;
  bool single;
};

}  // namespace

namespace {
// torch has another kernel, of the last two dims, for images.
const char* class_loss_node(int64_t dims, const std::string& reduction) {
  if (dims <= 2) return "NllLossBackward0";
  return reduction == "none" && dims != 4 ? "ViewBackward0" : "NllLoss2DBackward0";
}
}  // namespace

Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                std::optional<bool> size_average, int64_t ignore_index, std::optional<bool> reduce,
                const std::string& reduction) {
  ClassTargets checked("nll_loss", input, target, weight);
  std::string how = reduction_name(size_average, reduce, reduction);
  return shown_as(class_loss_node(input.dim(), how), [&] {
    return checked.finish(
        nll_loss_kernel(checked.scores, checked.targets, checked.weight, ignore_index, how)[0]);
  });
}

namespace {

// Targets are probabilities of the classes.
Tensor soft_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                          int64_t ignore_index, const std::string& reduction, double smoothing) {
  check(target.is_floating(),
        "Expected floating point type for target with class probabilities, got ", target.dtype());
  check(ignore_index < 0,
        "cross_entropy: ignore_index is not supported for floating point target, got ",
        ignore_index);
  int64_t d = input.dim() == 1 ? 0 : 1, classes = input.sizes()[d];
  check_class_weight("cross_entropy", weight, classes);
  Tensor goal = smoothing > 0 ? target * Scalar(1 - smoothing) +
                                    Scalar(smoothing / static_cast<double>(classes))
                              : target;
  Tensor logs = log_softmax(input, d);
  if (weight.defined()) {
    Dims shape(input.dim(), 1);
    shape[d] = classes;
    logs = logs * view(weight, shape);
  }
  Tensor loss = neg(sum(logs * goal, Dims{d}, false));
  if (reduction == "mean")
    return div(sum(loss), wrap_number(Scalar(classes ? input.numel() / classes : 0)));
  return reduced_loss(loss, reduction);
}

}  // namespace

Tensor cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                     std::optional<bool> size_average, int64_t ignore_index,
                     std::optional<bool> reduce, const std::string& given, double label_smoothing) {
  std::string reduction = reduction_name(size_average, reduce, given);
  reduction_of(reduction);
  check_value(input.dim() > 0, "cross_entropy: input must have at least one dim, got shape ",
              input.sizes());
  if (input.sizes() == target.sizes())
    return shown_as(reduction == "mean" ? "DivBackward1" : "NegBackward0", [&] {
      return soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing);
    });
  check(label_smoothing >= 0 && label_smoothing <= 1,
        "label_smoothing must be between 0.0 and 1.0. Got: ", label_smoothing);
  ClassTargets checked("cross_entropy", input, target, weight);
  const char* node = label_smoothing > 0 ? "AddBackward0" : class_loss_node(input.dim(), reduction);
  return shown_as(node, [&] {
    return checked.finish(cross_entropy_kernel(checked.scores, checked.targets, checked.weight,
                                               ignore_index, reduction, label_smoothing)[0]);
  });
}

}  // namespace ops
}  // namespace rl
