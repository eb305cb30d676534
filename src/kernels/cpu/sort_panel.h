// Short lines, sorted side by side.
#pragma once
#include <limits>

#include "kernels/cpu/sort_keys.h"
#include "kernels/cpu/sort_network.h"

namespace rl::kernels {

// The keys and places of several lines of n elements: row j of the panel holds the j-th of each,
// and where the lines are sorted, the one of rank j. For a line of 16 numbers a network that sorts
// 8 lines in a vector takes a twelfth of what sorting line by line takes.
class SortPanel {
 public:
  static constexpr int64_t longest = 64;  // of the lines

  // The greatest number of lines of n elements.
  static int64_t widest(int64_t n) { return most_items / n; }

  // Sorts `width` lines that follow `first` at `line_step` bytes from each other.
  void sort(const SortLine& first, int64_t line_step, int64_t width) {
    n_ = first.n;
    width_ = width;
    floating_ = is_floating(first.dtype);
    narrow_ = has_narrow_keys(first.dtype);
    if (narrow_) sort_narrow(first, line_step);
    else sort_wide(first, line_step);
  }

  int64_t width() const { return width_; }
  // The places of the elements of rank i in their lines.
  const int64_t* places(int64_t i) const { return places_ + i * width_; }

  // Each of these moves the places of the chosen elements to places(0): those of one rank,
  void choose_rank(int64_t rank) { std::copy_n(places(rank), width_, places_); }
  // those of rank(count) for a line of which `count` elements are not NaN,
  template <class F> void choose_rank_among_numbers(F&& rank) {
    int64_t ranks[most_items];
    count_columns(keys_, last_number(), n_, width_, ranks);
    for (int64_t k = 0; k < width_; ++k) ranks[k] = rank(ranks[k]);
    choose(ranks);
  }
  // and the last of the most frequent elements, the least of several such.
  void choose_most_frequent() {
    int64_t ranks[most_items];
    longest_runs(keys_, narrow_ ? 32 : 0, last_number(), n_, width_, ranks);
    choose(ranks);
  }

 private:
  static constexpr int64_t most_items = 2048;  // which stay in the cache

  // Key above, place below.
  void sort_narrow(const SortLine& first, int64_t line_step) {
    constexpr uint32_t sign = uint32_t(1) << 31;
    uint32_t keys[most_items];
    for (int64_t j = 0; j < n_; ++j) {
      load_keys(first.dtype, first.in + j * first.stride, line_step, width_,
                first.flip<uint32_t>() ^ sign, keys);
      for (int64_t k = 0; k < width_; ++k)
        keys_[j * width_ + k] = static_cast<int64_t>(NarrowItem::make(keys[k], j).bits);
    }
    sort_columns(keys_, nullptr, n_, width_);
    for (int64_t k = 0; k < n_ * width_; ++k)
      places_[k] = NarrowItem{static_cast<uint64_t>(keys_[k])}.place();
  }
  void sort_wide(const SortLine& first, int64_t line_step) {
    constexpr uint64_t sign = uint64_t(1) << 63;
    for (int64_t j = 0; j < n_; ++j) {
      load_keys(first.dtype, first.in + j * first.stride, line_step, width_,
                first.flip<uint64_t>() ^ sign, reinterpret_cast<uint64_t*>(keys_ + j * width_));
      std::fill_n(places_ + j * width_, width_, j);
    }
    sort_columns(keys_, places_, n_, width_);
  }

  void choose(const int64_t* ranks) {
    for (int64_t k = 0; k < width_; ++k) places_[k] = places_[ranks[k] * width_ + k];
  }
  // The greatest key that is not that of NaN.
  int64_t last_number() const {
    constexpr int64_t greatest = std::numeric_limits<int64_t>::max();
    if (!floating_) return greatest;
    return narrow_ ? greatest - (int64_t(1) << 32) : greatest - 1;
  }

  alignas(64) int64_t keys_[most_items], places_[most_items];
  int64_t n_ = 0, width_ = 0;
  bool floating_ = false, narrow_ = false;
};

}  // namespace rl::kernels
