// View: what a kernel sees of a tensor. It borrows sizes and strides; it owns nothing.
#pragma once
#include "core/device.h"
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
  Device device = {};

  template <class T> T* ptr() const {
    static_assert(!std::is_same_v<std::remove_cv_t<T>, bool>, "elements of dtype bool are Bool");
    return static_cast<T*>(data);
  }
  IntSpan shape() const { return {sizes, ndim}; }
  IntSpan stride() const { return {strides, ndim}; }
  bool contiguous() const { return is_contiguous(shape(), stride()); }
  // From place `begin` of `dim` on, of those sizes, which outlive the result.
  View slice(int64_t dim, int64_t begin, IntSpan of) const {
    char* first = data ? ptr<char>() + begin * strides[dim] * itemsize(dtype) : nullptr;
    return {first, of.data(), strides, ndim, product(of), dtype, device};
  }
};

// Several views of one device; a loop's inputs may have numbers of the CPU among them.
struct Views {
  const View* first;
  int64_t count;
  Device device;
  Views(const View* first, int64_t count) : Views(first, count, count ? first->device : Device()) {}
  Views(const View* first, int64_t count, Device device)
      : first(first), count(count), device(device) {}
  const View& operator[](int64_t i) const {
    require_index(static_cast<size_t>(i), static_cast<size_t>(count));
    return first[i];
  }
  const View* begin() const { return first; }
  const View* end() const { return first + count; }
};

}  // namespace rl
