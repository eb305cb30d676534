// The element operations of scatter, index_put and their kind, and dispatch over them.
#pragma once
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/view.h"
#include "kernels/copy.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/workspace.h"
#include "kernels/index.h"
#include "math/arithmetic.h"

namespace rl::kernels {

// What `a` becomes when `b` is written over it. Integers wrap around; NaN wins over all numbers.
template <Combine op, class T>
RL_INLINE T combine(T a, T b) {
  if constexpr (op == Combine::Set) {
    return b;
  } else if constexpr (!std::is_same_v<T, compute_t<T>>) {
    return T(combine<op, compute_t<T>>(a, b));
  } else if constexpr (op == Combine::Max) {  // a choice of one instruction, then one that is rare
    T high = b > a ? b : a;
    return b != b ? b : high;
  } else if constexpr (op == Combine::Min) {
    T low = b < a ? b : a;
    return b != b ? b : low;
  } else if constexpr (std::is_same_v<T, bool>) {
    return op == Combine::Sum ? a || b : a && b;
  } else if constexpr (std::is_integral_v<T>) {
    uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(op == Combine::Sum ? x + y : x * y);
  } else {
    return op == Combine::Sum ? a + b : a * b;
  }
}

// The element that leaves every other unchanged.
template <class T>
T identity(Combine op) {
  using L = std::numeric_limits<compute_t<T>>;
  if (op == Combine::Prod) return T(1);
  if constexpr (!is_complex_v<T>) {
    if (op == Combine::Max) return T(L::has_infinity ? -L::infinity() : L::lowest());
    if (op == Combine::Min) return T(L::has_infinity ? L::infinity() : L::max());
  }
  return T(0);
}

template <Combine op> using CombineTag = std::integral_constant<Combine, op>;

// f(TypeTag<T>, CombineTag<op>) for the dtype and op, of which Mean is none.
template <class F>
void visit_combine(const char* name, DType t, Combine op, F&& f) {
  if (op == Combine::Set)
    return visit_size(t, [&](auto tag) { f(tag, CombineTag<Combine::Set>()); });
  check_implemented(!is_complex(t) || op == Combine::Sum || op == Combine::Prod, name,
                    ": no order among elements of dtype ", t);
  visit_all(name, t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (op == Combine::Sum) return f(tag, CombineTag<Combine::Sum>());
    if (op == Combine::Prod) return f(tag, CombineTag<Combine::Prod>());
    if constexpr (!is_complex_v<T>) {
      if (op == Combine::Max) return f(tag, CombineTag<Combine::Max>());
      return f(tag, CombineTag<Combine::Min>());
    }
  });
}

// Sum, Prod, Max or Min of n >= 1 contiguous elements, real and not reduced, and as many others or
// one.
RL_ISA_KERNEL(combine_row,
              (DType dtype, Combine op, void* to, const void* from, bool constant, int64_t n))
// The sum of as many float16 or bfloat16.
RL_ISA_KERNEL(add_reduced_row, (DType dtype, void* to, const void* from, int64_t n))
// The same for elements at any steps in bytes; `to` may step by 0, and then takes them in order.
void combine_run(DType dtype, Combine op, char* to, int64_t to_step, const char* from,
                 int64_t from_step, int64_t n);

// One element, read at every place of a shape.
class Constant {
 public:
  template <class T>
  Constant(T value, IntSpan sizes) : strides_(sizes.size(), 0) {
    std::memcpy(element_, &value, sizeof(T));
    view_ = {element_, sizes.data(), strides_.data(), sizes.size(), product(sizes), dtype_of<T>};
  }
  Constant(const Constant&) = delete;
  const View& view() const { return view_; }

 private:
  alignas(16) char element_[16];
  Dims strides_;
  View view_;
};

// work(self, src), which combines short rows at so many indices; those of 16-bit floats in copies,
// as converting one element takes ten times as long as one of many.
template <class Work>
void combine_wide(const View& self, const View& src, int64_t indices, Combine op, Work&& work) {
  constexpr int64_t short_row = 16;
  bool many = src.numel < short_row * indices && self.numel <= 4 * src.numel;
  if (!is_reduced(self.dtype) || op == Combine::Set || !many) return work(self, src);
  const RowMajor wide = RowMajor::copy_of(self, DType::Float32);
  const RowMajor values = RowMajor::copy_of(src, DType::Float32);
  work(wide.view(), values.view());
  copy(wide.view(), self);
}

// self /= max(counts, 1), rounding integers down. counts: int64, contiguous, of self's sizes.
void divide_by_counts(const char* name, const View& self, const View& counts);

// Carries out `op` by steps apply(self, src, op) with the ops that visit_combine knows: places
// that are written start from the identity unless include_self, and a mean is a sum and a count.
template <class Apply>
void combine_by_steps(const char* name, const View& self, const View& src, Combine op,
                      bool include_self, Apply&& apply) {
  if (op != Combine::Set && !include_self)
    visit_all(name, self.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      apply(self, Constant(identity<T>(op), src.shape()).view(), Combine::Set);
    });
  if (op != Combine::Mean) return apply(self, src, op);
  apply(self, src, Combine::Sum);
  Scratch<int64_t> counts(static_cast<size_t>(self.numel), include_self ? 1 : 0);
  Dims strides = contiguous_strides(self.shape());
  View count_view{counts.data(), self.sizes, strides.data(), self.ndim, self.numel, DType::Int64};
  apply(count_view, Constant(int64_t(1), src.shape()).view(), Combine::Sum);
  divide_by_counts(name, self, count_view);
}

}  // namespace rl::kernels
