#include "kernels/cpu/depthwise.h"

#include <algorithm>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

using V = vec<float>;
constexpr int lanes = Vector<float>::lanes, parts = strip_width / lanes;
constexpr int most_pixels = 8 / parts;  // whose sums stay in registers
constexpr int most_taps = parts == 1 ? 9 : 8 / parts;

// `width` channels of a strip, of which only the last has less than all. A step that is known
// spares a chain of additions, which is longer than the products.
template <int pixels, int known_step>
void product(const TapProduct& p, const float* in, const float* weights, const float* bias,
             float* out, int64_t width) {
  int64_t step = known_step ? known_step : p.in_step;
  V sums[pixels][parts];
#pragma GCC unroll 8
  for (int x = 0; x < pixels; ++x)
#pragma GCC unroll 4
    for (int i = 0; i < parts; ++i) sums[x][i] = bias ? load(bias + i * lanes) : V{};
  for (int64_t t = 0; t < p.tap_count; ++t) {
    const float *at = in + p.taps[t].in, *weight = weights + p.taps[t].weight;
#pragma GCC unroll 4
    for (int i = 0; i < parts; ++i) {
      V w = load(weight + i * lanes);
#pragma GCC unroll 8
      for (int x = 0; x < pixels; ++x)
        sums[x][i] = mul_add(load(at + x * step + i * lanes), w, sums[x][i]);
    }
  }
#pragma GCC unroll 8
  for (int x = 0; x < pixels; ++x)
#pragma GCC unroll 4
    for (int i = 0; i < parts; ++i) {
      V sum = sums[x][i];
      float* to = out + x * p.out_step + i * lanes;
      if (width >= (i + 1) * lanes) store(to, sum);
      else
        for (int64_t k = 0; k < width - i * lanes; ++k) to[k] = sum[k];
    }
}

// Fewer than `pixels` pixels.
template <int pixels, int step>
void last_product(const TapProduct& p, const float* in, const float* weights, const float* bias,
                  float* out, int64_t width, int64_t count) {
  if constexpr (pixels > 1) {
    if (count == pixels - 1) return product<pixels - 1, step>(p, in, weights, bias, out, width);
    last_product<pixels - 1, step>(p, in, weights, bias, out, width, count);
  }
}

// A row of a strip.
template <int step>
void row_product(const TapProduct& p, const float* in, const float* weights, const float* bias,
                 float* out, int64_t width) {
  int64_t x = 0;
  for (; x + most_pixels <= p.columns; x += most_pixels)
    product<most_pixels, step>(p, in + x * p.in_step, weights, bias, out + x * p.out_step, width);
  if (x < p.columns)
    last_product<most_pixels, step>(p, in + x * p.in_step, weights, bias, out + x * p.out_step,
                                    width, p.columns - x);
}

template <int taps> void sum_taps(const TapGradient& g, int64_t first) {
  V sums[taps][parts];
  const float* at[taps];
  for (int t = 0; t < taps; ++t) {
    at[t] = g.in + g.taps[first + t].in;
    for (int i = 0; i < parts; ++i)
      sums[t][i] = load(g.sums + (first + t) * strip_width + i * lanes);
  }
  const float* grad = g.grad;
  for (int64_t y = 0; y < g.rows; ++y)
    for (int64_t x = 0; x < g.columns; ++x, grad += strip_width) {
      int64_t here = y * g.in_row + x * g.in_step;
#pragma GCC unroll 4
      for (int i = 0; i < parts; ++i) {
        V d = load(grad + i * lanes);
#pragma GCC unroll 9
        for (int t = 0; t < taps; ++t)
          sums[t][i] = mul_add(load(at[t] + here + i * lanes), d, sums[t][i]);
      }
    }
  for (int t = 0; t < taps; ++t)
    for (int i = 0; i < parts; ++i)
      store(g.sums + (first + t) * strip_width + i * lanes, sums[t][i]);
}

template <int taps = most_taps> void sum_all_taps(const TapGradient& g, int64_t first) {
  for (; first + taps <= g.tap_count; first += taps) sum_taps<taps>(g, first);
  if constexpr (taps > 1)
    if (first < g.tap_count) sum_all_taps<taps / 2>(g, first);
}

}  // namespace

void tap_product(const TapProduct& p) {
  constexpr int one = strip_width, two = 2 * strip_width;
  auto row = p.in_step == one   ? row_product<one>
             : p.in_step == two ? row_product<two>
                                : row_product<0>;
  for (int64_t first = 0; first < p.rows; first += p.rows_together)
    for (int64_t s = 0, c = 0; c < p.channels; ++s, c += strip_width)
      for (int64_t y = first; y < std::min(p.rows, first + p.rows_together); ++y)
        row(p, p.in + s * p.in_strip + y * p.in_row, p.weights + s * p.weight_strip,
            p.bias ? p.bias + c : nullptr, p.out + c + y * p.out_row, p.channels - c);
}

void tap_gradient(const TapGradient& gradient) { sum_all_taps(gradient, 0); }

void spread_to_strips(const float* from, int64_t pixels, int64_t channels, float* to,
                      int64_t strip_step) {
  constexpr int64_t together = 8;  // strips: 512 bytes of each pixel
  int64_t whole = channels / strip_width, rest = channels % strip_width;
  for (int64_t first = 0; first < whole; first += together)
    for (int64_t x = 0; x < pixels; ++x)
      for (int64_t s = first; s < std::min(whole, first + together); ++s)
        for (int i = 0; i < parts; ++i)
          store(to + s * strip_step + x * strip_width + i * lanes,
                load(from + x * channels + s * strip_width + i * lanes));
  if (!rest) return;
  for (int64_t x = 0; x < pixels; ++x) {
    float pixel[strip_width] = {};
    std::memcpy(pixel, from + x * channels + whole * strip_width, static_cast<size_t>(rest) * 4);
    std::memcpy(to + whole * strip_step + x * strip_width, pixel, sizeof pixel);
  }
}

}  // namespace rl::kernels::RL_ISA
