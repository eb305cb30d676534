// A fused optimizer's step: the lists of tensors as the slots of kernels/optim.h.
#pragma once
#include <initializer_list>

#include "kernels/optim.h"
#include "tensor/tensor.h"

namespace rl {

// The lists of one call. A state list that the rule does not use is a nullptr, and passed over.
class FusedStep {
 public:
  FusedStep(const char* op, const TensorList& params, const TensorList& grads,
            std::initializer_list<const TensorList*> states, const OptionalTensor& grad_scale,
            const OptionalTensor& found_inf);
  void set_steps(const TensorList& steps);
  std::vector<double> numbers(const TensorList& list) const;  // of tensors of one element each
  kernels::OptimSlots slots() const;

 private:
  View matching(const Tensor& param, const Tensor& t, size_t i) const;
  View written(const Tensor& param, const Tensor& t, size_t i) const;

  const char* op_;
  bool skip_ = false;
  std::vector<kernels::OptimSlot> slots_;
};

}  // namespace rl
