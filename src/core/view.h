// View: what a kernel sees of a tensor. It borrows sizes and strides; it owns nothing.
#pragma once
#include "core/dtype.h"
#include "core/shape.h"

namespace rl {

struct View {
  void* data = nullptr;  // first element; nullptr for a meta or empty tensor
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;  // in elements
  int64_t ndim = 0;
  int64_t numel = 0;
  DType dtype = DType::Float32;

  template <class T> T* ptr() const { return static_cast<T*>(data); }
  IntSpan shape() const { return {sizes, ndim}; }
  IntSpan stride() const { return {strides, ndim}; }
  bool contiguous() const { return is_contiguous(shape(), stride()); }
  // From place `begin` of `dim` on, of those sizes, which outlive the result.
  View slice(int64_t dim, int64_t begin, IntSpan of) const {
    char* first = ptr<char>() + begin * strides[dim] * itemsize(dtype);
    return {first, of.data(), strides, ndim, product(of), dtype};
  }
};

}  // namespace rl
