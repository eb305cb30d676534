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

// What late elements are: a formula over others, which are held.
class LateFormula final : public LateElements {
 public:
  explicit LateFormula(kernels::StripFunction function) { formula_.function = function; }
  void add_number(const Scalar& number) { formula_.numbers.push_back(number); }
  void add_operand(Ref<HiddenOrder> order);
  void add_channels(const std::vector<double>& values);
  const kernels::StripFormula& formula() const { return formula_; }
  // How many streams from memory it reads; what there is of each channel is none.
  int streams() const;
  // The same by way of x, which its reader reads anyway, where operands came of x alone: one
  // stream from memory less.
  Ref<LateFormula> by_way_of(const Ref<HiddenOrder>& x) const;

  HiddenOrder* spare_memory() override;
  void write(void* to, bool in_spare_memory) const override;
  bool let_go() override;

 private:
  struct Operand {
    Ref<HiddenOrder> there;  // or
    Ref<LateFormula> late;   // or
    std::shared_ptr<const std::vector<float>> channels;
  };
  void add(const kernels::StripFormula::Operand& source, Operand held);
  kernels::StripFormula formula_;
  std::vector<Operand> held_;  // as many as operands of the formula
  int64_t numel_ = 0;
  uint64_t came_of_ =
      0;  // once it has let go: the serial number of the order that was its only one
};

// What the elements of `t` will be, if they are late.
Ref<LateFormula> late_formula(const Tensor& t);
// Leaves an elementwise op to the op that reads its result, which is new unless `given`. Undefined
// where it has to run now.
Tensor defer(const kernels::Loop& loop, const Tensor* const* inputs, int count,
             const Scalar* numbers, const Tensor& given);
// x * scale[c] + shift[c], later; undefined where x does not lie in hidden order.
Tensor defer_affine(const Tensor& x, const std::vector<double>& scale,
                    const std::vector<double>& shift);

}  // namespace rl
