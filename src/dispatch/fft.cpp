// Fourier transforms over any dims, one after the other.

#include <algorithm>
#include <numeric>

#include "dispatch/generated.h"
#include "impl_create.h"
#include "impl_fft.h"
#include "impl_shape.h"
#include "launch_fft.h"
#include "ops_shape.h"

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

// As torch lays results out: the dims that are transformed come last in memory, both they and the
// others by falling strides of the input.
class Arranged {
 public:
  Arranged(const Tensor& input, IntSpan transformed) : order_(input.dim()) {
    std::iota(order_.begin(), order_.end(), 0);
    auto others = std::stable_partition(order_.begin(), order_.end(), [&](int64_t d) {
      return std::find(transformed.begin(), transformed.end(), d) == transformed.end();
    });
    auto falling = [&](int64_t a, int64_t b) { return input.strides()[a] > input.strides()[b]; };
    std::stable_sort(order_.begin(), others, falling);
    std::stable_sort(others, order_.end(), falling);
    in_order_ = std::is_sorted(order_.begin(), order_.end());
    tensor = ops::contiguous(in_order_ ? input : permute(input, order_));
  }
  int64_t place(int64_t dim) const {
    return std::find(order_.begin(), order_.end(), dim) - order_.begin();
  }
  // A result, with the dims where the input has them.
  Tensor back(const Tensor& result) const {
    if (in_order_) return result;
    Dims places(order_.size());
    for (int64_t d = 0; d < order_.size(); ++d) places[d] = place(d);
    return permute(result, places);
  }
  Tensor tensor;  // contiguous

 private:
  Dims order_;
  bool in_order_;
};

}  // namespace

Tensor fft_c2c(const Tensor& input, const Dims& dims, bool inverse, double scale, bool keep_order) {
  check(input.is_complex(), "fft: expected a complex tensor, got ", input.dtype());
  if (dims.empty()) return clone(input);
  Dims wrapped;
  for (int64_t d : dims) wrapped.push_back(existing_dim(d, input.dim(), "fft_c2c"));
  Arranged from(input, keep_order ? IntSpan() : IntSpan(wrapped));
  Tensor read = from.tensor, out = rl::empty(read.sizes(), options(read));
  double factor = scale;
  for (int64_t i = wrapped.size() - 1; i >= 0; --i) {
    launch::fft(read, out, from.place(wrapped[i]), inverse, factor);
    read = out;
    factor = 1;
  }
  return from.back(out);
}

Tensor fft_r2c(const Tensor& input, int64_t dim, int64_t n, bool inverse, double scale,
               bool twice) {
  dim = existing_dim(dim, input.dim(), "fft_r2c");
  check(input.dtype() == DType::Float32 || input.dtype() == DType::Float64,
        "fft_r2c: expected a tensor of float32 or float64, got ", input.dtype());
  check_points("fft_r2c", input, dim, n);
  Arranged from(input, Dims{dim});
  int64_t last = from.place(dim);
  Tensor out = rl::empty(with_size(from.tensor.sizes(), last, n / 2 + 1),
                         options(input, to_complex(input.dtype())));
  launch::fft_from_real(from.tensor, out, last, inverse, scale, twice);
  return from.back(out);
}

Tensor fft_c2r(const Tensor& input, int64_t dim, int64_t n, bool inverse, double scale,
               bool twice) {
  dim = existing_dim(dim, input.dim(), "fft_c2r");
  check(input.is_complex(), "fft_c2r: expected a complex tensor, got ", input.dtype());
  check(n > 0, "fft_c2r: Invalid number of data points (", n, ") specified");
  check_points("fft_c2r", input, dim, n / 2 + 1);
  Arranged from(input, Dims{dim});
  int64_t last = from.place(dim);
  Tensor out =
      rl::empty(with_size(from.tensor.sizes(), last, n), options(input, to_real(input.dtype())));
  launch::fft_to_real(from.tensor, out, last, inverse, scale, twice);
  return from.back(out);
}

}  // namespace rl::impl
