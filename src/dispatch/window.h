// Views: which window on its input's memory each shows, told by sizes, strides and numbers alone.
#pragma once
#include <optional>

#include "tensor/tensor.h"

namespace rl {

struct Window {
  Dims sizes, strides;
  int64_t offset;
};
// The same bytes as elements of another dtype.
struct TypedWindow : Window {
  DType dtype;
};

// A tensor that looks there, without history.
inline Tensor look(const Tensor& t, const Window& w) {
  return alias(t, w.sizes, w.strides, w.offset);
}
Tensor look(const Tensor& t, const TypedWindow& w);

namespace window {

Window as_strided(const Tensor& t, const Dims& size, const Dims& stride,
                  std::optional<int64_t> storage_offset);
Window transpose(const Tensor& t, int64_t dim0, int64_t dim1);
Window t(const Tensor& t);
Window permute(const Tensor& t, const Dims& dims);
Window expand(const Tensor& t, const Dims& size);
Window view(const Tensor& t, const Dims& size);
Window squeeze(const Tensor& t);
Window squeeze(const Tensor& t, const Dims& dims);
Window unsqueeze(const Tensor& t, int64_t dim);
Window select(const Tensor& t, int64_t dim, int64_t index);
Window slice(const Tensor& t, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
             int64_t step);
Window diagonal(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2);
Window unfold(const Tensor& t, int64_t dim, int64_t size, int64_t step);
TypedWindow as_dtype(const Tensor& t, DType dtype);
// Of floats seen as others it says false: the bits mean other numbers, which have no gradient.
bool keeps_numbers(const Tensor& t, DType dtype);
TypedWindow as_real(const Tensor& t);
TypedWindow as_complex(const Tensor& t);

}  // namespace window
}  // namespace rl
