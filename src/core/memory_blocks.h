// Which line of the program each large block of memory is for.
//
// Blocks of 256 KB and more are always known by their lines, as a pass over that much memory takes
// a hundred times longer than finding the line; smaller ones while somebody wants to know.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/trace.h"

namespace rl {

struct MemoryBlock {
  const void* data;
  size_t size;
  SourceLocation where;  // borrowed: valid while the caller holds the interpreter
  bool in_backward;
};

inline constexpr size_t usual_block_limit = size_t(256) << 10;
// From now on blocks of that size and more are known; returns the limit before. No limit is below
// that of small blocks, which nobody counts one by one.
size_t set_block_limit(size_t bytes);
std::vector<MemoryBlock> live_blocks();

}  // namespace rl
