// Order without types: every real element becomes an unsigned key that sorts as it does (NaN above
// all, -0 level with 0), and what is sorted are keys with the places they came from. Ties are then
// broken by place, so that any sort of them is stable, and two sorts serve all dtypes.
#pragma once
#include <algorithm>
#include <vector>

#include "core/interpreter.h"
#include "core/view.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {

// Key above, place below: for dtypes of up to 32 bits and lines of fewer than 2^32 elements.
struct NarrowItem {
  uint64_t bits;
  using Key = uint32_t;
  static NarrowItem make(uint32_t key, int64_t place) {
    return {static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(place)};
  }
  uint32_t key() const { return static_cast<uint32_t>(bits >> 32); }
  static constexpr int64_t place_mask = 0xffffffff;
  int64_t place() const { return static_cast<int64_t>(bits) & place_mask; }
  static const void* places(const NarrowItem* items) { return &items->bits; }
  bool operator<(NarrowItem other) const { return bits < other.bits; }
};

struct WideItem {
  uint64_t key_;
  int64_t place_;
  using Key = uint64_t;
  static WideItem make(uint64_t key, int64_t place) { return {key, place}; }
  uint64_t key() const { return key_; }
  static constexpr int64_t place_mask = -1;
  int64_t place() const { return place_; }
  static const void* places(const WideItem* items) { return &items->place_; }
  bool operator<(const WideItem& other) const {
    return key_ != other.key_ ? key_ < other.key_ : place_ < other.place_;
  }
};

inline bool has_narrow_keys(DType t) { return itemsize(t) <= 4; }
// The key of every NaN; integers use it as any other.
template <class Item> inline constexpr typename Item::Key nan_key =
    static_cast<typename Item::Key>(-1);

// Keys of n elements, stepping by bytes, each ^ flip.
void load_keys(DType dtype, const char* in, int64_t stride, int64_t n, uint32_t flip,
               uint32_t* keys);
void load_keys(DType dtype, const char* in, int64_t stride, int64_t n, uint64_t flip,
               uint64_t* keys);

// A line of elements. In descending order the largest come first; equals keep their order.
struct SortLine {
  DType dtype;
  const char* in;
  int64_t stride, n;
  bool descending;

  // f(first, keys, count) for parts of the elements [begin, end), which fit in places of 32 bits.
  template <class Item, class F> void for_keys(int64_t begin, int64_t end, F&& f) const {
    using Key = typename Item::Key;
    Key part[strip];
    Interruption interruption;
    for (int64_t i = begin; i < end; i += strip) {
      if (i > begin) interruption.poll();
      int64_t m = std::min(strip, end - i);
      load_keys(dtype, in + i * stride, stride, m, flip<Key>(), part);
      f(i, static_cast<const Key*>(part), m);
    }
  }
  template <class Key> Key flip() const { return descending ? static_cast<Key>(-1) : Key(0); }
  template <class Item> void load_items(int64_t begin, int64_t end, Item* items) const {
    for_keys<Item>(begin, end, [&](int64_t first, const auto* keys, int64_t m) {
      Item* to = items + (first - begin);
      for (int64_t k = 0; k < m; ++k) to[k] = Item::make(keys[k], first + k);
    });
  }
  static constexpr int64_t strip = 1024;
};

// Sorts items whose places rise from first to last.
void sort_items(Scratch<NarrowItem>& items);
void sort_items(Scratch<WideItem>& items);

// f(Item()) with the item type that serves lines of n elements.
template <class F>
void visit_items(DType dtype, int64_t n, F&& f) {
  if (has_narrow_keys(dtype) && n < int64_t(1) << 32) f(NarrowItem());
  else f(WideItem());
}

}  // namespace rl::kernels
