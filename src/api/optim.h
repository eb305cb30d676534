// Optimizers: the update rules of Python's rushlight.optim, on lists of parameters.
#pragma once
#include "api/rushlight.h"

namespace rushlight::optim {

class Optimizer {
 public:
  explicit Optimizer(TensorList parameters) : parameters(std::move(parameters)) { initialize(); }
  virtual ~Optimizer() = default;
  virtual void step() = 0;
  void zero_grad() const {
    for (const Tensor& t : parameters) rushlight::zero_grad(t);
  }
  TensorList parameters;
};

struct SGDOptions {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
class SGD : public Optimizer {
 public:
  SGD(TensorList parameters, double lr, SGDOptions options = {});
  void step() override;
  double lr;
  SGDOptions options;

 private:
  TensorList velocities_;  // undefined before the first step of a parameter
};

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
class Adam : public Optimizer {
 public:
  explicit Adam(TensorList parameters, double lr = 1e-3, AdamOptions options = {},
                bool decoupled = false);
  void step() override;
  double lr;
  AdamOptions options;

 private:
  bool decoupled_;
  TensorList averages_, squares_, steps_;
};
// Adam with decoupled weight decay.
class AdamW : public Adam {
 public:
  explicit AdamW(TensorList parameters, double lr = 1e-3,
                 AdamOptions options = {0.9, 0.999, 1e-8, 1e-2})
      : Adam(std::move(parameters), lr, options, true) {}
};

}  // namespace rushlight::optim
