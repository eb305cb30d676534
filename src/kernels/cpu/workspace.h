// Scratch memory of kernels, and row-major copies of views in it.
#pragma once
#include <utility>

#include "core/allocator.h"
#include "core/byte_count.h"
#include "core/view.h"
#include "kernels/copy.h"

namespace rl::kernels {

// Uninitialised memory, 64-byte aligned, freed at the end of the scope.
class Workspace {
 public:
  explicit Workspace(int64_t bytes) : bytes_(byte_count(bytes)), data_(allocate(bytes_)) {}
  ~Workspace() {
    if (data_) deallocate(data_, bytes_);
  }
  Workspace(Workspace&& other) noexcept : bytes_(other.bytes_), data_(other.data_) {
    other.data_ = nullptr;
  }
  Workspace& operator=(Workspace&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  template <class T> T* as() const { return static_cast<T*>(data_); }
  void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

template <class T> class Buffer {
 public:
  explicit Buffer(int64_t n) : memory_(n * static_cast<int64_t>(sizeof(T))) {}
  T* data() const { return memory_.as<T>(); }
  T& operator[](int64_t i) const { return data()[i]; }

 private:
  Workspace memory_;
};

// A row-major temporary of a shape.
class RowMajor {
 public:
  RowMajor(IntSpan sizes, DType dtype);
  static RowMajor copy_of(const View& from, DType dtype) {
    RowMajor made(from.shape(), dtype);
    copy(from, made.view());
    return made;
  }
  View view() const {
    return {memory_.data(), sizes_.data(), strides_.data(), sizes_.size(), numel_, dtype_};
  }
  template <class T> T* ptr() const { return memory_.as<T>(); }

 private:
  Dims sizes_, strides_;
  int64_t numel_;
  DType dtype_;
  Workspace memory_;
};

}  // namespace rl::kernels
