#include "api/optim.h"

namespace rushlight::optim {

SGD::SGD(TensorList parameters, double lr, SGDOptions options)
    : Optimizer(std::move(parameters)), lr(lr), options(options) {
  rl::check_value(lr >= 0 && options.momentum >= 0 && options.weight_decay >= 0,
                  "SGD: lr, momentum and weight_decay must not be negative");
  rl::check_value(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                  "SGD: nesterov needs a momentum and no dampening");
  velocities_.resize(this->parameters.size());
}

void SGD::step() {
  NoGradGuard guard;
  TensorList params[2], grads[2], velocities[2];  // of those that have a velocity, of the others
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor gradient = grad(parameters[i]);
    if (!gradient.defined()) continue;
    const bool first = options.momentum != 0 && !velocities_[i].defined();
    if (first) velocities_[i] = rl::empty_like(detach(parameters[i]));
    params[first].push_back(parameters[i]);
    grads[first].push_back(gradient);
    if (options.momentum != 0) velocities[first].push_back(velocities_[i]);
  }
  for (const bool first : {true, false})
    if (!params[first].empty())
      _fused_sgd_(params[first], grads[first], velocities[first], options.weight_decay,
                  options.momentum, lr, options.dampening, options.nesterov, false, first);
}

Adam::Adam(TensorList parameters, double lr, AdamOptions options, bool decoupled)
    : Optimizer(std::move(parameters)), lr(lr), options(options), decoupled_(decoupled) {
  rl::check_value(lr >= 0 && options.eps >= 0 && options.weight_decay >= 0,
                  "Adam: lr, eps and weight_decay must not be negative");
  averages_.resize(this->parameters.size());
  squares_.resize(this->parameters.size());
  steps_.resize(this->parameters.size());
}

void Adam::step() {
  NoGradGuard guard;
  TensorList params, grads, averages, squares, steps;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor gradient = grad(parameters[i]);
    if (!gradient.defined()) continue;
    if (!averages_[i].defined()) {
      averages_[i] = zeros_like(detach(parameters[i]));
      squares_[i] = zeros_like(detach(parameters[i]));
      steps_[i] = zeros({}, kFloat32);
    }
    add_(steps_[i], rl::wrap_number(Scalar(1)));  // the operation takes them as counted
    params.push_back(parameters[i]);
    grads.push_back(gradient);
    averages.push_back(averages_[i]);
    squares.push_back(squares_[i]);
    steps.push_back(steps_[i]);
  }
  if (params.empty()) return;
  auto* update = decoupled_ ? &_fused_adamw_ : &_fused_adam_;
  update(params, grads, averages, squares, {}, steps, lr, options.beta1, options.beta2,
         options.weight_decay, options.eps, false, false, Tensor(), Tensor());
}

}  // namespace rushlight::optim
