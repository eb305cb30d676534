#include "kernels/cpu/sort_panel.h"

#include <cstdlib>
#include <limits>

namespace rl::kernels {
namespace {

constexpr uint64_t sign = uint64_t(1) << 63;
constexpr int64_t greatest_number = std::numeric_limits<int64_t>::max();

// The packing of keys into positive numbers of so many bits and a sign, and whether they fit: then
// their order is that of the keys, and of the places where these are equal.
Packing packing_of(const KeyRange& range, int bits) {
  const uint64_t above = range.greatest - range.least;
  return {range.least, above ? __builtin_clzll(above) + bits - 63 : 0};
}
bool fits(const KeyRange& range, const Packing& packing) {
  return range.differing == 0 ||
         __builtin_ctzll(range.differing) + packing.shift > Packing::place_bits;
}

}  // namespace

// The keys of the lines, side by side, of rows or of whole lines at once: in few calls, unless
// the elements of a row lie closer to each other than those of a line.
template <class Key>
void SortPanel::load_rows(const SortLine& first, int64_t line_step, Key* keys) {
  constexpr int64_t few = 64;
  const Key flip = first.flip<Key>();
  const int64_t together = line_step == n_ * first.stride ? width_ : 1;
  if (width_ > few || width_ / together >= n_ || std::abs(line_step) < std::abs(first.stride)) {
    for (int64_t j = 0; j < n_; ++j)
      load_keys(first.dtype, first.in + j * first.stride, line_step, width_, flip,
                keys + j * width_);
    return;
  }
  Key lines[most_items];
  for (int64_t k = 0; k < width_; k += together) {
    load_keys(first.dtype, first.in + k * line_step, first.stride, together * n_, flip, lines);
    for (int64_t i = 0; i < together; ++i)
      for (int64_t j = 0; j < n_; ++j) keys[j * width_ + k + i] = lines[i * n_ + j];
  }
}

void SortPanel::sort(const SortLine& first, int64_t line_step, int64_t width) {
  n_ = first.n;
  width_ = width;
  floating_ = is_floating(first.dtype);
  exact_ = true;
  if (has_narrow_keys(first.dtype)) sort_narrow(first, line_step);
  else sort_wide(first, line_step);
}

void SortPanel::sort_narrow(const SortLine& first, int64_t line_step) {
  const int64_t count = n_ * width_;
  uint32_t keys[most_items];
  load_rows(first, line_step, keys);
  KeyRange range;
  find_range_narrow(keys, count, &range);
  Packing packing = packing_of(range, 31);
  if (fits(range, packing)) {
    int32_t packed[most_items];
    pack_rows_narrow(keys, packing, n_, width_, packed);
    sort_columns_narrow(packed, n_, width_);
    std::copy_n(packed, count, packed_);
  } else {
    packing = packing_of(range, 63);
    pack_rows_widened(keys, packing, n_, width_, packed_);
    sort_columns_wide(packed_, n_, width_);
  }
  unpack(packing, range.greatest, nan_key<NarrowItem>);
}

void SortPanel::sort_wide(const SortLine& first, int64_t line_step) {
  load_rows(first, line_step, keys_);
  KeyRange range;
  find_range_wide(keys_, n_ * width_, &range);
  const Packing packing = packing_of(range, 63);
  pack_rows_wide(keys_, packing, n_, width_, packed_);
  sort_columns_wide(packed_, n_, width_);
  unpack(packing, range.greatest, nan_key<WideItem>);
  if (!fits(range, packing)) order_by_lost_bits();
}

void SortPanel::unpack(const Packing& packing, uint64_t greatest, uint64_t nan) {
  for (int64_t i = 0; i < n_ * width_; ++i) places_[i] = packed_[i] & Packing::last_place;
  const auto high = static_cast<int64_t>((greatest - packing.least) << packing.shift >> 1);
  const bool has_nan = floating_ && greatest == nan;
  last_number_ = has_nan ? (high & ~Packing::last_place) - 1 : greatest_number;
}

// Keys that the packing took for equal, which few are that are not, are compared.
void SortPanel::order_by_lost_bits() {
  exact_ = false;
  bool found;
  find_equals(packed_, Packing::place_bits, n_, width_, &found);
  if (!found) return;
  for (int64_t k = 0; k < width_; ++k) {
    auto item = [&](int64_t rank) {
      int64_t place = places_[rank * width_ + k];
      return WideItem::make(keys_[place * width_ + k], place);
    };
    for (int64_t j = 1; j < n_; ++j) {
      const WideItem inserted = item(j);
      int64_t i = j;
      for (; i > 0 && inserted < item(i - 1); --i)
        places_[i * width_ + k] = places_[(i - 1) * width_ + k];
      places_[i * width_ + k] = inserted.place();
    }
  }
}

void SortPanel::choose_most_frequent() {
  if (!exact_) {  // the keys themselves, as signed numbers
    for (int64_t j = 0; j < n_; ++j)
      for (int64_t k = 0; k < width_; ++k) {
        int64_t i = j * width_ + k;
        packed_[i] = static_cast<int64_t>(keys_[places_[i] * width_ + k] ^ sign);
      }
    last_number_ = greatest_number - floating_;
  }
  int64_t ranks[most_items];
  longest_runs(packed_, exact_ ? Packing::place_bits : 0, last_number_, n_, width_, ranks);
  choose(ranks);
}

void SortPanel::choose(const int64_t* ranks) {
  for (int64_t k = 0; k < width_; ++k) places_[k] = places_[ranks[k] * width_ + k];
}

}  // namespace rl::kernels
