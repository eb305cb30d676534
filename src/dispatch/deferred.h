// Elementwise results that wait for the op that reads them, so that a chain of such ops is one pass
// over memory: relu(batch_norm(x) + y), forward, and its mask in the gradient of batch_norm.
//
// Only float32 tensors in hidden order wait (tensor/hidden_order.h), where nobody has an address of
// the elements: reading them by any way writes them first, and an in-place change of what they are
// made of moves to other memory.
#pragma once
#include "kernels/strip_formula.h"
#include "tensor/hidden_order.h"

namespace rl {

// What late elements are: a formula over others. They are held, and so is what has been made for
// it.
class LateFormula final : public LateElements {
 public:
  explicit LateFormula(kernels::StripFunction function) { formula_.function = function; }
  void add_number(const Scalar& number) { formula_.numbers.push_back(number); }
  void add_operand(Ref<HiddenOrder> order);
  void add_channels(const std::vector<double>& values);
  const kernels::StripFormula& formula() const { return formula_; }

  HiddenOrder* spare_memory() override;
  void write(void* to, bool in_spare_memory) const override;

 private:
  kernels::StripFormula formula_;
  std::vector<Ref<HiddenOrder>> there_;
  std::vector<Ref<LateElements>> late_;
  std::vector<std::vector<float>> channels_;
  int64_t numel_ = 0;
};

// The elements that `t` waits for, if it does.
Ref<LateElements> late_elements(const Tensor& t);
// Leaves an elementwise op to the op that reads its result, which is new unless `given`. Undefined
// where it has to run now.
Tensor defer(const kernels::Loop& loop, const Tensor* const* inputs, int count,
             const Scalar* numbers, const Tensor& given);
// x * scale[c] + shift[c], later; undefined where x does not lie in hidden order.
Tensor defer_affine(const Tensor& x, const std::vector<double>& scale,
                    const std::vector<double>& shift);

}  // namespace rl
