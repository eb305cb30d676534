// Discrete Fourier transforms along one dim, of any length.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// All views are contiguous and differ in size along `dim` alone. Of n points:
//   out[k] = scale * sum over j of in[j] exp(-+ 2 pi i j k / n), + if inverse.

// From complex64 or complex128 to the same; in and out may be the same.
void fft(const View& in, const View& out, int64_t dim, bool inverse, double scale);

// From n real numbers: the results 0 to n / 2, of which the others are conjugates. `twice`: times 2
// but for those that have no conjugate beside them, 0 and n / 2.
void fft_from_real(const View& in, const View& out, int64_t dim, bool inverse, double scale,
                   bool twice);

// To n real numbers, from n / 2 + 1 points: the real part of their sum. `twice`: points other than
// 0 and n / 2 stand for their conjugates too, and count twice.
void fft_to_real(const View& in, const View& out, int64_t dim, bool inverse, double scale,
                 bool twice);

}  // namespace rl::kernels
