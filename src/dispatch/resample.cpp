// Images of another size.
#include "dispatch/generated.h"
#include "kernels/interpolate.h"

namespace rl {
namespace impl {
namespace {

kernels::ResampleGeometry geometry_of(const std::string& mode, bool align_corners, bool antialias, const std::vector<double>& scales) {
  kernels::ResampleGeometry g;
  g.mode = mode == "nearest"         ? kernels::Interpolation::Nearest
           : mode == "nearest-exact" ? kernels::Interpolation::NearestExact
           : mode == "bicubic"       ? kernels::Interpolation::Cubic
                                     : kernels::Interpolation::Linear;
  g.align_corners = align_corners;
  g.antialias = antialias;
  check(scales.size() <= 3, "interpolate: at most 3 scales are expected, got ", scales.size());
  for (size_t d = 0; d < scales.size(); ++d) g.scales[d] = scales[d];
  return g;
}

using Resample = void (*)(const View&, const View&, const kernels::ResampleGeometry&);

Tensor resampled(const Tensor& input, const Dims& size, const kernels::ResampleGeometry& g, Resample kernel) {
  check(size.size() >= 1 && size.size() <= 3 && size.size() + 2 == input.dim(), "interpolate: input of shape ", input.sizes(),
        " cannot be brought to spatial size ", size);
  Dims sizes{input.sizes()[0], input.sizes()[1]};
  for (int64_t n : size) sizes.push_back(n);
  for (int64_t d = 1; d < input.dim(); ++d)
    check(input.sizes()[d] > 0, "interpolate: Non-empty ", input.dim(), "D data tensor expected but got a tensor with sizes ", input.sizes());
  for (int64_t n : size)
    check(n > 0, "interpolate: Input and output sizes should be greater than 0, but got input ", input.sizes(), " and output ", sizes);
  Tensor out = empty_strided(sizes, dense_strides_like(sizes, input.strides()), options(input));
  if (!out.is_meta()) kernel(input.view(), out.view(), g);
  return out;
}

}  // namespace

Tensor interpolate_kernel(const Tensor& input, const Dims& size, const std::string& mode, bool align_corners, bool antialias,
                          const std::vector<double>& scales) {
  return resampled(input, size, geometry_of(mode, align_corners, antialias, scales), kernels::interpolate);
}
Tensor interpolate_gradient(const Tensor& grad, const Dims& size, const std::string& mode, bool align_corners, bool antialias,
                            const std::vector<double>& scales) {
  return resampled(grad, size, geometry_of(mode, align_corners, antialias, scales), kernels::interpolate_backward);
}

}  // namespace impl

namespace grad {
Dims spatial_of(const Dims& sizes) { return Dims(IntSpan(sizes.data() + 2, sizes.size() - 2)); }
}  // namespace grad
}  // namespace rl
