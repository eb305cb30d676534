#include "kernels/cpu/sort_keys.h"

#include <utility>

#include "kernels/cpu/interruptible.h"
#include "kernels/cpu/sort_scan.h"

namespace rl::kernels {
namespace {

void make_keys(const int32_t* values, int64_t n, uint32_t flip, uint32_t* keys) {
  keys_of_int32(values, n, flip, keys);
}
void make_keys(const int64_t* values, int64_t n, uint64_t flip, uint64_t* keys) {
  keys_of_int64(values, n, flip, keys);
}
void make_keys(const float* values, int64_t n, uint32_t flip, uint32_t* keys) {
  keys_of_float(values, n, flip, keys);
}
void make_keys(const double* values, int64_t n, uint64_t flip, uint64_t* keys) {
  keys_of_double(values, n, flip, keys);
}

template <class T, class Key>
void load_typed(DType dtype, const char* in, int64_t stride, int64_t n, Key flip, Key* keys) {
  constexpr int64_t strip = 1024;
  T values[strip];
  for (int64_t i = 0; i < n; i += strip) {
    int64_t m = std::min(strip, n - i);
    load_strip(dtype, in + i * stride, stride, dtype_of<T>, values, m);
    make_keys(values, m, flip, keys + i);
  }
}

// Sorts by the key's bytes from the lowest to the highest, which keeps the order of equals. A byte
// in which all keys agree costs nothing.
template <class Item>
void radix_sort(Scratch<Item>& items) {
  constexpr int bytes = sizeof(typename Item::Key);
  std::vector<size_t> counts(bytes * 256, 0);
  interruptible_for_each(items, [&](const Item& item) {
    for (int b = 0; b < bytes; ++b)
      ++counts[static_cast<size_t>(b * 256 + (item.key() >> (8 * b) & 255))];
  });
  Scratch<Item> other(items.size());
  for (int b = 0; b < bytes; ++b) {
    size_t* place = counts.data() + b * 256;
    if (std::find(place, place + 256, items.size()) != place + 256) continue;
    size_t sum = 0;
    for (int v = 0; v < 256; ++v) sum += std::exchange(place[v], sum);
    interruptible_for_each(
        items, [&](const Item& item) { other[place[item.key() >> (8 * b) & 255]++] = item; });
    items.swap(other);
  }
}

// Keys in a range of few take one pass to count and one to bring each item to its place.
template <class Item>
bool counting_sort(Scratch<Item>& items) {
  using Key = typename Item::Key;
  constexpr size_t fewest = 64, most_keys = 1 << 16;  // their counts stay in the cache
  if (items.size() < fewest) return false;
  Key low = items[0].key(), high = low;
  interruptible_for_each(items, [&](const Item& item) {
    low = std::min(low, item.key()), high = std::max(high, item.key());
  });
  Key range = high - low;
  if (range >= most_keys || range >= 4 * items.size()) return false;
  Scratch<size_t> place(static_cast<size_t>(range) + 1, 0);
  interruptible_for_each(items,
                         [&](const Item& item) { ++place[static_cast<size_t>(item.key() - low)]; });
  size_t sum = 0;
  for (size_t& p : place) sum += std::exchange(p, sum);
  Scratch<Item> other(items.size());
  interruptible_for_each(items, [&](const Item& item) {
    other[place[static_cast<size_t>(item.key() - low)]++] = item;
  });
  items.swap(other);
  return true;
}

template <class Item>
void sort_any(Scratch<Item>& items) {
  if (counting_sort(items)) return;
  // below this size, scattering costs more than comparing
  if (items.size() < 256 * sizeof(typename Item::Key) / 2) std::sort(items.begin(), items.end());
  else radix_sort(items);
}

}  // namespace

void load_keys(DType dtype, const char* in, int64_t stride, int64_t n, uint32_t flip,
               uint32_t* keys) {
  if (is_floating(dtype)) load_typed<float>(dtype, in, stride, n, flip, keys);
  else load_typed<int32_t>(dtype, in, stride, n, flip, keys);
}
void load_keys(DType dtype, const char* in, int64_t stride, int64_t n, uint64_t flip,
               uint64_t* keys) {
  if (is_floating(dtype)) load_typed<double>(dtype, in, stride, n, flip, keys);
  else load_typed<int64_t>(dtype, in, stride, n, flip, keys);
}

void sort_items(Scratch<NarrowItem>& items) { sort_any(items); }
void sort_items(Scratch<WideItem>& items) { sort_any(items); }

}  // namespace rl::kernels
