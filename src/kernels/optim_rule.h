// Which rule an optimizer follows.
#pragma once

namespace rl::kernels {

// Their arrays: param, grad, and states in the order that kernels/optim.h tells; their numbers are
// those of kernels/optim_numbers.h.
enum class OptimRule {
  Sgd,
  SgdMomentum,
  Adam,
  Amsgrad,
  Adagrad,
  Adadelta,
  Adamax,
  NAdam,
  RAdam,
  Rmsprop,
  RmspropCentered,
  RmspropMomentum,
  RmspropCenteredMomentum,
  Rprop,
  Asgd
};
}  // namespace rl::kernels
