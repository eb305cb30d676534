// Complex numbers, which lie in memory as pairs, and vectors of their parts; for *.isa.cpp files.
#pragma once
#include <utility>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class R> constexpr auto lane_list = std::make_integer_sequence<int, Vector<R>::lanes>();

template <class R> struct Parts {
  vec<R> real, imaginary;
};

template <class R, int... lane>
Parts<R> load_pairs(const R* p, std::integer_sequence<int, lane...>) {
  vec<R> low = load(p), high = load(p + sizeof...(lane));
  return {shuffle<(2 * lane)...>(low, high), shuffle<(2 * lane + 1)...>(low, high)};
}
template <class R> Parts<R> load_pairs(const R* p) { return load_pairs(p, lane_list<R>); }

template <class R, int... lane>
void store_pairs(R* p, vec<R> real, vec<R> imaginary, std::integer_sequence<int, lane...>) {
  constexpr int n = sizeof...(lane);
  store(p, shuffle<(lane / 2 + lane % 2 * n)...>(real, imaginary));
  store(p + n, shuffle<((n + lane) / 2 + lane % 2 * n)...>(real, imaginary));
}
template <class R> void store_pairs(R* p, vec<R> real, vec<R> imaginary) {
  store_pairs(p, real, imaginary, lane_list<R>);
}

// Of a vector of pairs, each one's parts in the other order.
template <class V, int... lane> V swap_pairs(V v, std::integer_sequence<int, lane...>) {
  return shuffle<(lane ^ 1)...>(v, v);
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
