// Lazy expressions: elementwise results that are computed when they are read, so that a chain of
// such ops is one pass over memory: relu(batch_norm(x) + y), forward, and its mask in the gradient
// of batch_norm. docs/layout_and_laziness.md states the rules.
//
// Only float32 tensors in physical layout are lazy (tensor/physical_layout.h). Nobody has an
// address of their elements: every way of reading them computes them first, and an in-place change
// of an operand leaves the bytes that an expression has leased alone.
#pragma once
#include <optional>

#include "kernels/strip_formula.h"
#include "tensor/physical_layout.h"

namespace rl {

// An elementwise formula over buffers, on which it has leases, and over numbers by channel. A
// value: every copy has leases of its own.
class LazyExpression {
 public:
  explicit LazyExpression(kernels::StripFunction function) { formula_.function = function; }
  LazyExpression(const LazyExpression& other);
  LazyExpression(LazyExpression&&) = default;
  LazyExpression& operator=(LazyExpression other) noexcept;

  void add_number(const Scalar& number) { formula_.numbers.push_back(number); }
  void add_operand(ChannelsLastContents& contents);
  void add_channels(const std::vector<double>& values);
  const kernels::StripFormula& formula() const { return formula_; }
  // How many buffers it reads; numbers by channel do not count.
  int streams() const;
  // Where operands were computed from x alone, which the reader reads anyway, computes them again
  // instead of reading them: less memory to read.
  void rematerialize(const BufferLease& x);
  // The memory of an operand that nothing but this expression needs, for the result of its one
  // evaluation; empty where there is none.
  BufferOwner take_operand();
  // What a buffer with the values of this expression came from, if that was one buffer; gives up
  // all leases.
  std::shared_ptr<const Provenance> release_operands() &&;

 private:
  struct Operand {
    BufferLease buffer;                      // or
    std::unique_ptr<LazyExpression> nested;  // or
    std::shared_ptr<const std::vector<float>> channels;
  };
  struct Origin;
  void add(const kernels::StripFormula::Operand& source, Operand operand);
  void set_nested(size_t i, LazyExpression expression);
  bool find_source(uint64_t& version) const;
  void set_source(const BufferLease& buffer);

  kernels::StripFormula formula_;
  std::vector<Operand> operands_;  // as many as operands of the formula
};

// A copy of the expression of a tensor whose elements have not been computed yet, if it has one.
std::optional<LazyExpression> lazy_expression(const Tensor& t);
// The same for the last reader of `t`, who also reads x: the expression is rematerialized from x,
// and the storage of `t` gets a buffer for new elements, which may be that of an operand. The
// caller writes each of them after reading that element of the expression, and no other.
std::optional<LazyExpression> take_expression(const Tensor& t, const BufferLease& x);

// Leaves an elementwise op to whoever reads its result, which is new unless `given`. Undefined
// where the op has to run now.
Tensor make_lazy(const kernels::Loop& loop, const Tensor* const* inputs, int count,
                 const Scalar* numbers, const Tensor& given);
// x * scale[c] + shift[c], computed when read; undefined where x is not in physical layout.
Tensor make_lazy_affine(const Tensor& x, const std::vector<double>& scale,
                        const std::vector<double>& shift);

}  // namespace rl
