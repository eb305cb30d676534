#include "dispatch/optim.h"

#include "autograd/inplace.h"
#include "dispatch/generated.h"
#include "dispatch/launcher.h"
#include "ops_basic.h"

namespace rl {
namespace {

double number(const Tensor& t, const char* op) {
  check(t.numel() == 1, op, ": expected a tensor of one element but got shape ", t.sizes());
  check(t.dtype() == DType::Float32 || t.dtype() == DType::Float64, op,
        ": expected a float32 or float64 number but got ", t.dtype());
  return item_or(t, 0.0);
}

}  // namespace

FusedStep::FusedStep(const char* op, const TensorList& params, const TensorList& grads,
                     std::initializer_list<const TensorList*> states,
                     const OptionalTensor& grad_scale, const OptionalTensor& found_inf)
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
    check(list->size() == params.size(), op, ": ", params.size(), " parameters but ", list->size(),
          " states of a kind");
    for (size_t i = 0; i < params.size(); ++i)
      slots_[i].state[place] = written(params[i], (*list)[i], i);
    ++place;
  }
}

void FusedStep::set_steps(const TensorList& steps) {
  std::vector<double> values = numbers(steps);
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].step = values[i];
}

std::vector<double> FusedStep::numbers(const TensorList& list) const {
  check(skip_ || list.size() == slots_.size(), op_, ": ", slots_.size(), " parameters but ",
        list.size(), " numbers of a kind");
  std::vector<double> values;
  for (size_t i = 0; i < slots_.size(); ++i) values.push_back(number(list[i], op_));
  return values;
}

kernels::OptimSlots FusedStep::slots() const {
  return {slots_.data(), static_cast<int64_t>(slots_.size()),
          slots_.empty() ? Device() : slots_[0].param.device};
}

View FusedStep::matching(const Tensor& param, const Tensor& t, size_t i) const {
  check(is_floating(t.dtype()), op_, ": expected floating-point tensors but number ", i, " is ",
        t.dtype());
  check(t.dtype() == param.dtype() && t.sizes() == param.sizes(), op_, ": parameter ", i, " is ",
        param.dtype(), " of shape ", param.sizes(), ", but its gradient or state is ", t.dtype(),
        " of shape ", t.sizes());
  launch::place_of(op_, param, t);
  return t.view();
}
View FusedStep::written(const Tensor& param, const Tensor& t, size_t i) const {
  check(!t.impl()->lazy, op_, ": number ", i,
        " is a conjugate or negative view, which a fused step cannot change; clone() it");
  check_in_place(t, op_);
  bump_version(t, op_);
  return matching(param, t, i);
}

}  // namespace rl
