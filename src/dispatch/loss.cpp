// Softmax and losses.
#include "core/warning.h"
#include "dispatch/body.h"
#include "dispatch/generated.h"
#include "impl_loss.h"
#include "launch_ctc_loss.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl {

kernels::Reduction reduction_of(const std::string& text) {
  if (text == "none") return kernels::Reduction::None;
  if (text == "mean") return kernels::Reduction::Mean;
  check_value(text == "sum", text, " is not a valid value for reduction");
  return kernels::Reduction::Sum;
}

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
  if (!input.is_floating()) return;
  Tensor inside = unrecorded([&] {
    return ops::all(ops::logical_and(ops::ge(input, wrap_number(Scalar(0))),
                                     ops::le(input, wrap_number(Scalar(1)))));
  });
  check(item_or(inside, true), op, ": all elements of input should be between 0 and 1");
}

namespace impl {

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

}  // namespace impl
}  // namespace rl
