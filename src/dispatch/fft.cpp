// Fourier transforms over any dims, one after the other.
#include "kernels/fft.h"

#include "dispatch/generated.h"

namespace rl::impl {

Tensor fft_c2c(const Tensor& input, const Dims& dims, bool inverse, double scale) {
  check(input.is_complex(), "fft: expected a complex tensor, got ", input.dtype());
  Tensor result = input;
  for (int64_t i = 0; i < dims.size(); ++i) {
    Tensor rows = ops::contiguous(ops::transpose(result, dims[i], -1));
    Tensor out = rl::empty(rows.sizes(), options(rows));
    if (!out.is_meta()) kernels::fft(rows.view(), out.view(), inverse, i == 0 ? scale : 1.0);
    result = ops::transpose(out, dims[i], -1);
  }
  return dims.empty() ? ops::clone(result) : ops::contiguous(result);
}

}  // namespace rl::impl
