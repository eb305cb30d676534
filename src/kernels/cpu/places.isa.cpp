#include "kernels/cpu/places.h"

namespace rl::kernels::RL_ISA {

void check_inside(const int64_t* indices, int64_t n, int64_t size, bool negative_indices,
                  bool* inside) {
  uint64_t below = negative_indices ? static_cast<uint64_t>(size) : 0,
           last = static_cast<uint64_t>(size) - 1, signs = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint64_t v = static_cast<uint64_t>(indices[i]);
    signs |= (v + below) | (last - v);  // the sign of either tells
  }
  *inside = signs >> 63 == 0;
}

}  // namespace rl::kernels::RL_ISA
