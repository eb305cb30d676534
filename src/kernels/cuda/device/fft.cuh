// Fourier transforms of any length: Stockham's passes, one for each prime factor.
#pragma once
#include "kernels/cuda/device/fft.h"
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

// roots[j] = exp(-+ 2 pi i j / n).
template <class C> __global__ void fft_roots(C* roots, int64_t n, int inverse) {
  using R = real_t<C>;
  for (int64_t j = thread_id(); j < n; j += thread_count()) {
    double angle = 6.283185307179586477 * static_cast<double>(j) / static_cast<double>(n);
    double sine = math::sin(angle);
    roots[j] = C(static_cast<R>(math::cos(angle)), static_cast<R>(inverse ? sine : -sine));
  }
}

__device__ inline bool stands_for_two(const FftEnd& end, int64_t k, int64_t n) {
  return end.twice && k != 0 && 2 * k != n;
}
template <class C> __global__ void fft_load(const void* from, C* to, FftLines l, FftEnd end) {
  using R = real_t<C>;
  int64_t held = end.kind == FftHalf ? l.n / 2 + 1 : l.n, total = l.outer * l.n * l.inner;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t k = i / l.inner % l.n, outer = i / l.inner / l.n;
    int64_t at = (outer * held + k) * l.inner + i % l.inner;
    C value(R(0), R(0));
    if (end.kind == FftReal) value = C(static_cast<const R*>(from)[at], R(0));
    else if (k < held) value = static_cast<const C*>(from)[at];
    if (end.kind == FftHalf && stands_for_two(end, k, l.n))
      value = C(value.real() * 2, value.imag() * 2);
    to[i] = value;
  }
}
template <class C> __global__ void fft_store(const C* from, void* to, FftLines l, FftEnd end) {
  using R = real_t<C>;
  int64_t held = end.kind == FftHalf ? l.n / 2 + 1 : l.n, total = l.outer * held * l.inner;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t k = i / l.inner % held, outer = i / l.inner / held;
    C value = from[(outer * l.n + k) * l.inner + i % l.inner];
    R factor = static_cast<R>(end.scale);
    if (end.kind == FftHalf && stands_for_two(end, k, l.n)) factor *= 2;
    if (end.kind == FftReal) static_cast<R*>(to)[i] = value.real() * factor;
    else static_cast<C*>(to)[i] = C(value.real() * factor, value.imag() * factor);
  }
}

// from[k, j], k < before, is the transform's k-th point of every (n / before)-th element from j on;
// to[k, j], k < before * radix, that of every (n / before / radix)-th.
template <class C>
__global__ void fft_pass(const C* from, C* to, const C* roots, FftLines l, FftPass p) {
  int64_t points = p.before * p.radix, apart = l.n / points, total = l.outer * l.n * l.inner;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t inner = i % l.inner, place = i / l.inner % l.n, outer = i / l.inner / l.n;
    int64_t k = place / apart, j = place % apart;
    const C* line = from + (outer * l.n + k % p.before * apart * p.radix + j) * l.inner + inner;
    C sum = line[0];
    int64_t turn = 0;  // q k modulo points
    for (int64_t q = 1; q < p.radix; ++q) {
      turn += k;
      if (turn >= points) turn -= points;
      sum = sum + math::times(roots[turn * apart], line[q * apart * l.inner]);
    }
    to[i] = sum;
  }
}

}  // namespace rl::cuda
