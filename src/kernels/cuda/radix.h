// Sorting and selection of long lines, by the digits of their elements' keys.
#pragma once
#include <algorithm>
#include <optional>

#include "kernels/cuda/device/radix.h"
#include "kernels/cuda/lines.h"

namespace rl::cuda {

// Lines of a real dtype: their beginnings and the step in them.
struct LongLines {
  int device;
  const char* op;
  DType dtype;
  Strided lines;
  int64_t count, step;
  bool descending;

  // In tiles of elements, or of elements and places of so many bytes.
  RadixLines in_tiles(int64_t place_bytes = 1) const {
    int64_t tile = radix_tile(static_cast<int>(std::max(itemsize(dtype), place_bytes)));
    return {count, step, (count + tile - 1) / tile, descending};
  }
};
// Where results go: the beginnings of lines and the step in them. `lines.data` null: nowhere.
struct LineTarget {
  Strided lines;
  int64_t step;
};

// Sorted lines, in scratch memory. Stable.
class RadixSort {
 public:
  RadixSort(const Context& context, const LongLines& given);
  // The `take` elements from `first` on, and their places, or what stands there in `through`.
  void store(int64_t first, int64_t take, const int64_t* through, const LineTarget& values,
             const LineTarget& indices);

 private:
  void sort_by(int shift, RadixLines lines, void* of_tiles, void* totals);

  LongLines given_;
  bool wide_;  // places of 64 bits
  Scratch bits_;
  std::optional<Scratch> keys_[2], places_[2];
  RadixBuffers buffers_{};
};

// The element of a rank (from 0) of each line or its median, or all up to it.
class RadixSelect {
 public:
  RadixSelect(const Context& context, const LongLines& given, SelectKind kind, int64_t rank,
              SelectTaken taken);
  // Elements up to the one of the rank are not in order, but unless any_order equals are in that of
  // their places.
  void store(const LineTarget& values, const LineTarget& indices);

 private:
  void find(const Context& context, SelectKind kind, int64_t rank);

  LongLines given_;
  SelectTaken taken_;
  Scratch states_, tallies_;
};

}  // namespace rl::cuda
