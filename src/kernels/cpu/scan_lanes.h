// What the scans of sums and of extremes share: for *.isa.cpp files.
#pragma once
#include <utility>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/scan_rows.h"

namespace rl::kernels::RL_ISA {
namespace {

// A vector of few or many lanes; of one, the number: gcc keeps vectors of that size in memory.
template <class T, int lanes> struct LanesOf {
  using type = vec<T, lanes * sizeof(T)>;
};
template <class T> struct LanesOf<T, 1> {
  using type = T;
};
template <class T, int lanes> using Lanes = typename LanesOf<T, lanes>::type;

// Lane k becomes lane k - step of v, the first lanes those of `start`.
template <int step, class A, int... k>
RL_INLINE vec<A> shifted(vec<A> v, vec<A> start, std::integer_sequence<int, k...>) {
  constexpr int lanes = sizeof...(k);
  return shuffle<(k < step ? k : lanes + k - step)...>(start, v);
}

// Lane k becomes the fold of lanes 0 to k, in as many steps as the number of lanes has bits.
template <class Op, class A, int step = 1>
RL_INLINE vec<A> prefix(vec<A> v, vec<A> identity) {
  if constexpr (step < Vector<A>::lanes) {
    auto all = std::make_integer_sequence<int, Vector<A>::lanes>();
    return prefix<Op, A, 2 * step>(Op::apply(shifted<step, A>(v, identity, all), v), identity);
  } else {
    return v;
  }
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
