#include "dispatch/deferred.h"

namespace rl {

namespace {

Ref<LateFormula> as_formula(const Ref<LateElements>& late) {
  return Ref<LateFormula>::share(static_cast<LateFormula*>(late.get()));
}

bool can_wait(const Tensor& t, const Dims& sizes) {
  return t.dtype() == DType::Float32 && !t.impl()->data && t.sizes() == sizes && in_hidden_order(t);
}

Tensor late_like(const Tensor& like, Ref<LateElements> late) {
  int64_t bytes = like.numel() * itemsize(like.dtype());
  return hidden_like(like, make_ref<HiddenOrder>(like.sizes(), bytes, nullptr, std::move(late)));
}

}  // namespace

void LateFormula::add(const kernels::StripFormula::Operand& source, Operand held) {
  formula_.operands.push_back(source);
  held_.push_back(std::move(held));
}

void LateFormula::add_operand(Ref<HiddenOrder> order) {
  numel_ = product(order->sizes);
  Ref<LateFormula> late = as_formula(rl::late_elements(*order));
  if (late && formula_.size() + late->formula_.size() <= kernels::max_strip_formulas) {
    const kernels::StripFormula* formula = &late->formula_;
    return add({nullptr, 0, formula}, {nullptr, std::move(late), nullptr});
  }
  const auto* data = static_cast<const float*>(elements(*order));
  add({data}, {std::move(order), nullptr, nullptr});
}

void LateFormula::add_channels(const std::vector<double>& values) {
  auto all = std::make_shared<const std::vector<float>>(kernels::repeated(values));
  const float* data = all->data();
  add({data, static_cast<int64_t>(values.size())}, {nullptr, nullptr, std::move(all)});
}

int LateFormula::streams() const {
  int count = 0;
  for (const Operand& held : held_) count += held.late ? held.late->streams() : held.there ? 1 : 0;
  return count;
}

Ref<LateFormula> LateFormula::by_way_of(const Ref<HiddenOrder>& x) const {
  auto changed = make_ref<LateFormula>(formula_.function);
  changed->formula_.numbers = formula_.numbers;
  changed->numel_ = numel_;
  for (size_t i = 0; i < held_.size(); ++i) {
    Ref<LateFormula> origin;
    if (held_[i].there) origin = as_formula(origin_of(*held_[i].there));
    bool ours = origin && origin->came_of_ == x->serial;
    if (ours) changed->add({nullptr, 0, &origin->formula_}, {nullptr, origin, nullptr});
    else changed->add(formula_.operands[i], held_[i]);
  }
  bool fits = changed->formula_.size() <= kernels::max_strip_formulas;
  return fits ? changed : Ref<LateFormula>();
}

HiddenOrder* LateFormula::spare_memory() {
  for (const Operand& held : held_)
    if (held.there && held.there->refs.load(std::memory_order_acquire) == 1)
      return held.there.get();
  for (const Operand& held : held_)
    if (held.late && held.late->refs.load(std::memory_order_acquire) == 1)
      if (HiddenOrder* order = held.late->spare_memory()) return order;
  return nullptr;
}

void LateFormula::write(void* to, bool in_spare_memory) const {
  formula_.fill(numel_, static_cast<float*>(to), in_spare_memory);
}

bool LateFormula::let_go() {
  bool one = true, found = false;
  for (Operand& held : held_) {
    uint64_t source = 0;
    if (held.there) {
      source = held.there->serial;
      one = one && held.there->data.load(std::memory_order_acquire);
    } else if (held.late) {
      one = one && held.late->refs.load(std::memory_order_acquire) == 1 && held.late->let_go();
      source = held.late->came_of_;
    } else {
      continue;
    }
    one = one && (!found || source == came_of_);
    came_of_ = source;
    found = true;
    held.there = nullptr;
  }
  return one && found;
}

Ref<LateFormula> late_formula(const Tensor& t) {
  Ref<HiddenOrder> order = hidden_order(t);
  if (!order || t.dtype() != DType::Float32) return {};
  return as_formula(rl::late_elements(*order));
}

Tensor defer(const kernels::Loop& loop, const Tensor* const* inputs, int count,
             const Scalar* numbers, const Tensor& given) {
  const Dims& sizes = inputs[0]->sizes();
  // What a gradient is made of is as a rule read once, by the op before, which then need not wait
  // for another pass.
  bool waits = (mode() & (InBackward | NoGrad)) == (InBackward | NoGrad);
  for (int k = 0; k < count; ++k) {
    if (!can_wait(*inputs[k], sizes)) return {};
    waits = waits || late_formula(*inputs[k]);
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
