// Short lines, sorted side by side.
#pragma once
#include "kernels/cpu/sort_keys.h"
#include "kernels/cpu/sort_network.h"

namespace rl::kernels {

// The places of the elements of several lines, in order: row i holds those of rank i, and an
// operation on two rows sorts as many lines as a vector holds. For lines of 16 numbers that takes a
// fifth of what sorting line by line takes, whose branches nothing can foresee.
class SortPanel {
 public:
  static constexpr int64_t longest = Packing::last_place + 1;  // of the lines

  // The greatest number of lines of n elements.
  static int64_t widest(int64_t n) { return most_items / n; }

  // Sorts `width` lines that follow `first` at `line_step` bytes from each other.
  void sort(const SortLine& first, int64_t line_step, int64_t width);

  int64_t width() const { return width_; }
  const int64_t* places(int64_t rank) const { return places_ + rank * width_; }

  // Each of these moves the places of the chosen elements to places(0): those of one rank,
  void choose_rank(int64_t rank) { std::copy_n(places(rank), width_, places_); }
  // those of rank(count) for a line of which `count` elements are not NaN,
  template <class F> void choose_rank_among_numbers(F&& rank) {
    int64_t ranks[most_items];
    count_columns(packed_, last_number_, n_, width_, ranks);
    for (int64_t k = 0; k < width_; ++k) ranks[k] = rank(ranks[k]);
    choose(ranks);
  }
  // and the last of the most frequent elements, the least of several such.
  void choose_most_frequent();

 private:
  static constexpr int64_t most_items = 2048;  // which stay in the cache

  template <class Key> void load_rows(const SortLine& first, int64_t line_step, Key* keys);
  void sort_narrow(const SortLine& first, int64_t line_step);
  void sort_wide(const SortLine& first, int64_t line_step);
  void unpack(const Packing& packing, uint64_t greatest, uint64_t nan);
  void order_by_lost_bits();
  void choose(const int64_t* ranks);

  alignas(64) uint64_t keys_[most_items];  // unsorted, if they have 64 bits
  alignas(64) int64_t packed_[most_items], places_[most_items];
  int64_t n_, width_, last_number_;  // the greatest packed key that is not that of NaN
  bool exact_, floating_;
};

}  // namespace rl::kernels
