#include "kernels/cpu/stream.h"

#include <unistd.h>

#include <algorithm>

#include "core/parallel.h"

namespace rl::kernels {

bool worth_streaming(int64_t bytes) {
  static const int64_t cache = std::max<int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), 1 << 20);
  return bytes > cache && bytes > cache * num_threads();
}

}  // namespace rl::kernels
