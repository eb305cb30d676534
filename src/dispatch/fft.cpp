// Fourier transforms over any dims, one after the other.
#include "kernels/fft.h"

#include "dispatch/generated.h"

namespace rl::impl {
namespace {

Dims with_size(Dims sizes, int64_t dim, int64_t n) {
  sizes[dim] = n;
  return sizes;
}

void check_points(const char* name, const Tensor& input, int64_t dim, int64_t expected) {
  check(input.sizes()[dim] == expected, name, ": expected ", expected, " points along dim ", dim,
        ", got shape ", input.sizes());
}

}  // namespace

Tensor fft_c2c(const Tensor& input, const Dims& dims, bool inverse, double scale) {
  check(input.is_complex(), "fft: expected a complex tensor, got ", input.dtype());
  Tensor from = ops::contiguous(input);
  if (dims.empty()) return ops::clone(from);
  Tensor out = rl::empty(from.sizes(), options(from));
  if (out.is_meta()) return out;
  double factor = scale;
  for (int64_t i = dims.size() - 1; i >= 0; --i) {
    int64_t dim = wrap_dim(dims[i], input.dim(), "fft");
    kernels::fft(from.view(), out.view(), dim, inverse, factor);
    from = out;
    factor = 1;
  }
  return out;
}

Tensor fft_r2c(const Tensor& input, int64_t dim, int64_t n, bool inverse, double scale,
               bool twice) {
  dim = wrap_dim(dim, input.dim(), "fft");
  check(input.dtype() == DType::Float32 || input.dtype() == DType::Float64,
        "fft_r2c: expected a tensor of float32 or float64, got ", input.dtype());
  check_points("fft_r2c", input, dim, n);
  Tensor from = ops::contiguous(input);
  Tensor out =
      rl::empty(with_size(from.sizes(), dim, n / 2 + 1), options(from, to_complex(from.dtype())));
  if (!out.is_meta()) kernels::fft_from_real(from.view(), out.view(), dim, inverse, scale, twice);
  return out;
}

Tensor fft_c2r(const Tensor& input, int64_t dim, int64_t n, bool inverse, double scale,
               bool twice) {
  dim = wrap_dim(dim, input.dim(), "fft");
  check(input.is_complex(), "fft_c2r: expected a complex tensor, got ", input.dtype());
  check(n > 0, "fft_c2r: Invalid number of data points (", n, ") specified");
  check_points("fft_c2r", input, dim, n / 2 + 1);
  Tensor from = ops::contiguous(input);
  Tensor out = rl::empty(with_size(from.sizes(), dim, n), options(from, to_real(from.dtype())));
  if (!out.is_meta()) kernels::fft_to_real(from.view(), out.view(), dim, inverse, scale, twice);
  return out;
}

}  // namespace rl::impl
