#include "kernels/cpu/group_product.h"

#include <algorithm>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

using V = vec<float>;
using At = vec<int32_t>;
constexpr int lanes = Vector<float>::lanes;
constexpr int most_pixels = vector_registers == 32 ? 8 : 4;    // whose sums stay in registers
constexpr int most_weights = vector_registers == 32 ? 12 : 8;  // the same of a gradient

// Some channels of a pixel: all lanes of a vector, or the first of them.
template <bool whole> struct Channels {
  int64_t first, count;
  RL_INLINE V read(const float* pixel) const {
    if constexpr (whole) return load(pixel + first);
    else return load_part(pixel + first, count);
  }
  RL_INLINE void write(float* pixel, V v) const {
    if constexpr (whole) store(pixel + first, v);
    else store_part(pixel + first, v, count);
  }
};

// For each member of a group, the lanes that have its number in each lane's group.
template <int members> struct Members {
  At at[members];
  Members() {
    for (int m = 0; m < members; ++m)
      for (int i = 0; i < lanes; ++i) at[m][i] = i / members * members + m;
  }
  RL_INLINE V operator()(V v, int m) const {
    if constexpr (members == 1) return v;
    else return permute<float, int32_t>(v, at[m]);
  }
};

template <int members, int pixels, bool whole>
void product(const GroupProduct& p, int64_t row, const float* weights, Channels<whole> channels) {
  Members<members> member;
  V sums[pixels], start = p.bias ? channels.read(p.bias) : V{};
  const float* in[pixels];
#pragma GCC unroll 8
  for (int x = 0; x < pixels; ++x) {
    sums[x] = start;
    in[x] = p.in + p.rows[row + x];
  }
  // What the last tap sees of the next pixels comes from memory meanwhile: twice as fast.
  if (p.tap_count) {
    int64_t ahead = p.taps[p.tap_count - 1].in + pixels * p.channels + channels.first;
#pragma GCC unroll 8
    for (int x = 0; x < pixels; ++x) __builtin_prefetch(in[x] + ahead);
  }
  for (int64_t t = 0; t < p.tap_count; ++t) {
    int64_t at = p.taps[t].in;
    const float* weight = weights + p.taps[t].weight;
    V seen[pixels];
#pragma GCC unroll 8
    for (int x = 0; x < pixels; ++x) seen[x] = channels.read(in[x] + at);
#pragma GCC unroll 8
    for (int m = 0; m < members; ++m) {
      V w = load(weight + m * p.member);
#pragma GCC unroll 8
      for (int x = 0; x < pixels; ++x) sums[x] = mul_add(member(seen[x], m), w, sums[x]);
    }
  }
#pragma GCC unroll 8
  for (int x = 0; x < pixels; ++x) channels.write(p.out + p.out_rows[row + x], sums[x]);
}

// Calls f(channels, offset of their weights) for all channels.
template <class F> void for_channels(const GroupProduct& p, F f) {
  for (int64_t c = 0; c < p.channels; c += lanes) {
    int64_t offset = c / strip_lanes * p.strip + c % strip_lanes;
    if (c + lanes <= p.channels) f(Channels<true>{c, lanes}, offset);
    else f(Channels<false>{c, p.channels - c}, offset);
  }
}

template <int members, int pixels = most_pixels>
void products(const GroupProduct& p, int64_t row = 0) {
  for (; row + pixels <= p.count; row += pixels)
    for_channels(p, [&](auto channels, int64_t offset) {
      product<members, pixels>(p, row, p.weights + offset, channels);
    });
  if constexpr (pixels > 1)
    if (row < p.count) products<members, pixels / 2>(p, row);
}

template <int members, int taps, bool whole>
void gradient(const GroupProduct& p, const GroupProduct::Tap* tap, float* to,
              Channels<whole> channels) {
  Members<members> member;
  V sums[taps][members] = {};
  int64_t ahead = 8 * p.channels + channels.first;
  for (int64_t r = 0; r < p.count; ++r) {
    const float* in = p.in + p.rows[r];
    V grad = channels.read(p.out + p.out_rows[r]);
    __builtin_prefetch(in + tap[taps - 1].in + ahead);
    __builtin_prefetch(p.out + p.out_rows[r] + ahead);
#pragma GCC unroll 16
    for (int t = 0; t < taps; ++t) {
      V seen = channels.read(in + tap[t].in);
#pragma GCC unroll 8
      for (int m = 0; m < members; ++m) sums[t][m] = mul_add(member(seen, m), grad, sums[t][m]);
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < taps; ++t)
#pragma GCC unroll 8
    for (int m = 0; m < members; ++m) {
      float* at = to + tap[t].weight + m * p.member;
      store(at, load(at) + sums[t][m]);
    }
}

// Some taps at a time, for as many channels as they are: what they read stays in the caches.
template <int members, int taps = most_weights / members>
void gradients(const GroupProduct& p, float* sums, int64_t first = 0) {
  for (; first + taps <= p.tap_count; first += taps)
    for_channels(p, [&](auto channels, int64_t offset) {
      gradient<members, taps>(p, p.taps + first, sums + offset, channels);
    });
  if constexpr (taps > 1)
    if (first < p.tap_count) gradients<members, (taps + 1) / 2>(p, sums, first);
}

template <class F> void with_members(int64_t members, F f) {
  switch (members) {
    case 1: return f(std::integral_constant<int, 1>());
    case 2: return f(std::integral_constant<int, 2>());
    case 4: return f(std::integral_constant<int, 4>());
    default:
      if constexpr (lanes >= 8) f(std::integral_constant<int, 8>());
  }
}

}  // namespace

void group_product(const GroupProduct& p) {
  with_members(p.members, [&](auto members) { products<members()>(p); });
}

void group_gradient(const GroupProduct& p, float* sums) {
  with_members(p.members, [&](auto members) { gradients<members()>(p, sums); });
}

}  // namespace rl::kernels::RL_ISA
