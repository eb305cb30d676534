// Fused optimizers: one call updates all parameters, each array read and written once.
//
// A slot holds one parameter, its gradient and the optimizer's state for it: views of one shape,
// float32, float64, float16 or bfloat16 (the 16-bit ones compute in float), any strides without
// overlap. Slots of different dtypes may stand in one list. `step` counts from 1 and is that of the
// update to make.
#pragma once
#include "core/view.h"

namespace rl::kernels {

inline constexpr int optim_arrays = 5;

struct OptimSlot {
  View param, grad;
  View state[optim_arrays - 2];
  double step = 1;
};
struct OptimSlots {
  const OptimSlot* slots;
  int64_t count;
  Device device;
};

// state: the momentum buffer, if momentum != 0. On the first step it becomes the gradient.
struct SgdArgs {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize, first_step;
};
void fused_sgd(OptimSlots slots, const SgdArgs& args);

// state: exp_avg, exp_avg_sq, and with amsgrad max_exp_avg_sq. `decoupled` is AdamW's weight decay.
struct AdamArgs {
  double lr, beta1, beta2, weight_decay, eps;
  bool decoupled, amsgrad, maximize;
};
void fused_adam(OptimSlots slots, const AdamArgs& args);

// state: sum of squares.
struct AdagradArgs {
  double lr, lr_decay, weight_decay, eps;
  bool maximize;
};
void fused_adagrad(OptimSlots slots, const AdagradArgs& args);

// state: square_avg, acc_delta.
struct AdadeltaArgs {
  double lr, rho, eps, weight_decay;
  bool maximize;
};
void fused_adadelta(OptimSlots slots, const AdadeltaArgs& args);

// state: exp_avg, exp_inf.
struct AdamaxArgs {
  double lr, beta1, beta2, eps, weight_decay;
  bool maximize;
};
void fused_adamax(OptimSlots slots, const AdamaxArgs& args);

// state: exp_avg, exp_avg_sq. mu_products[i] is the product of slot i's momenta, this step's
// included.
struct NAdamArgs {
  double lr, beta1, beta2, weight_decay, momentum_decay, eps;
  bool decoupled, maximize;
  const double* mu_products;
};
void fused_nadam(OptimSlots slots, const NAdamArgs& args);

// state: exp_avg, exp_avg_sq.
struct RAdamArgs {
  double lr, beta1, beta2, weight_decay, eps;
  bool decoupled, maximize;
};
void fused_radam(OptimSlots slots, const RAdamArgs& args);

// state: square_avg, then grad_avg if centered, then the momentum buffer if momentum > 0.
struct RmspropArgs {
  double lr, alpha, eps, weight_decay, momentum;
  bool centered, maximize;
};
void fused_rmsprop(OptimSlots slots, const RmspropArgs& args);

// state: previous gradient, step size of each element.
struct RpropArgs {
  double eta_minus, eta_plus, step_size_min, step_size_max;
  bool maximize;
};
void fused_rprop(OptimSlots slots, const RpropArgs& args);

// state: averaged parameter. etas[i] and mus[i] are slot i's step size and share of the average.
struct AsgdArgs {
  double lambd, weight_decay;
  bool maximize;
  const double* etas;
  const double* mus;
};
void fused_asgd(OptimSlots slots, const AsgdArgs& args);

}  // namespace rl::kernels
