// Discrete Fourier transforms.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// out[..., k] = scale * sum over j of in[..., j] exp(-+ 2 pi i j k / n), + if inverse: over the
// last dim, any length. Contiguous, complex64 or complex128, one shape; in and out may be the same.
void fft(const View& in, const View& out, bool inverse, double scale);

}  // namespace rl::kernels
