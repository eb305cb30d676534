// Arguments of radix sorts and selections, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

constexpr int radix_digits = 256;  // of a key, and threads of a block
// Keys that a thread has at once.
constexpr int radix_items(int itemsize) { return itemsize == 8 ? 8 : 16; }
constexpr int64_t radix_tile(int itemsize) { return int64_t(radix_digits) * radix_items(itemsize); }

// Lines of `count` elements of a view.
struct RadixLines {
  int64_t count, step, tiles;
  int descending;
};

// Keys and places of a sort: passes go from one to the other. Where a digit is the same in all keys
// its pass is left out, which kernels see from the bits that were set, or not set, in any key:
// bits[0], [1].
struct RadixBuffers {
  void *keys[2], *places[2];
  uint64_t* bits;
};

// What is known of the key that is searched in a line: the digits under `mask` (the others are 0 in
// both), how many keys are below in these, how many are equal, and which of the equals it is. done:
// more digits would tell no more of what is taken. taken: how many were, where their order is free.
struct SelectState {
  uint64_t key, mask;
  int64_t below, equal, rank, nans, taken, done;
};
// What is taken of a line: so many elements, or `only` the one of the rank. Places are -1 from
// `take` to `padded`. any_order: what is taken is sorted later by places too.
struct SelectTaken {
  int64_t take, padded;
  int only, any_order;
};
enum SelectKind : int { SelectRank, SelectMedian, SelectMedianOfNumbers };

}  // namespace rl::cuda
