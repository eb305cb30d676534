#include "kernels/cpu/sort_scan.h"

#include "math/math.h"

namespace rl::kernels::RL_ISA {
namespace {

// Positive floats sort as their bits, and negative ones as the negative of these: so -0 is level
// with 0, and bits below the last that is set in any element are 0 in its key too. NaN is above
// all.
template <class Bits, class T> void keys_of_floats(const T* values, int64_t n, Bits flip,
                                                   Bits* keys) {
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  for (int64_t i = 0; i < n; ++i) {
    Bits bits = math::bit_cast<Bits>(values[i]);
    Bits key = bits & sign ? 0 - bits : bits | sign;
    keys[i] = (values[i] != values[i] ? ~Bits(0) : key) ^ flip;
  }
}

// Most blocks of keys have none below.
template <class Key>
void find_below(const Key* keys, int64_t n, Key bound, int32_t* places, int64_t* count) {
  constexpr int64_t block = 32;
  int64_t found = 0;
  for (int64_t i = 0; i < n; i += block) {
    int64_t end = n - i < block ? n : i + block;
    Key any = 0;
    for (int64_t k = i; k < end; ++k) any |= static_cast<Key>(keys[k] < bound);
    if (any == 0) continue;
    for (int64_t k = i; k < end; ++k) {
      places[found] = static_cast<int32_t>(k);
      found += keys[k] < bound;
    }
  }
  *count = found;
}

template <class Key> void keep_minima(const Key* keys, int64_t n, Key* minima) {
  for (int64_t i = 0; i < n; i += minimum_lanes) {
    int64_t lanes = n - i < minimum_lanes ? n - i : minimum_lanes;
    for (int64_t k = 0; k < lanes; ++k)
      minima[k] = keys[i + k] < minima[k] ? keys[i + k] : minima[k];
  }
}

// Without a branch: sorting 64 numbers takes ten times as long.
template <class Key> Key rank_minima(const Key* minima, int64_t k) {
  Key wanted = 0;
  for (int64_t i = 0; i < minimum_lanes; ++i) {
    Key below = 0;
    for (int64_t j = 0; j < minimum_lanes; ++j) below += minima[j] < minima[i];
    bool candidate = below < static_cast<Key>(k) && minima[i] > wanted;
    wanted = candidate ? minima[i] : wanted;
  }
  return wanted;
}

}  // namespace

void keys_of_int32(const int32_t* values, int64_t n, uint32_t flip, uint32_t* keys) {
  for (int64_t i = 0; i < n; ++i)
    keys[i] = (static_cast<uint32_t>(values[i]) ^ (uint32_t(1) << 31)) ^ flip;
}
void keys_of_int64(const int64_t* values, int64_t n, uint64_t flip, uint64_t* keys) {
  for (int64_t i = 0; i < n; ++i)
    keys[i] = (static_cast<uint64_t>(values[i]) ^ (uint64_t(1) << 63)) ^ flip;
}
void keys_of_float(const float* values, int64_t n, uint32_t flip, uint32_t* keys) {
  keys_of_floats(values, n, flip, keys);
}
void keys_of_double(const double* values, int64_t n, uint64_t flip, uint64_t* keys) {
  keys_of_floats(values, n, flip, keys);
}
void find_below_narrow(const uint32_t* keys, int64_t n, uint32_t bound, int32_t* places,
                       int64_t* count) {
  find_below(keys, n, bound, places, count);
}
void find_below_wide(const uint64_t* keys, int64_t n, uint64_t bound, int32_t* places,
                     int64_t* count) {
  find_below(keys, n, bound, places, count);
}

void keep_minima_narrow(const uint32_t* keys, int64_t n, uint32_t* minima) {
  keep_minima(keys, n, minima);
}
void keep_minima_wide(const uint64_t* keys, int64_t n, uint64_t* minima) {
  keep_minima(keys, n, minima);
}
void rank_minima_narrow(const uint32_t* minima, int64_t k, uint32_t* least) {
  *least = rank_minima(minima, k);
}
void rank_minima_wide(const uint64_t* minima, int64_t k, uint64_t* least) {
  *least = rank_minima(minima, k);
}

}  // namespace rl::kernels::RL_ISA
