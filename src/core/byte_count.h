// Counts of bytes as the system takes them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/error.h"

namespace rl {

// An OutOfMemory error where no address space could hold so many, as one of 32 bits cannot. On 64
// bits the allocator says it.
inline size_t byte_count(int64_t nbytes) {
  if constexpr (sizeof(size_t) < sizeof(int64_t))
    if (__builtin_expect(nbytes > int64_t(SIZE_MAX / 2) || nbytes < 0, 0))
      fail(ErrorKind::OutOfMemory, "out of memory: tried to allocate ", nbytes,
           " bytes, more than this processor's addresses reach");
  return static_cast<size_t>(nbytes);
}

}  // namespace rl
