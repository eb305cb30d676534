// Results that are many tensors.
#pragma once
#include "core/error.h"

namespace rl {

// An error, before any is made, where they would fill the memory: each takes some 300 bytes.
inline void check_pieces(const char* op, int64_t count) {
  constexpr int64_t most = int64_t(1) << 24;
  if (count > most)
    fail(ErrorKind::OutOfMemory, op, ": out of memory: the result would be ", count, " tensors");
}

}  // namespace rl
