// Reductions.
#include "dispatch/generated.h"
#include "kernels/copy.h"
#include "kernels/reduce.h"

namespace rl {
namespace impl {
namespace {

// Which dims are reduced: all when none is named.
struct Reduced {
  Dims kept;     // sizes with 1 in the reduced dims
  Dims dropped;  // sizes without them
};

Reduced reduced_sizes(const Tensor& input, IntSpan dims, const char* op) {
  bool reduce[max_dims] = {};
  for (int64_t d : dims) {
    int64_t at = wrap_dim(d, input.dim(), op);
    check(!reduce[at], op, ": dim ", at, " appears multiple times in the list of dims");
    reduce[at] = true;
  }
  Reduced r;
  for (int64_t d = 0; d < input.dim(); ++d) {
    bool gone = dims.empty() || reduce[d];
    r.kept.push_back(gone ? 1 : input.sizes()[d]);
    if (!gone) r.dropped.push_back(input.sizes()[d]);
  }
  return r;
}

DType sum_dtype(const Tensor& input, std::optional<DType> dtype) {
  return dtype.value_or(is_integral_or_bool(input.dtype()) ? DType::Int64 : input.dtype());
}

}  // namespace

Tensor sum(const Tensor& input, const std::optional<Dims>& dim, bool keepdim, std::optional<DType> dtype) {
  Reduced sizes = reduced_sizes(input, dim.value_or(Dims()), "sum");
  Tensor from = dtype && *dtype != input.dtype() ? to_dtype(input, dtype) : input;
  Tensor out = rl::empty(sizes.kept, options(input, sum_dtype(input, dtype)));
  if (!out.is_meta()) kernels::sum(from.view(), out.view());
  return keepdim ? out : alias(out, sizes.dropped, contiguous_strides(sizes.dropped), 0);
}

Tensor sum(const Tensor& input, std::optional<DType> dtype) { return sum(input, std::optional<Dims>(), false, dtype); }

}  // namespace impl
}  // namespace rl
