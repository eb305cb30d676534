#include "kernels/cpu/offsets.h"

#include <cstring>

#include "kernels/cpu/simd.h"

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

// Each vector is read once and stays in its register between check and copy: nobody can change it
// there. As memcpy and a check of the copy this took twice as long.
void copy_inside(const int64_t* indices, int64_t n, int64_t size, int64_t* to, bool* inside) {
  constexpr int64_t lanes = Vector<uint64_t>::lanes;
  const uint64_t last = static_cast<uint64_t>(size) - 1;
  vec<uint64_t> signs = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    vec<uint64_t> v = read_once<vec<uint64_t>>(indices + i);
    signs |= v | (last - v);  // the sign of either tells
    std::memcpy(to + i, &v, sizeof v);
  }
  uint64_t sign = 0;
  for (int64_t k = 0; k < lanes; ++k) sign |= signs[k];
  for (; i < n; ++i) {
    uint64_t v = static_cast<uint64_t>(*static_cast<const volatile int64_t*>(indices + i));
    sign |= v | (last - v);
    to[i] = static_cast<int64_t>(v);
  }
  *inside = sign >> 63 == 0;
}

void count_from(const int64_t* first, int64_t unit, int64_t* at, int64_t n) {
  for (int64_t i = 0; i < n && unit != 1; ++i) at[i] *= unit;
  RL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) at[i] += first[i];
}

}  // namespace rl::kernels::RL_ISA
