// Changes of a tensor's own shape, and questions about types.
#include "autograd/geometry.h"
#include "dispatch/generated.h"
#include "ops_create.h"
#include "ops_reshaping.h"
#include "ops_shape.h"

namespace rl::ops {
namespace {

// `self` becomes `view`, a view of it, history included.
Tensor become(const Tensor& self, const Tensor& view, const char* op) {
  TensorImpl* impl = self.impl();
  const TensorImpl* seen = view.impl();
  impl->sizes = seen->sizes;
  impl->strides = seen->strides;
  impl->offset = seen->offset;
  impl->refresh();
  bump_version(self, op);
  if (seen->grad_fn) {
    impl->grad_fn = seen->grad_fn;
    impl->output_nr = seen->output_nr;
    impl->view_version = impl->storage->version.load(std::memory_order_relaxed);
  }
  return self;
}

template <class Look> Tensor look_otherwise(const Tensor& self, const char* op, Look&& look) {
  check_in_place_geometry(self, op);
  return become(self, look(), op);
}

}  // namespace

Tensor squeeze_(const Tensor& input) {
  return look_otherwise(input, "squeeze_", [&] { return squeeze(input); });
}
Tensor squeeze_(const Tensor& input, const Dims& dim) {
  return look_otherwise(input, "squeeze_", [&] { return squeeze(input, dim); });
}
Tensor unsqueeze_(const Tensor& input, int64_t dim) {
  return look_otherwise(input, "unsqueeze_", [&] { return unsqueeze(input, dim); });
}
Tensor transpose_(const Tensor& input, int64_t dim0, int64_t dim1) {
  return look_otherwise(input, "transpose_", [&] { return transpose(input, dim0, dim1); });
}
Tensor t_(const Tensor& input) {
  check(input.dim() <= 2, "t_: expects a tensor with <= 2 dimensions, but self is ", input.dim(),
        "D");
  return input.dim() < 2 ? input : transpose_(input, 0, 1);
}
Tensor as_strided_(const Tensor& input, const Dims& size, const Dims& stride,
                   std::optional<int64_t> storage_offset) {
  return look_otherwise(input, "as_strided_",
                        [&] { return as_strided(input, size, stride, storage_offset); });
}

Tensor fill_diagonal_(const Tensor& input, const Scalar& value, bool wrap) {
  check(input.dim() >= 2, "fill_diagonal_: dimensions must larger than 1, got shape ",
        input.sizes());
  int64_t rows = input.sizes()[0], columns = input.sizes()[1], step = 0, shortest = rows;
  for (int64_t d = 0; d < input.dim(); ++d) {
    check(input.dim() == 2 || input.sizes()[d] == rows,
          "fill_diagonal_: all dimensions of input must be of equal length, got shape ",
          input.sizes());
    shortest = std::min(shortest, input.sizes()[d]);
    step += input.strides()[d];
  }
  if (input.numel() == 0) return input;
  fill_(as_strided(input, Dims{shortest}, Dims{step}, input.offset()), value);
  if (!wrap || input.dim() != 2) return input;
  for (int64_t from = columns + 1; from < rows; from += columns + 1)
    fill_(diagonal(slice(input, 0, from, std::nullopt, 1)), value);
  return input;
}

DType result_type(const Tensor& tensor, const Tensor& other) {
  return rl::result_type(tensor, other);
}
DType promote_types(std::optional<DType> a, std::optional<DType> b) { return promote(*a, *b); }
bool can_cast(std::optional<DType> from, std::optional<DType> to) {
  return rl::can_cast(*from, *to);
}

}  // namespace rl::ops
