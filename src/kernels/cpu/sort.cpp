#include "kernels/sort.h"

#include "kernels/cpu/interruptible.h"
#include "kernels/cpu/sort_keys.h"
#include "kernels/cpu/sort_scan.h"
#include "kernels/cpu/strided_iterator.h"

namespace rl::kernels {
namespace {

// The elements at the places of items.
template <class T, class Item>
void put_values_of(const Item* items, int64_t n, const char* from, int64_t step, char* to,
                   int64_t to_step) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * to_step, from + items[i].place() * step, sizeof(T));
}
template <class Item>
void put_values(int64_t size, const Item* items, int64_t n, const char* from, int64_t step,
                char* to, int64_t to_step) {
  switch (size) {
    case 1: return put_values_of<uint8_t>(items, n, from, step, to, to_step);
    case 2: return put_values_of<uint16_t>(items, n, from, step, to, to_step);
    case 4: return put_values_of<uint32_t>(items, n, from, step, to, to_step);
    default: return put_values_of<uint64_t>(items, n, from, step, to, to_step);
  }
}

// Runs choose(line, items) on each line along dim, with memory for all its items; the places of the
// first `kept` items that it leaves go to indices, their elements to values.
template <class Choose>
void for_each_line(const char* name, const View& input, int64_t dim, bool descending, int64_t kept,
                   const View* values, const View& indices, Choose&& choose) {
  check_implemented(!is_complex(input.dtype), name, ": not implemented for dtype ", input.dtype);
  check(indices.dtype == DType::Int64 && (!values || values->dtype == input.dtype), name,
        ": outputs must have dtypes ", input.dtype, " and int64");
  if (indices.numel == 0) return;
  const View& value_view = values ? *values : indices;
  StridedIterator<3> lines({&indices, &input, &value_view}, true, dim);
  bool scalar = input.ndim == 0;
  int64_t n = scalar ? 1 : input.sizes[dim], size = itemsize(input.dtype);
  int64_t in_step = scalar ? 0 : input.strides[dim] * size;
  int64_t index_step = scalar ? 0 : indices.strides[dim] * itemsize(DType::Int64);
  int64_t value_step = scalar || !values ? 0 : values->strides[dim] * size;
  visit_items(input.dtype, n, [&](auto item) {
    using Item = decltype(item);
    int64_t grain = std::max<int64_t>(1, default_grain / 16 / (n + 1));
    // Of short lines that follow each other, the keys of several are made at once.
    const bool together = n <= SortLine::strip / 16 && lines.strides[1][0] == n * in_step;
    const int64_t at_once = together ? SortLine::strip / std::max<int64_t>(n, 1) : 1;
    lines.parallel_runs(grain, [&](char* const* start, int64_t count) {
      Scratch<Item> items(static_cast<size_t>(n));
      typename Item::Key keys[SortLine::strip];
      for (int64_t line = 0; line < count; ++line) {
        char* p[3];
        for (int k = 0; k < 3; ++k) p[k] = start[k] + line * lines.strides[k][0];
        SortLine chosen{input.dtype, p[1], in_step, n, descending};
        if (together) {
          if (line % at_once == 0)
            load_keys(input.dtype, p[1], in_step, std::min(at_once, count - line) * n,
                      chosen.flip<typename Item::Key>(), keys);
          chosen.keys = keys + line % at_once * n;
        }
        choose(chosen, items);
        for (int64_t i = 0; i < kept; ++i)
          *reinterpret_cast<int64_t*>(p[0] + i * index_step) =
              items[static_cast<size_t>(i)].place();
        if (values) put_values(size, items.data(), kept, p[1], in_step, p[2], value_step);
      }
    });
  });
}

// The same with all items of the line.
template <class Choose>
void for_each_whole_line(const char* name, const View& input, int64_t dim, bool descending,
                         int64_t kept, const View* values, const View& indices, Choose&& choose) {
  for_each_line(name, input, dim, descending, kept, values, indices,
                [&](const SortLine& line, auto& items) {
                  line.load_items(0, line.n, items.data());
                  choose(items);
                });
}

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
// NaN is not equal to itself, so that no two of them count together.
template <class Item>
void select_most_frequent(Scratch<Item>& items, bool floating) {
  using Key = typename Item::Key;
  auto less = [](const Item& a, const Item& b) { return a.key() < b.key(); };
  auto [low, high] = std::minmax_element(items.begin(), items.end(), less);
  Key first = low->key(), range = high->key() - first;
  if (range < 4 * items.size()) {
    Scratch<int64_t> counts(static_cast<size_t>(range) + 1, 0);
    interruptible_for_each(
        items, [&](const Item& item) { ++counts[static_cast<size_t>(item.key() - first)]; });
    if (floating && high->key() == nan_key<Item>) counts.back() = 1;
    auto most = std::max_element(counts.begin(), counts.end());
    Key wanted = static_cast<Key>(first + static_cast<Key>(most - counts.begin()));
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
  for_each_whole_line("sort", input, dim, descending, line_size(input, dim), values, indices,
                      [](auto& items) { sort_items(items); });
}

void topk(const View& input, int64_t dim, int64_t k, bool largest, const View& values,
          const View& indices) {
  check(k >= 0 && k <= line_size(input, dim), "topk: selected index k out of range, got k=", k,
        " for sizes ", input.shape());
  for_each_line("topk", input, dim, largest, k, &values, indices,
                [k](const SortLine& line, auto& items) {
                  if (k > 0) select_least(line, k, items);
                });
}

void kthvalue(const View& input, int64_t dim, int64_t k, const View& values, const View& indices) {
  check(k >= 1 && k <= line_size(input, dim),
        "kthvalue: selected number k out of range for dimension ", dim, ", got k=", k,
        " for sizes ", input.shape());
  for_each_whole_line("kthvalue", input, dim, false, 1, &values, indices,
                      [k](auto& items) { select_rank(items, k - 1); });
}

void median(const View& input, int64_t dim, bool ignore_nan, const View& values,
            const View& indices) {
  check_index(line_size(input, dim) > 0 || indices.numel == 0, "median: Expected reduction dim ",
              dim, " to have non-zero size.");
  for_each_whole_line("median", input, dim, false, 1, &values, indices, [&](auto& items) {
    int64_t numbers = count_numbers(items, input.dtype), all = static_cast<int64_t>(items.size());
    bool is_nan = ignore_nan ? numbers == 0 : numbers < all;
    select_rank(items, is_nan ? numbers : (numbers - 1) / 2);
  });
}

void mode(const View& input, int64_t dim, const View& values, const View& indices) {
  check_index(line_size(input, dim) > 0 || indices.numel == 0, "mode: Expected reduction dim ", dim,
              " to have non-zero size.");
  for_each_whole_line("mode", input, dim, false, 1, &values, indices,
                      [&](auto& items) { select_most_frequent(items, is_floating(input.dtype)); });
}

}  // namespace rl::kernels
