// The loops of Fourier transforms: many lines at once, one in each lane of vectors.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

constexpr int64_t most_fft_lanes = 16;
// A butterfly of radix r costs r^2: 101 points take 0.3 of the time of a convolution.
constexpr int64_t largest_fft_radix = 127;

// Point p of line l is at in + l * in_line + p * in_step, its imaginary part in_imag after that:
// all steps are in numbers R. `in` and `out` are the same memory or have none in common.
template <class R> struct FftPairs;
template <class R> struct FftLines {
  const R* in;
  int64_t in_line, in_step, in_imag;
  R* out;
  int64_t out_line, out_step, out_imag;
  int64_t lines;
  bool turned_in,
      turned_out;  // real and imaginary parts change places, which inverts the transform
  R scale;
  const R* factors = nullptr;  // of each result, laid out as `out`; or null
  R* scratch = nullptr;        // 4 * (points + 1) * most_fft_lanes
  // Or null: real lines of 2 * points numbers as so many complex ones. Lines of one point more are
  // mixed in pairs before the transform, or else its results are, to such lines; `ends` is the
  // factor of their first and last points. Its from and to are of no account.
  const FftPairs<R>* pairs = nullptr;
  bool mixes_first = false;
  R ends = 1;

  // What a plan knows.
  int64_t points = 0;                // of a line: the product of the radices
  const int64_t* radices = nullptr;  // of at most largest_fft_radix
  int64_t radix_count = 0;
  const R* roots = nullptr;  // exp(-2 pi i t / points), t < points: both parts by turns
};
RL_ISA_KERNEL(fft_lines_of_floats, (const FftLines<float>& lines))
RL_ISA_KERNEL(fft_lines_of_doubles, (const FftLines<double>& lines))

// Points 1 to m - 1 of a line of m + 1 complex numbers, in pairs k and m - k:
//   to[k] = factor * (even + turn[k] * odd), to[m - k] = factor * conj(even - turn[k] * odd),
//   even = from[k] + conj from[m - k], odd = from[k] - conj from[m - k];
// between the transform of a real line of 2 m numbers and that of the line read as m complex ones.
template <class R> struct FftPairs {
  int64_t m;
  const R* turns;      // m / 2 + 1 complex numbers
  R turn_re, turn_im;  // factors of their parts
  R factor;
  const R* from;
  R* to;  // may be `from`
};
RL_ISA_KERNEL(fft_pairs_of_floats, (const FftPairs<float>& pairs))
RL_ISA_KERNEL(fft_pairs_of_doubles, (const FftPairs<double>& pairs))

// x[i] * y[i] of n complex numbers; `to` may be x.
RL_ISA_KERNEL(multiply_float_pairs, (const float* x, const float* y, float* to, int64_t n))
RL_ISA_KERNEL(multiply_double_pairs, (const double* x, const double* y, double* to, int64_t n))

}  // namespace rl::kernels
