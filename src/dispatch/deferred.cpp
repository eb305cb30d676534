#include "dispatch/deferred.h"

namespace rl {

namespace {

const LateFormula& formula_of(const LateElements& late) {
  return static_cast<const LateFormula&>(late);
}

bool can_wait(const Tensor& t, const Dims& sizes) {
  return t.dtype() == DType::Float32 && !t.impl()->data && t.sizes() == sizes && in_hidden_order(t);
}

Tensor late_like(const Tensor& like, Ref<LateElements> late) {
  int64_t bytes = like.numel() * itemsize(like.dtype());
  return hidden_like(like, make_ref<HiddenOrder>(like.sizes(), bytes, std::move(late)));
}

}  // namespace

void LateFormula::add_operand(Ref<HiddenOrder> order) {
  numel_ = product(order->sizes);
  Ref<LateElements> late = late_elements(*order);
  if (late && formula_.size() + formula_of(*late).formula_.size() > kernels::max_strip_formulas) {
    elements(*order);
    late = nullptr;
  }
  if (late) {
    formula_.operands.push_back({nullptr, 0, &formula_of(*late).formula_});
    late_.push_back(std::move(late));
  } else {
    formula_.operands.push_back({static_cast<const float*>(elements(*order))});
    there_.push_back(std::move(order));
  }
}

void LateFormula::add_channels(const std::vector<double>& values) {
  channels_.push_back(kernels::repeated(values));
  formula_.operands.push_back({channels_.back().data(), static_cast<int64_t>(values.size())});
}

HiddenOrder* LateFormula::spare_memory() {
  for (const Ref<HiddenOrder>& order : there_)
    if (order->refs.load(std::memory_order_acquire) == 1) return order.get();
  for (const Ref<LateElements>& late : late_)
    if (late->refs.load(std::memory_order_acquire) == 1)
      if (HiddenOrder* order = late->spare_memory()) return order;
  return nullptr;
}

void LateFormula::write(void* to, bool in_spare_memory) const {
  formula_.fill(numel_, static_cast<float*>(to), in_spare_memory);
}

Ref<LateElements> late_elements(const Tensor& t) {
  Ref<HiddenOrder> order = hidden_order(t);
  return order && t.dtype() == DType::Float32 ? late_elements(*order) : Ref<LateElements>();
}

Tensor defer(const kernels::Loop& loop, const Tensor* const* inputs, int count,
             const Scalar* numbers, const Tensor& given) {
  const Dims& sizes = inputs[0]->sizes();
  // What a gradient is made of is as a rule read once, by the op before, which then need not wait
  // for another pass.
  bool waits = (mode() & (InBackward | NoGrad)) == (InBackward | NoGrad);
  for (int k = 0; k < count; ++k) {
    if (!can_wait(*inputs[k], sizes)) return {};
    waits = waits || late_elements(*inputs[k]);
  }
  if (!waits || (given.defined() && !can_wait(given, sizes))) return {};
  auto late = make_ref<LateFormula>(kernels::find_strip(loop, DType::Float32));
  for (int i = 0; i < loop.numbers; ++i) late->add_number(numbers[i]);
  for (int k = 0; k < count; ++k) late->add_operand(hidden_order(*inputs[k]));
  if (!given.defined()) return late_like(*inputs[0], std::move(late));
  replace_elements(given, std::move(late));
  return given;
}

Tensor defer_affine(const Tensor& x, const std::vector<double>& scale,
                    const std::vector<double>& shift) {
  if (!can_wait(x, x.sizes())) return {};
  auto late = make_ref<LateFormula>(kernels::affine_strip());
  late->add_operand(hidden_order(x));
  late->add_channels(scale);
  late->add_channels(shift);
  return late_like(x, std::move(late));
}

}  // namespace rl
