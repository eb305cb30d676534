// What the rules of optimizers need to know of each slot: numbers that are computed once, on the
// host.
#pragma once
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "kernels/optim.h"
#include "kernels/optim_rule.h"

namespace rl::kernels {

inline constexpr int max_optim_numbers = 10;

namespace optim {

inline double sign(bool maximize) { return maximize ? -1.0 : 1.0; }
// Weight decay is either added to the gradient or shrinks the parameter.
inline double added_decay(bool decoupled, double weight_decay) {
  return decoupled ? 0.0 : weight_decay;
}
inline double shrink(bool decoupled, double lr, double weight_decay) {
  return decoupled ? 1.0 - lr * weight_decay : 1.0;
}

inline void set(double* numbers, std::initializer_list<double> values) {
  std::copy(values.begin(), values.end(), numbers);
}

}  // namespace optim

// run(rule, arrays, numbers_of), where numbers_of(slot, i, numbers) fills in those of the i-th
// slot. It may remember numbers of the last one: each thread takes a copy.
template <class Run> void update_sgd(const SgdArgs& args, Run&& run) {
  bool momentum = args.momentum != 0;
  run(momentum ? OptimRule::SgdMomentum : OptimRule::Sgd, momentum ? 3 : 2,
      [&](const OptimSlot&, int64_t, double* numbers) {
        optim::set(numbers,
                   {optim::sign(args.maximize), args.weight_decay, args.lr, args.momentum,
                    1 - args.dampening, args.nesterov ? 1.0 : 0.0, args.first_step ? 1.0 : 0.0});
      });
}

// The bias corrections scale the step and eps: lr / c1 * m / (sqrt(v) / c2 + eps) with one
// division.
template <class Run> void update_adam(const AdamArgs& args, Run&& run) {
  run(args.amsgrad ? OptimRule::Amsgrad : OptimRule::Adam, args.amsgrad ? 5 : 4,
      [&, step = 0.0, correction1 = 0.0, correction2 = 0.0](const OptimSlot& slot, int64_t,
                                                            double* numbers) mutable {
        if (slot.step != step) {  // most often all slots have the same
          step = slot.step;
          correction1 = 1 - std::pow(args.beta1, step);
          correction2 = std::sqrt(1 - std::pow(args.beta2, step));
        }
        optim::set(numbers, {optim::sign(args.maximize),
                             optim::added_decay(args.decoupled, args.weight_decay),
                             optim::shrink(args.decoupled, args.lr, args.weight_decay),
                             args.lr / correction1 * correction2, 1 - args.beta1, args.beta2,
                             1 - args.beta2, args.eps * correction2});
      });
}

template <class Run> void update_adagrad(const AdagradArgs& args, Run&& run) {
  run(OptimRule::Adagrad, 3, [&](const OptimSlot& slot, int64_t, double* numbers) {
    double lr = args.lr / (1 + (slot.step - 1) * args.lr_decay);
    optim::set(numbers, {optim::sign(args.maximize), args.weight_decay, lr, args.eps});
  });
}

template <class Run> void update_adadelta(const AdadeltaArgs& args, Run&& run) {
  run(OptimRule::Adadelta, 4, [&](const OptimSlot&, int64_t, double* numbers) {
    optim::set(numbers, {optim::sign(args.maximize), args.weight_decay, args.lr, args.rho,
                         1 - args.rho, args.eps});
  });
}

template <class Run> void update_adamax(const AdamaxArgs& args, Run&& run) {
  run(OptimRule::Adamax, 4, [&](const OptimSlot& slot, int64_t, double* numbers) {
    double step_size = args.lr / (1 - std::pow(args.beta1, slot.step));
    optim::set(numbers, {optim::sign(args.maximize), args.weight_decay, step_size, 1 - args.beta1,
                         args.beta2, args.eps});
  });
}

template <class Run> void update_nadam(const NAdamArgs& args, Run&& run) {
  run(OptimRule::NAdam, 4, [&](const OptimSlot& slot, int64_t i, double* numbers) {
    auto momentum = [&](double step) {
      return args.beta1 * (1 - 0.5 * std::pow(0.96, step * args.momentum_decay));
    };
    double mu = momentum(slot.step), next_mu = momentum(slot.step + 1);
    double product = args.mu_products[i];
    optim::set(numbers,
               {optim::sign(args.maximize), optim::added_decay(args.decoupled, args.weight_decay),
                optim::shrink(args.decoupled, args.lr, args.weight_decay),
                args.lr * (1 - mu) / (1 - product), args.lr * next_mu / (1 - product * next_mu),
                1 - args.beta1, args.beta2, 1 - args.beta2, 1 - std::pow(args.beta2, slot.step),
                args.eps});
  });
}

template <class Run> void update_radam(const RAdamArgs& args, Run&& run) {
  run(OptimRule::RAdam, 4, [&](const OptimSlot& slot, int64_t, double* numbers) {
    double power2 = std::pow(args.beta2, slot.step);
    double step_size = args.lr / (1 - std::pow(args.beta1, slot.step));
    // The length of the average that exp_avg_sq is; up to 5 its variance is not tractable.
    double longest = 2 / (1 - args.beta2) - 1;
    double length = longest - 2 * slot.step * power2 / (1 - power2);
    bool rectified = length > 5;
    if (rectified)
      step_size *= std::sqrt((1 - power2) * (length - 4) * (length - 2) * longest /
                             ((longest - 4) * (longest - 2) * length));
    optim::set(numbers,
               {optim::sign(args.maximize), optim::added_decay(args.decoupled, args.weight_decay),
                optim::shrink(args.decoupled, args.lr, args.weight_decay), step_size,
                1 - args.beta1, args.beta2, 1 - args.beta2, args.eps, rectified ? 1.0 : 0.0});
  });
}

template <class Run> void update_rmsprop(const RmspropArgs& args, Run&& run) {
  bool momentum = args.momentum > 0;
  OptimRule rule =
      args.centered ? (momentum ? OptimRule::RmspropCenteredMomentum : OptimRule::RmspropCentered)
                    : (momentum ? OptimRule::RmspropMomentum : OptimRule::Rmsprop);
  run(rule, 3 + args.centered + momentum, [&](const OptimSlot&, int64_t, double* numbers) {
    optim::set(numbers, {optim::sign(args.maximize), args.weight_decay, args.lr, args.alpha,
                         1 - args.alpha, args.eps, args.momentum});
  });
}

template <class Run> void update_rprop(const RpropArgs& args, Run&& run) {
  run(OptimRule::Rprop, 4, [&](const OptimSlot&, int64_t, double* numbers) {
    optim::set(numbers, {optim::sign(args.maximize), args.eta_minus, args.eta_plus,
                         args.step_size_min, args.step_size_max});
  });
}

template <class Run> void update_asgd(const AsgdArgs& args, Run&& run) {
  run(OptimRule::Asgd, 3, [&](const OptimSlot&, int64_t i, double* numbers) {
    optim::set(numbers, {optim::sign(args.maximize), args.weight_decay,
                         1 - args.lambd * args.etas[i], args.etas[i], args.mus[i]});
  });
}

}  // namespace rl::kernels
