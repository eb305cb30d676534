#include "kernels/sort.h"

#include "kernels/cpu/interruptible.h"
#include "kernels/cpu/sort_panel.h"
#include "kernels/cpu/sort_scan.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

// Places that were chosen, and where these and the elements there go. Steps are in bytes.
struct Chosen {
  const void* places;  // of 64 bits, with something else above the mask
  int64_t mask, place_step;
  const char* line;  // of the first place; the next one's is at line + line_step
  int64_t line_step;
  char* indices;
  int64_t index_step;
  char* values;
  int64_t value_step, count;
};

// Elements of type T, or void if only places are wanted, are `step` bytes from each other.
template <class T> void put_typed(const Chosen& chosen, int64_t step) {
  const Chosen c = chosen;
  for (int64_t i = 0; i < c.count; ++i) {
    int64_t place;
    std::memcpy(&place, static_cast<const char*>(c.places) + i * c.place_step, sizeof place);
    place &= c.mask;
    std::memcpy(c.indices + i * c.index_step, &place, sizeof place);
    if constexpr (!std::is_void_v<T>)
      std::memcpy(c.values + i * c.value_step, c.line + i * c.line_step + place * step, sizeof(T));
  }
}

// Lines along a dim of an input, of each of which the elements at `kept` places go to `values`
// (which may be null), and these places to `indices`.
class Lines {
 public:
  Lines(const char* name, const View& input, int64_t dim, bool descending, int64_t kept,
        const View* values, const View& indices)
      : walk_({&indices, &input, values ? values : &indices}, true, dim),
        dtype_(input.dtype),
        descending_(descending),
        has_values_(values),
        kept_(indices.numel == 0 ? 0 : kept) {
    check_implemented(!is_complex(input.dtype), name, ": not implemented for dtype ", input.dtype);
    check(indices.dtype == DType::Int64 && (!values || values->dtype == input.dtype), name,
          ": outputs must have dtypes ", input.dtype, " and int64");
    if (input.ndim == 0) return;
    n_ = input.sizes[dim];
    in_step_ = input.strides[dim] * itemsize(dtype_);
    index_step_ = indices.strides[dim] * itemsize(DType::Int64);
    if (values) value_step_ = values->strides[dim] * itemsize(dtype_);
  }

  // choose_of_panel(panel) leaves the places of each line's first `kept` in the panel's first rows;
  // choose(line, items), with memory for all items of the line, leaves these items in front. Both
  // have the same results. Panels are faster for lines of up to `longest` elements, and for those
  // of up to `longest_across` where elements of different lines lie closer together than those of
  // one.
  template <class ChooseOfPanel, class Choose>
  void run(int64_t longest, ChooseOfPanel&& choose_of_panel, Choose&& choose) const {
    if (kept_ == 0) return;
    const int dim = panel_dim();
    constexpr int64_t longest_across = 128;
    const int64_t least_lines = std::max<int64_t>(4, n_ / 8);
    if (std::abs(walk_.strides[1][dim]) < std::abs(in_step_))
      longest = std::max(longest, longest_across);
    if (n_ <= longest && walk_.sizes[dim] >= least_lines) run_panels(dim, choose_of_panel);
    else run_lines(choose);
  }
  // The same where choose(items) begins with all items of the line, in their order.
  template <class ChooseOfPanel, class Choose>
  void run_whole(int64_t longest, ChooseOfPanel&& choose_of_panel, Choose&& choose) const {
    run(longest, choose_of_panel, [&](const SortLine& line, auto& items) {
      line.load_items(0, line.n, items.data());
      choose(items);
    });
  }

 private:
  SortLine line_at(const char* in) const { return {dtype_, in, in_step_, n_, descending_}; }

  // Where panels take their lines from: the innermost dim, but if it has few, that of most. Pairs
  // in the middle of (m, 2, 3) take an eighteenth of what they take one by one.
  int panel_dim() const {
    constexpr int64_t few = 16;
    if (walk_.sizes[0] >= few) return 0;
    const int64_t* sizes = walk_.sizes;
    return static_cast<int>(std::max_element(sizes, sizes + walk_.ndim) - sizes);
  }

  template <class Choose> void run_panels(int dim, Choose& choose) const {
    const int64_t widest = SortPanel::widest(n_);
    const int64_t grain = default_grain / 8 / n_;
    const int64_t panels_beside = dim == 0 ? 1 : walk_.sizes[0];
    walk_.parallel_panels(dim, widest, grain, [&](char* const* start, int64_t width) {
      for (int64_t i = 0; i < panels_beside; ++i) {
        char* p[3];
        for (int k = 0; k < 3; ++k) p[k] = start[k] + i * walk_.strides[k][0];
        run_panel(p, dim, width, choose);
      }
    });
  }

  // Of `width` lines that follow each other in the dim.
  template <class Choose>
  void run_panel(char* const* p, int dim, int64_t width, Choose& choose) const {
    constexpr int64_t size = sizeof(int64_t), all = -1;
    const int64_t index_line = walk_.strides[0][dim], in_line = walk_.strides[1][dim],
                  value_line = walk_.strides[2][dim];
    SortPanel panel;
    panel.sort(line_at(p[1]), in_line, width);
    choose(panel);
    // Rank by rank or line by line, in as few runs as there can be.
    if (kept_ <= width || std::abs(index_line) < std::abs(index_step_)) {
      for (int64_t i = 0; i < kept_; ++i)
        put({panel.places(i), all, size, p[1], in_line, p[0] + i * index_step_, index_line,
             p[2] + i * value_step_, value_line, width},
            in_step_);
    } else {
      for (int64_t i = 0; i < width; ++i)
        put({panel.places(0) + i, all, width * size, p[1] + i * in_line, 0, p[0] + i * index_line,
             index_step_, p[2] + i * value_line, value_step_, kept_},
            in_step_);
    }
  }

  // Of elements `step` bytes from each other.
  void put(const Chosen& chosen, int64_t step) const {
    if (!has_values_) return put_typed<void>(chosen, step);
    switch (itemsize(dtype_)) {
      case 1: return put_typed<uint8_t>(chosen, step);
      case 2: return put_typed<uint16_t>(chosen, step);
      case 4: return put_typed<uint32_t>(chosen, step);
      default: return put_typed<uint64_t>(chosen, step);
    }
  }

  template <class Choose> void run_lines(Choose& choose) const {
    int64_t grain = std::max(together(), default_grain / 16 / (n_ + 1));
    visit_items(dtype_, n_, [&](auto item) {
      using Item = decltype(item);
      walk_.parallel_runs(grain, [&](char* const* start, int64_t count) {
        Scratch<Item> items(static_cast<size_t>(n_));
        auto one = [&](const SortLine& line) -> Choice {
          choose(line, items);
          return {Item::places(items.data()), Item::place_mask, sizeof(Item)};
        };
        for_each_line(start, count, {&one, [](const void* context, const SortLine& line) {
                                       return (*static_cast<const decltype(one)*>(context))(line);
                                     }});
      });
    });
  }

  // A function of any type, so that there is one copy of the code around it.
  struct Choice {
    const void* places;
    int64_t mask, place_step;
  };
  struct LineCall {
    const void* context;
    Choice (*call)(const void*, const SortLine&);
  };

  // Lines whose elements lie further apart than their neighbours do are copied beside each other,
  // some at a time: topk of 1024 columns takes 0.7 ms, not 9.7.
  int64_t together() const {
    constexpr int64_t most = 16, most_copied = 1 << 20, far_apart = 32;
    const int64_t step = std::abs(in_step_);
    const bool across = std::abs(walk_.strides[1][0]) < step && step >= far_apart;
    return across ? std::clamp<int64_t>(most_copied / n_, 1, most) : 1;
  }
  void for_each_line(char* const* start, int64_t count, LineCall choose) const {
    const int64_t size = itemsize(dtype_), between = walk_.strides[1][0], most = together();
    Buffer<char> near(most > 1 ? most * n_ * size : 0);
    for (int64_t first = 0; first < count; first += most) {
      const int64_t lines = std::min(most, count - first);
      SortLine line = line_at(start[1] + first * between);
      int64_t next = between;
      if (most > 1) {
        copy_panel(size, line.in, next, line.stride, near.data(), n_ * size, size, lines, n_);
        line.in = near.data(), line.stride = size, next = n_ * size;
      }
      for (int64_t i = first; i < first + lines; ++i, line.in += next) {
        const Choice c = choose.call(choose.context, line);
        put({c.places, c.mask, c.place_step, line.in, 0, start[0] + i * walk_.strides[0][0],
             index_step_, start[2] + i * walk_.strides[2][0], value_step_, kept_},
            line.stride);
      }
    }
  }

  StridedIterator<3> walk_;
  DType dtype_;
  bool descending_, has_values_;
  int64_t kept_, n_ = 1, in_step_ = 0, index_step_ = 0, value_step_ = 0;
};

// The longest lines that panels sort faster: floats of 256 elements in a fifth of the time. Where
// integers lie in a range of few, which is common, longer lines are counted (counting_sort).
int64_t longest_to_sort(DType dtype) { return is_floating(dtype) ? SortPanel::longest : 64; }
// The longest of which panels find a few elements faster than select_least, and one faster than
// select_rank.
constexpr int64_t longest_for_few = 64, longest_for_one = 128;

int64_t line_size(const View& input, int64_t dim) { return input.ndim ? input.sizes[dim] : 1; }

// Brings the item of the given rank to the front; the others are lost. Digit by digit of their
// keys, from the highest, those that share the wanted one's are kept; the last few are compared.
template <class Item>
void select_rank(Scratch<Item>& items, int64_t rank) {
  constexpr int64_t few = 128, many = 4096, most_values = 2048;
  auto begin = items.begin(), end = items.end();
  int32_t counts[most_values];
  for (int shift = 8 * sizeof(typename Item::Key); shift > 11 && end - begin > few;) {
    int bits = end - begin < many ? 8 : 11;
    shift -= bits;
    auto digit = [&](const Item& item) { return item.key() >> shift & ((1u << bits) - 1); };
    std::fill_n(counts, 1 << bits, 0);
    interruptible_for(end - begin, [&](int64_t from, int64_t to) {
      for (auto i = begin + from; i != begin + to; ++i) ++counts[digit(*i)];
    });
    unsigned wanted = 0;
    for (; rank >= counts[wanted]; ++wanted) rank -= counts[wanted];
    auto kept = begin;
    interruptible_for(end - begin, [&](int64_t from, int64_t to) {
      for (auto i = begin + from; i != begin + to; ++i) {
        *kept = *i;
        kept += digit(*kept) == wanted;
      }
    });
    end = kept;
  }
  std::nth_element(begin, begin + rank, end);
  std::swap(items[0], items[static_cast<size_t>(rank)]);
}

void find_below(const uint32_t* keys, int64_t n, uint32_t bound, int32_t* places, int64_t* count) {
  find_below_narrow(keys, n, bound, places, count);
}
void find_below(const uint64_t* keys, int64_t n, uint64_t bound, int32_t* places, int64_t* count) {
  find_below_wide(keys, n, bound, places, count);
}

uint32_t minimum_of_rank(const SortLine& line, int64_t k, NarrowItem) {
  uint32_t minima[minimum_lanes], least;
  std::fill_n(minima, minimum_lanes, nan_key<NarrowItem>);
  line.for_keys<NarrowItem>(0, line.n, [&](int64_t, const uint32_t* keys, int64_t m) {
    keep_minima_narrow(keys, m, minima);
  });
  rank_minima_narrow(minima, k, &least);
  return least;
}
uint64_t minimum_of_rank(const SortLine& line, int64_t k, WideItem) {
  uint64_t minima[minimum_lanes], least;
  std::fill_n(minima, minimum_lanes, nan_key<WideItem>);
  line.for_keys<WideItem>(0, line.n, [&](int64_t, const uint64_t* keys, int64_t m) {
    keep_minima_wide(keys, m, minima);
  });
  rank_minima_wide(minima, k, &least);
  return least;
}

// Leaves the k least items of the line at the front, in order, by two passes over it: the first
// finds a bound that little more than k are not above, 12 times as fast as a heap for 5 of 1000.
template <class Item>
bool select_few(const SortLine& line, int64_t k, Scratch<Item>& items) {
  constexpr int64_t most = minimum_lanes / 2, longest = 1 << 16;  // which stays in the cache
  if (k > most || line.n < 4 * minimum_lanes || line.n > longest) return false;
  auto bound = minimum_of_rank(line, k, Item());
  if (bound == nan_key<Item>) return false;  // nothing is above it
  int64_t size = 0;
  line.for_keys<Item>(0, line.n, [&](int64_t first, const auto* keys, int64_t m) {
    int32_t near[SortLine::strip];
    int64_t count;
    find_below(keys, m, bound + 1, near, &count);
    for (int64_t i = 0; i < count; ++i)
      items[static_cast<size_t>(size++)] = Item::make(keys[near[i]], first + near[i]);
  });
  std::partial_sort(items.begin(), items.begin() + k, items.begin() + size);
  return true;
}

// Leaves the k least items of the line at the front, in order. Items join a small pool there if
// they are below a bound that falls whenever the pool is full: few do, and of others not even the
// item is made. Who is level with the bound comes later, and so is not below it.
template <class Item>
void select_least(const SortLine& line, int64_t k, Scratch<Item>& items) {
  if (select_few(line, k, items)) return;
  int64_t capacity = std::min(line.n, std::max<int64_t>(4 * k, 32)), size = capacity;
  auto pool = items.begin();
  Item bound{};
  auto shrink = [&] {
    if (size > k) std::nth_element(pool, pool + (k - 1), pool + size);
    bound = pool[k - 1];
    size = k;
  };
  line.load_items(0, capacity, items.data());
  shrink();
  line.for_keys<Item>(capacity, line.n, [&](int64_t first, const auto* keys, int64_t m) {
    int32_t near[SortLine::strip];
    int64_t count;
    find_below(keys, m, bound.key(), near, &count);
    for (int64_t i = 0; i < count; ++i) {
      if (keys[near[i]] >= bound.key()) continue;  // which has fallen since
      pool[size++] = Item::make(keys[near[i]], first + near[i]);
      if (size == capacity) shrink();
    }
  });
  shrink();
  std::sort(pool, pool + k);
}

// Brings the last item of the most frequent key, the least of those as frequent, to the front.
// Keys in a range of few are counted, an eighth of what it takes to sort them.
// NaN is not equal to itself, so that no two of them count together: if there is nothing else, the
// first is taken.
template <class Item>
void select_most_frequent(Scratch<Item>& items, bool floating) {
  using Key = typename Item::Key;
  Key low = items[0].key(), high = low;
  for (const Item& item : items) low = std::min(low, item.key()), high = std::max(high, item.key());
  if (floating && low == nan_key<Item>) return;
  const Key range = high - low;
  if (range < 4 * items.size()) {
    Scratch<int64_t> counts(static_cast<size_t>(range) + 1, 0);
    interruptible_for_each(
        items, [&](const Item& item) { ++counts[static_cast<size_t>(item.key() - low)]; });
    if (floating && high == nan_key<Item>) counts.back() = 1;
    auto most = std::max_element(counts.begin(), counts.end());
    Key wanted = static_cast<Key>(low + static_cast<Key>(most - counts.begin()));
    auto last = std::find_if(items.rbegin(), items.rend(),
                             [&](const Item& item) { return item.key() == wanted; });
    return std::swap(items[0], *last);
  }
  sort_items(items);
  size_t best_end = 0, best_length = 0, begin = 0;
  for (size_t i = 1; i <= items.size(); ++i) {
    bool is_nan = floating && items[begin].key() == nan_key<Item>;
    if (i < items.size() && items[i].key() == items[begin].key() && !is_nan) continue;
    if (i - begin > best_length) {
      best_length = i - begin;
      best_end = i - 1;
    }
    begin = i;
  }
  std::swap(items[0], items[best_end]);
}

// How many items are not NaN, which is where the keys of NaN start in rising order.
template <class Item>
int64_t count_numbers(const Scratch<Item>& items, DType dtype) {
  auto is_number = [](const Item& item) { return item.key() != nan_key<Item>; };
  return is_floating(dtype) ? std::count_if(items.begin(), items.end(), is_number)
                            : static_cast<int64_t>(items.size());
}

}  // namespace

void sort(const View& input, int64_t dim, bool descending, const View* values,
          const View& indices) {
  Lines("sort", input, dim, descending, line_size(input, dim), values, indices)
      .run_whole(
          longest_to_sort(input.dtype), [](SortPanel&) {}, [](auto& items) { sort_items(items); });
}

void topk(const View& input, int64_t dim, int64_t k, bool largest, const View& values,
          const View& indices) {
  check(k >= 0 && k <= line_size(input, dim), "topk: selected index k out of range, got k=", k,
        " for sizes ", input.shape());
  Lines("topk", input, dim, largest, k, &values, indices)
      .run(
          longest_for_few, [](SortPanel&) {},
          [k](const SortLine& line, auto& items) { select_least(line, k, items); });
}

void kthvalue(const View& input, int64_t dim, int64_t k, const View& values, const View& indices) {
  check(k >= 1 && k <= line_size(input, dim),
        "kthvalue: selected number k out of range for dimension ", dim, ", got k=", k,
        " for sizes ", input.shape());
  Lines("kthvalue", input, dim, false, 1, &values, indices)
      .run_whole(
          longest_for_one, [k](SortPanel& panel) { panel.choose_rank(k - 1); },
          [k](auto& items) { select_rank(items, k - 1); });
}

void median(const View& input, int64_t dim, bool ignore_nan, const View& values,
            const View& indices) {
  const int64_t all = line_size(input, dim);
  check_index(all > 0 || indices.numel == 0, "median: Expected reduction dim ", dim,
              " to have non-zero size.");
  auto rank = [=](int64_t numbers) {
    bool is_nan = ignore_nan ? numbers == 0 : numbers < all;
    return is_nan ? numbers : (numbers - 1) / 2;
  };
  Lines("median", input, dim, false, 1, &values, indices)
      .run_whole(
          longest_for_one, [&](SortPanel& panel) { panel.choose_rank_among_numbers(rank); },
          [&](auto& items) { select_rank(items, rank(count_numbers(items, input.dtype))); });
}

void mode(const View& input, int64_t dim, const View& values, const View& indices) {
  check_index(line_size(input, dim) > 0 || indices.numel == 0, "mode: Expected reduction dim ", dim,
              " to have non-zero size.");
  Lines("mode", input, dim, false, 1, &values, indices)
      .run_whole(
          longest_to_sort(input.dtype), [](SortPanel& panel) { panel.choose_most_frequent(); },
          [&](auto& items) { select_most_frequent(items, is_floating(input.dtype)); });
}

}  // namespace rl::kernels
