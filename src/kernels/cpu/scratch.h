// Vectors whose memory stays warm from call to call.
#pragma once
#include <new>
#include <vector>

#include "core/allocator.h"

namespace rl::kernels {

// From the caching allocator: fresh pages from the system cost more than what is done with them.
// Elements without a value given are left uninitialised.
template <class T> struct ScratchAllocator {
  using value_type = T;
  ScratchAllocator() = default;
  template <class U> ScratchAllocator(const ScratchAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(rl::allocate(n * sizeof(T))); }
  void deallocate(T* p, size_t n) { rl::deallocate(p, n * sizeof(T)); }
  template <class U> void construct(U* p) { ::new (static_cast<void*>(p)) U; }
  template <class U, class V> void construct(U* p, V&& v) {
    ::new (static_cast<void*>(p)) U(std::forward<V>(v));
  }
  friend bool operator==(ScratchAllocator, ScratchAllocator) { return true; }
  friend bool operator!=(ScratchAllocator, ScratchAllocator) { return false; }
};
template <class T> using Scratch = std::vector<T, ScratchAllocator<T>>;

}  // namespace rl::kernels
