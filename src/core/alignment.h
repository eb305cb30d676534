// What an element's address must be a multiple of. Our own memory is aligned to 64 bytes; foreign
// memory may lie anywhere.
#pragma once
#include <cstdint>

#include "core/dtype.h"
#include "core/error.h"

namespace rl {

inline int64_t alignment_of(DType dtype) { return itemsize(dtype) / (is_complex(dtype) ? 2 : 1); }
inline bool is_aligned(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment_of(dtype)) == 0;
}
// Kernels load whole elements, which the language defines at multiples of their size alone; and a
// copy in the place of shared memory would lose what is written to it.
inline void check_aligned(const void* data, DType dtype) {
  check_value(is_aligned(data, dtype), "foreign memory at an address that is no multiple of the ",
              alignment_of(dtype), " bytes of ", dtype,
              " cannot be shared: copy it first (clone(), numpy.array(...), bytes(...))");
}

}  // namespace rl
