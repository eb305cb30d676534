// Convolutions of small groups of channels, with several groups in a vector; each channel of its
// own is a group of one.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

constexpr int64_t strip_lanes = 16;  // channels, of whole groups

// So many channels can be a group: a power of two, and not more than a vector holds.
inline int64_t most_members() { return isa() == Isa::avx512 || isa() == Isa::avx2 ? 8 : 4; }

// Pixels of `channels` numbers. Each channel of a result is the sum over taps of what the members
// of its group are at the tap's place, each times a weight.
struct GroupProduct {
  struct Tap {
    int64_t in;      // from where a row begins
    int64_t weight;  // strip_lanes numbers for each member, `member` apart
  };
  int64_t channels, members;
  const float* in;
  const int64_t* rows;  // of pixels: where each begins
  int64_t count;
  const Tap* taps;
  int64_t tap_count;
  const float* weights;
  int64_t strip, member;  // of weights: from strip to strip and from member to member
  const float* bias;      // or null
  float* out;
  const int64_t* out_rows;
};
RL_ISA_KERNEL(group_product, (const GroupProduct& product))

// The same with `out` the gradient of the results, of which `sums`, as weights lie, gets more.
RL_ISA_KERNEL(group_gradient, (const GroupProduct& product, float* sums))

}  // namespace rl::kernels
