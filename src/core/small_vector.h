// SmallVector: a vector whose first N elements live in place.
#pragma once
#include <cstdint>
#include <new>
#include <utility>

#include "core/bounds.h"

namespace rl {

template <class T, int N>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(size_t n) { resize(n); }
  SmallVector(SmallVector&& other) noexcept { steal(other); }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      clear_storage();
      steal(other);
    }
    return *this;
  }
  SmallVector(const SmallVector& other) {
    reserve(other.size_);  // throws before there are elements, which nobody would destroy
    for (const T& x : other) push_back(x);
  }
  SmallVector& operator=(const SmallVector& other) { return *this = SmallVector(other); }
  ~SmallVector() { clear_storage(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) {
    require_index(i, size_);
    return data_[i];
  }
  const T& operator[](size_t i) const {
    require_index(i, size_);
    return data_[i];
  }
  T& back() { return (*this)[size_ - 1]; }

  void push_back(T value) {
    reserve(size_ + 1);
    new (data_ + size_) T(std::move(value));
    ++size_;
  }
  void resize(size_t n) {
    reserve(n);
    while (size_ < n) new (data_ + size_++) T();
    while (size_ > n) data_[--size_].~T();
  }
  void clear() { resize(0); }

 private:
  T* local() { return reinterpret_cast<T*>(local_); }
  void reserve(size_t n) {
    if (n <= capacity_) return;
    size_t bigger = n < 2 * capacity_ ? 2 * capacity_ : n;
    T* fresh = static_cast<T*>(operator new(bigger * sizeof(T)));
    for (size_t i = 0; i < size_; ++i) {
      new (fresh + i) T(std::move(data_[i]));
      data_[i].~T();
    }
    if (data_ != local()) operator delete(data_);
    data_ = fresh;
    capacity_ = static_cast<uint32_t>(bigger);
  }
  void clear_storage() {
    clear();
    if (data_ != local()) operator delete(data_);
    data_ = local();
    capacity_ = N;
  }
  void steal(SmallVector& other) {
    if (other.data_ != other.local()) {
      data_ = other.data_;
      capacity_ = other.capacity_;
      size_ = other.size_;
      other.data_ = other.local();
      other.capacity_ = N;
    } else {
      for (T& x : other) push_back(std::move(x));
      for (T& x : other) x.~T();
    }
    other.size_ = 0;
  }
  alignas(T) unsigned char local_[N * sizeof(T)];
  T* data_ = local();
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
};

}  // namespace rl
