#include "kernels/cpu/resample_loops.h"

#include <cstring>

#include "math/arithmetic.h"

namespace rl::kernels::RL_ISA {

using math::mul_add;

namespace {

// Lines of single elements: width is a constant of the loop where that is of use.
template <int width, class C>
void gather_line(const TapTable<C>& taps, const C* __restrict line, C* __restrict to) {
  int64_t n = width ? width : taps.width;
  for (int64_t o = 0; o < taps.out; ++o) {
    const C* weight = taps.weight + o * n;
    const int32_t* place = taps.place + o * n;
    C sum = weight[0] * line[place[0]];
    for (int64_t k = 1; k < n; ++k) sum = mul_add(weight[k], line[place[k]], sum);
    to[o] = sum;
  }
}

template <class C> void gather_row(const TapTable<C>& taps, int64_t o, const C* line,
                                   C* __restrict row, int64_t inner) {
  const C* weight = taps.weight + o * taps.width;
  const int32_t* place = taps.place + o * taps.width;
  const C* __restrict first = line + place[0] * inner;
  if (taps.width == 2) {
    const C* __restrict second = line + place[1] * inner;
    for (int64_t i = 0; i < inner; ++i)
      row[i] = mul_add(weight[1], second[i], weight[0] * first[i]);
    return;
  }
  for (int64_t i = 0; i < inner; ++i) row[i] = weight[0] * first[i];
  for (int64_t k = 1; k < taps.width; ++k) {
    const C* __restrict source = line + place[k] * inner;
    for (int64_t i = 0; i < inner; ++i) row[i] = mul_add(weight[k], source[i], row[i]);
  }
}

template <class C>
void resample(const TapTable<C>& taps, const C* from, C* to, int64_t outer, int64_t inner) {
  for (int64_t n = 0; n < outer; ++n) {
    const C* line = from + n * taps.in * inner;
    C* lines = to + n * taps.out * inner;
    if (inner > 1)
      for (int64_t o = 0; o < taps.out; ++o) gather_row(taps, o, line, lines + o * inner, inner);
    else if (taps.width == 1) gather_line<1>(taps, line, lines);
    else if (taps.width == 2) gather_line<2>(taps, line, lines);
    else gather_line<0>(taps, line, lines);
  }
}

template <class C> void resample_transposed(const TapTable<C>& taps, const C* from, C* to,
                                            int64_t outer, int64_t inner) {
  std::memset(to, 0, static_cast<size_t>(outer * taps.in * inner) * sizeof(C));
  for (int64_t n = 0; n < outer; ++n)
    for (int64_t o = 0; o < taps.out; ++o) {
      const C* __restrict row = from + (n * taps.out + o) * inner;
      for (int64_t k = 0; k < taps.width; ++k) {
        C weight = taps.weight[o * taps.width + k];
        C* __restrict target = to + (n * taps.in + taps.place[o * taps.width + k]) * inner;
        if (inner == 1) *target = mul_add(weight, *row, *target);
        else
          for (int64_t i = 0; i < inner; ++i) target[i] = mul_add(weight, row[i], target[i]);
      }
    }
}

}  // namespace

void resample_f32(const TapTable<float>& taps, const float* from, float* to, int64_t outer,
                  int64_t inner) {
  resample(taps, from, to, outer, inner);
}
void resample_f64(const TapTable<double>& taps, const double* from, double* to, int64_t outer,
                  int64_t inner) {
  resample(taps, from, to, outer, inner);
}
void resample_transposed_f32(const TapTable<float>& taps, const float* from, float* to,
                             int64_t outer, int64_t inner) {
  resample_transposed(taps, from, to, outer, inner);
}
void resample_transposed_f64(const TapTable<double>& taps, const double* from, double* to,
                             int64_t outer, int64_t inner) {
  resample_transposed(taps, from, to, outer, inner);
}

}  // namespace rl::kernels::RL_ISA
