#include "kernels/cpu/scan_rows.h"

#include <utility>

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class A> constexpr int lanes_of = vector_bytes / static_cast<int>(sizeof(A));

template <class A, class T> RL_INLINE vec<A> load_as(const T* x) {
  typedef T V __attribute__((vector_size(sizeof(T) * lanes_of<A>)));
  V v;
  __builtin_memcpy(&v, x, sizeof v);
  return __builtin_convertvector(v, vec<A>);
}
template <class T, class A> RL_INLINE void store_as(T* y, vec<A> a) {
  typedef T V __attribute__((vector_size(sizeof(T) * lanes_of<A>)));
  V v = __builtin_convertvector(a, V);
  __builtin_memcpy(y, &v, sizeof v);
}

// Lane k becomes lane k - step of v, the first lanes those of `start`.
template <int step, class A, int... k>
RL_INLINE vec<A> shifted(vec<A> v, vec<A> start, std::integer_sequence<int, k...>) {
  constexpr int lanes = sizeof...(k);
  return shuffle<(k < step ? k : lanes + k - step)...>(start, v);
}

// Lane k becomes the fold of lanes 0 to k, in as many steps as the number of lanes has bits.
template <class Op, class A, int step = 1>
RL_INLINE vec<A> prefix(vec<A> v, vec<A> identity) {
  if constexpr (step < lanes_of<A>) {
    auto all = std::make_integer_sequence<int, lanes_of<A>>();
    return prefix<Op, A, 2 * step>(Op::apply(shifted<step, A>(v, identity, all), v), identity);
  } else {
    return v;
  }
}

template <class Op, class A, class T>
void scan(const T* x, T* y, int64_t n, A identity, A* carry) {
  constexpr int lanes = lanes_of<A>;
  vec<A> start = identity - vec<A>{}, total = *carry - vec<A>{};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    vec<A> folded = prefix<Op, A>(load_as<A>(x + i), start);
    store_as<T, A>(y + i, Op::apply(total, folded));
    // The one step that waits for the step before it.
    total = Op::apply(total, vec<A>(folded[lanes - 1] - vec<A>{}));
  }
  A last = total[0];
  for (; i < n; ++i) y[i] = static_cast<T>(last = Op::apply(last, static_cast<A>(x[i])));
  *carry = last;
}

template <class Op>
void scan_typed(DType element, const void* x, void* y, int64_t n, int identity, void* carry) {
  double* sum = static_cast<double*>(carry);
  double start = identity;
  if (element == DType::Float32)
    return scan<Op>(static_cast<const float*>(x), static_cast<float*>(y), n, start, sum);
  if (element == DType::Float64)
    return scan<Op>(static_cast<const double*>(x), static_cast<double*>(y), n, start, sum);
  scan<Op>(static_cast<const uint64_t*>(x), static_cast<uint64_t*>(y), n,
           static_cast<uint64_t>(identity), static_cast<uint64_t*>(carry));
}

}  // namespace

void scan_row(bool product, DType element, const void* x, void* y, int64_t n, void* carry) {
  if (product) scan_typed<Multiply>(element, x, y, n, 1, carry);
  else scan_typed<Add>(element, x, y, n, 0, carry);
}

}  // namespace rl::kernels::RL_ISA
