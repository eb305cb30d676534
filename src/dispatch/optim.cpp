// Fused optimizers: the lists of tensors as the slots of kernels/optim.h.

#include "autograd/inplace.h"
#include "dispatch/generated.h"
#include "launch_optim.h"
#include "ops_basic.h"
#include "ops_optim.h"

namespace rl {
namespace {

double number(const Tensor& t, const char* op) {
  check(t.numel() == 1, op, ": expected a tensor of one element but got shape ", t.sizes());
  check(t.dtype() == DType::Float32 || t.dtype() == DType::Float64, op,
        ": expected a float32 or float64 number but got ", t.dtype());
  return t.is_meta() ? 0 : item<double>(t);
}

// The lists of one call. A state list that the rule does not use is a nullptr, and passed over.
class FusedStep {
 public:
  FusedStep(const char* op, const TensorList& params, const TensorList& grads,
            std::initializer_list<const TensorList*> states, const OptionalTensor& grad_scale,
            const OptionalTensor& found_inf)
      : op_(op) {
    skip_ = found_inf && number(found_inf, op) == 1;
    if (skip_) return;
    double scale = grad_scale ? number(grad_scale, op) : 1;
    check(params.size() == grads.size(), op, ": ", params.size(), " parameters but ", grads.size(),
          " gradients");
    slots_.resize(params.size());
    for (size_t i = 0; i < params.size(); ++i) {
      if (scale != 1) ops::div_(grads[i], wrap_number(Scalar(scale)));
      slots_[i].param = written(params[i], params[i], i);
      slots_[i].grad = matching(params[i], grads[i], i);
    }
    int place = 0;
    for (const TensorList* list : states) {
      if (!list) continue;
      check(list->size() == params.size(), op, ": ", params.size(), " parameters but ",
            list->size(), " states of a kind");
      for (size_t i = 0; i < params.size(); ++i)
        slots_[i].state[place] = written(params[i], (*list)[i], i);
      ++place;
    }
  }

  void set_steps(const TensorList& steps) {
    std::vector<double> values = numbers(steps);
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].step = values[i];
  }

  std::vector<double> numbers(const TensorList& list) const {
    check(skip_ || list.size() == slots_.size(), op_, ": ", slots_.size(), " parameters but ",
          list.size(), " numbers of a kind");
    std::vector<double> values;
    for (size_t i = 0; i < slots_.size(); ++i) values.push_back(number(list[i], op_));
    return values;
  }

  kernels::OptimSlots slots() const {
    return {slots_.data(), static_cast<int64_t>(slots_.size()),
            slots_.empty() ? Device() : slots_[0].param.device};
  }

 private:
  View matching(const Tensor& param, const Tensor& t, size_t i) const {
    check(is_floating(t.dtype()), op_, ": expected floating-point tensors but number ", i, " is ",
          t.dtype());
    check(t.dtype() == param.dtype() && t.sizes() == param.sizes(), op_, ": parameter ", i, " is ",
          param.dtype(), " of shape ", param.sizes(), ", but its gradient or state is ", t.dtype(),
          " of shape ", t.sizes());
    if (!t.is_meta()) return t.view();
    View nowhere;
    nowhere.device = t.device();
    return nowhere;
  }
  View written(const Tensor& param, const Tensor& t, size_t i) const {
    check(!t.impl()->lazy, op_, ": number ", i,
          " is a conjugate or negative view, which a fused step cannot change; clone() it");
    check_in_place(t, op_);
    bump_version(t, op_);
    return matching(param, t, i);
  }

  const char* op_;
  bool skip_ = false;
  std::vector<kernels::OptimSlot> slots_;
};

void adam(const char* op, bool decoupled, const TensorList& params, const TensorList& grads,
          const TensorList& exp_avgs, const TensorList& exp_avg_sqs,
          const TensorList& max_exp_avg_sqs, const TensorList& state_steps, double lr, double beta1,
          double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
          const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  FusedStep step(op, params, grads, {&exp_avgs, &exp_avg_sqs, amsgrad ? &max_exp_avg_sqs : nullptr},
                 grad_scale, found_inf);
  step.set_steps(state_steps);
  launch::fused_adam(step.slots(),
                     {lr, beta1, beta2, weight_decay, eps, decoupled, amsgrad, maximize});
}

}  // namespace

namespace ops {

void _fused_sgd_(const TensorList& params, const TensorList& grads,
                 const TensorList& momentum_buffer_list, double weight_decay, double momentum,
                 double lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
                 const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  FusedStep step("_fused_sgd_", params, grads, {momentum != 0 ? &momentum_buffer_list : nullptr},
                 grad_scale, found_inf);
  launch::fused_sgd(step.slots(),
                    {lr, momentum, dampening, weight_decay, nesterov, maximize, is_first_step});
}

void _fused_adam_(const TensorList& params, const TensorList& grads, const TensorList& exp_avgs,
                  const TensorList& exp_avg_sqs, const TensorList& max_exp_avg_sqs,
                  const TensorList& state_steps, double lr, double beta1, double beta2,
                  double weight_decay, double eps, bool amsgrad, bool maximize,
                  const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  adam("_fused_adam_", false, params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps,
       lr, beta1, beta2, weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
}

void _fused_adamw_(const TensorList& params, const TensorList& grads, const TensorList& exp_avgs,
                   const TensorList& exp_avg_sqs, const TensorList& max_exp_avg_sqs,
                   const TensorList& state_steps, double lr, double beta1, double beta2,
                   double weight_decay, double eps, bool amsgrad, bool maximize,
                   const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  adam("_fused_adamw_", true, params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps,
       lr, beta1, beta2, weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
}

void _fused_adagrad_(const TensorList& params, const TensorList& grads,
                     const TensorList& state_sums, const TensorList& state_steps, double lr,
                     double lr_decay, double weight_decay, double eps, bool maximize,
                     const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  FusedStep step("_fused_adagrad_", params, grads, {&state_sums}, grad_scale, found_inf);
  step.set_steps(state_steps);
  launch::fused_adagrad(step.slots(), {lr, lr_decay, weight_decay, eps, maximize});
}

void _fused_adadelta_(const TensorList& params, const TensorList& grads,
                      const TensorList& square_avgs, const TensorList& acc_deltas, double lr,
                      double rho, double eps, double weight_decay, bool maximize,
                      const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  FusedStep step("_fused_adadelta_", params, grads, {&square_avgs, &acc_deltas}, grad_scale,
                 found_inf);
  launch::fused_adadelta(step.slots(), {lr, rho, eps, weight_decay, maximize});
}

void _fused_adamax_(const TensorList& params, const TensorList& grads, const TensorList& exp_avgs,
                    const TensorList& exp_infs, const TensorList& state_steps, double lr,
                    double beta1, double beta2, double eps, double weight_decay, bool maximize,
                    const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  FusedStep step("_fused_adamax_", params, grads, {&exp_avgs, &exp_infs}, grad_scale, found_inf);
  step.set_steps(state_steps);
  launch::fused_adamax(step.slots(), {lr, beta1, beta2, eps, weight_decay, maximize});
}

void _fused_nadam_(const TensorList& params, const TensorList& grads, const TensorList& exp_avgs,
                   const TensorList& exp_avg_sqs, const TensorList& mu_products,
                   const TensorList& state_steps, double lr, double beta1, double beta2,
                   double weight_decay, double momentum_decay, double eps,
                   bool decoupled_weight_decay, bool maximize, const OptionalTensor& grad_scale,
                   const OptionalTensor& found_inf) {
  FusedStep step("_fused_nadam_", params, grads, {&exp_avgs, &exp_avg_sqs}, grad_scale, found_inf);
  step.set_steps(state_steps);
  std::vector<double> products = step.numbers(mu_products);
  launch::fused_nadam(step.slots(), {lr, beta1, beta2, weight_decay, momentum_decay, eps,
                                     decoupled_weight_decay, maximize, products.data()});
}

void _fused_radam_(const TensorList& params, const TensorList& grads, const TensorList& exp_avgs,
                   const TensorList& exp_avg_sqs, const TensorList& state_steps, double lr,
                   double beta1, double beta2, double weight_decay, double eps,
                   bool decoupled_weight_decay, bool maximize, const OptionalTensor& grad_scale,
                   const OptionalTensor& found_inf) {
  FusedStep step("_fused_radam_", params, grads, {&exp_avgs, &exp_avg_sqs}, grad_scale, found_inf);
  step.set_steps(state_steps);
  launch::fused_radam(step.slots(),
                      {lr, beta1, beta2, weight_decay, eps, decoupled_weight_decay, maximize});
}

void _fused_rmsprop_(const TensorList& params, const TensorList& grads,
                     const TensorList& square_avgs, const TensorList& grad_avgs,
                     const TensorList& momentum_buffer_list, double lr, double alpha, double eps,
                     double weight_decay, double momentum, bool centered, bool maximize,
                     const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  FusedStep step("_fused_rmsprop_", params, grads,
                 {&square_avgs, centered ? &grad_avgs : nullptr,
                  momentum > 0 ? &momentum_buffer_list : nullptr},
                 grad_scale, found_inf);
  launch::fused_rmsprop(step.slots(), {lr, alpha, eps, weight_decay, momentum, centered, maximize});
}

void _fused_rprop_(const TensorList& params, const TensorList& grads, const TensorList& prevs,
                   const TensorList& step_sizes, double eta_minus, double eta_plus,
                   double step_size_min, double step_size_max, bool maximize,
                   const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  FusedStep step("_fused_rprop_", params, grads, {&prevs, &step_sizes}, grad_scale, found_inf);
  launch::fused_rprop(step.slots(), {eta_minus, eta_plus, step_size_min, step_size_max, maximize});
}

void _fused_asgd_(const TensorList& params, const TensorList& grads, const TensorList& axs,
                  const TensorList& mus, const TensorList& etas, double lambd, double weight_decay,
                  bool maximize, const OptionalTensor& grad_scale,
                  const OptionalTensor& found_inf) {
  FusedStep step("_fused_asgd_", params, grads, {&axs}, grad_scale, found_inf);
  std::vector<double> eta = step.numbers(etas), mu = step.numbers(mus);
  launch::fused_asgd(step.slots(), {lambd, weight_decay, maximize, eta.data(), mu.data()});
}

}  // namespace ops
}  // namespace rl
