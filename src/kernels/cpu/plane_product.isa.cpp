#include "kernels/cpu/plane_product.h"

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int64_t lanes = Vector<float>::lanes;
static_assert(lanes <= plane_slack);

// `count` vectors side by side stay in registers while the taps pass.
template <int count>
void product_of(const PlaneRows& p, const float* from, const float* weights, float bias, float* to,
                int64_t width) {
  vec<float> sum[count];
  for (int k = 0; k < count; ++k) sum[k] = vec<float>{} + bias;
  for (int64_t t = 0; t < p.taps; ++t) {
    const float* x = from + p.offsets[t];
    const vec<float> weight = vec<float>{} + weights[t];
    for (int k = 0; k < count; ++k) sum[k] = mul_add(weight, load(x + k * lanes), sum[k]);
  }
  for (int k = 0; k + 1 < count; ++k) store(to + k * lanes, sum[k]);
  const int64_t last = width - (count - 1) * lanes;
  if (last >= lanes) store(to + (count - 1) * lanes, sum[count - 1]);
  else store_part(to + (count - 1) * lanes, sum[count - 1], last);
}

template <int count>
void dots_of(const PlaneRows& p, const float* grad, const int64_t* offsets, double* sums) {
  vec<float> sum[count] = {};
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t x = 0; x < p.width; x += lanes) {
      const vec<float> slope = load(grad + row * p.step + x);
      const float* from = p.source + row * p.pitch + x;
      for (int k = 0; k < count; ++k) sum[k] = mul_add(slope, load(from + offsets[k]), sum[k]);
    }
  for (int k = 0; k < count; ++k) {
    float total;
    fold_lanes<Add>(sum[k], &total);
    sums[k] += total;
  }
}

}  // namespace

void plane_product(const PlaneRows& p, const float* weights, float bias, float* to) {
  constexpr int64_t most = 8;
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t x = 0; x < p.width; x += most * lanes) {
      const float* from = p.source + row * p.pitch + x;
      float* result = to + row * p.step + x;
      const int64_t left = p.width - x;
      if (left > 4 * lanes) {
        if (left > 7 * lanes) product_of<8>(p, from, weights, bias, result, left);
        else {
          product_of<4>(p, from, weights, bias, result, 4 * lanes);
          x -= 4 * lanes;
        }
      } else if (left > 2 * lanes) {
        if (left > 3 * lanes) product_of<4>(p, from, weights, bias, result, left);
        else product_of<3>(p, from, weights, bias, result, left);
      } else if (left > lanes) {
        product_of<2>(p, from, weights, bias, result, left);
      } else {
        product_of<1>(p, from, weights, bias, result, left);
      }
    }
}

void plane_dots(const PlaneRows& p, const float* grad, double* sums) {
  constexpr int64_t most = 8;
  int64_t t = 0;
  for (; t + most <= p.taps; t += most) dots_of<most>(p, grad, p.offsets + t, sums + t);
  for (; t + 3 <= p.taps; t += 3) dots_of<3>(p, grad, p.offsets + t, sums + t);
  for (; t < p.taps; ++t) dots_of<1>(p, grad, p.offsets + t, sums + t);
}

}  // namespace rl::kernels::RL_ISA
