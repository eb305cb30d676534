#include "kernels/cpu/combine.h"
#include "kernels/cpu/reduced_loops.h"

namespace rl::kernels::RL_ISA {
namespace {

template <Combine op, class T>
void row(void* to, const void* from, bool constant, int64_t n) {
  T* y = static_cast<T*>(to);
  const T *x = static_cast<const T*>(from), first = *x;
  if (constant)
    for (int64_t i = 0; i < n; ++i) y[i] = combine<op>(y[i], first);
  else
    for (int64_t i = 0; i < n; ++i) y[i] = combine<op>(y[i], x[i]);
}

template <class T>
void add_reduced(void* to, const void* from, int64_t n) {
  if constexpr (has_reduced_loops<T>) {
    constexpr int64_t lanes = Vector<float>::lanes;
    T* y = static_cast<T*>(to);
    const T* x = static_cast<const T*>(from);
    // One vector of a short row: the copies of reduced_loop would double the time of 16 bfloat16.
    if (n >= lanes && n < reduced_lanes<T>) {
      store_narrow(y, load_wide(y) + load_wide(x));
      n -= lanes, y += lanes, x += lanes;
    }
    void* const operands[] = {y, y, const_cast<T*>(x)};
    reduced_loop<T, 0>(n, operands, [](auto a, auto b) { return a + b; });
  } else {
    row<Combine::Sum, T>(to, from, false, n);
  }
}

}  // namespace

void add_reduced_row(DType dtype, void* to, const void* from, int64_t n) {
  if (dtype == DType::Float16) return add_reduced<half>(to, from, n);
  add_reduced<bfloat16>(to, from, n);
}

void combine_row(DType dtype, Combine op, void* to, const void* from, bool constant, int64_t n) {
  visit<Bool, uint8_t, int8_t, int16_t, int32_t, int64_t, float, double>(
      "combine", dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        switch (op) {
          case Combine::Sum: return row<Combine::Sum, T>(to, from, constant, n);
          case Combine::Prod: return row<Combine::Prod, T>(to, from, constant, n);
          case Combine::Max: return row<Combine::Max, T>(to, from, constant, n);
          case Combine::Min: return row<Combine::Min, T>(to, from, constant, n);
          case Combine::Set:
          case Combine::Mean: return;
        }
      });
}

}  // namespace rl::kernels::RL_ISA
