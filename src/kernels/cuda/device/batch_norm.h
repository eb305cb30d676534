// Arguments of batch norm, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

struct Vector {
  void* data = nullptr;
  int dtype = 0;
  int64_t step = 0;
};

// Elements without gaps: i is of channel i / inner % channels. inner is 1 where channels are last.
struct Channels {
  int64_t numel, channels, inner;
};

}  // namespace rl::cuda
