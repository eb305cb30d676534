#include <algorithm>
#include <numeric>

#include "kernels/cpu/interruptible.h"
#include "kernels/cpu/sort_keys.h"
#include "kernels/sort.h"

namespace rl::kernels {
namespace {

// Collects groups of equal elements: the place of the first of each, sizes, and each one's group.
struct Groups {
  int64_t count = 0;
  int64_t* first;
  int64_t* inverse;
  int64_t* counts;

  // Takes places in order; `starts` says whether this one differs from the one before.
  void take(int64_t place, bool starts) {
    if (starts) {
      first[count] = place;
      if (counts) counts[count] = 0;
      ++count;
    }
    if (inverse) inverse[place] = count - 1;
    if (counts) ++counts[count - 1];
  }
};

int64_t* data_or_null(const View* v) { return v ? v->ptr<int64_t>() : nullptr; }

// NaN equals nothing, itself included.
template <class Item>
bool differ(typename Item::Key a, typename Item::Key b, DType dtype) {
  return a != b || (is_floating(dtype) && a == nan_key<Item>);
}

}  // namespace

int64_t unique(const View& input, const View& values, const View* inverse, const View* counts) {
  check_implemented(!is_complex(input.dtype), "unique: not implemented for dtype ", input.dtype);
  int64_t n = input.numel, size = itemsize(input.dtype);
  Scratch<int64_t> first(static_cast<size_t>(n));
  Groups groups{0, first.data(), data_or_null(inverse), data_or_null(counts)};
  visit_items(input.dtype, n, [&](auto item) {
    using Item = decltype(item);
    Scratch<Item> items(static_cast<size_t>(n));
    SortLine{input.dtype, input.ptr<char>(), size, n, false}.load_items(0, n, items.data());
    sort_items(items);
    interruptible_for(n, [&](int64_t begin, int64_t end) {
      for (size_t i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        groups.take(items[i].place(),
                    i == 0 || differ<Item>(items[i].key(), items[i - 1].key(), input.dtype));
    });
  });
  interruptible_for(groups.count, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g)
      std::memcpy(values.ptr<char>() + g * size,
                  input.ptr<char>() + first[static_cast<size_t>(g)] * size,
                  static_cast<size_t>(size));
  });
  return groups.count;
}

int64_t unique_consecutive(const View& input, const View& values, const View* inverse,
                           const View* counts) {
  check_implemented(!is_complex(input.dtype), "unique_consecutive: not implemented for dtype ",
                    input.dtype);
  constexpr int64_t block = 16;  // elements of which none may start a run
  int64_t n = input.numel, count = 0;
  int64_t *group = data_or_null(inverse), *starts = data_or_null(counts);
  visit_all("unique_consecutive", input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = input.ptr<T>();
    T* to = values.ptr<T>();
    // Written in any case, kept where a run starts. What is counted stays in a register.
    auto take = [=](int64_t i, bool starts_here, int64_t found) {
      to[found] = x[i];
      if (starts) starts[found] = i;
      found += starts_here;
      if (group) group[i] = found - 1;
      return found;
    };
    auto differs = [x](int64_t i) { return !(compute_t<T>(x[i]) == compute_t<T>(x[i - 1])); };
    auto change = [=](int64_t i) {  // 0 where nothing differs
      if constexpr (std::is_integral_v<T>) return x[i] ^ x[i - 1];
      else return static_cast<int>(differs(i));
    };
    if (n > 0) count = take(0, true, 0);
    interruptible_for(n, [&, take, differs, change](int64_t begin, int64_t end) {
      int64_t found = count;
      for (int64_t i = std::max<int64_t>(1, begin), stop; i < end; i = stop) {
        stop = std::min(end, i + block);
        decltype(change(i)) any = 0;
        for (int64_t k = i; k < stop; ++k) any |= change(k);
        if (!group && any) {
          T before = x[i - 1];
          for (int64_t k = i; k < stop; ++k) {
            const T value = x[k];
            to[found] = value;
            if (starts) starts[found] = k;
            found += !(compute_t<T>(value) == compute_t<T>(before));
            before = value;
          }
          continue;
        }
        for (int64_t k = i; (any || group) && k < stop; ++k) found = take(k, differs(k), found);
      }
      count = found;
    });
  });
  for (int64_t g = 0; starts && g < count; ++g)
    starts[g] = (g + 1 < count ? starts[g + 1] : n) - starts[g];
  return count;
}

int64_t unique_rows(const View& input, bool consecutive, const View& first, const View* inverse,
                    const View* counts) {
  check_implemented(!is_complex(input.dtype), "unique_dim: not implemented for dtype ",
                    input.dtype);
  int64_t n = input.sizes[0], width = input.sizes[1];
  Groups groups{0, first.ptr<int64_t>(), data_or_null(inverse), data_or_null(counts)};
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  visit_items(input.dtype, width, [&](auto item) {
    using Item = decltype(item);
    using Key = typename Item::Key;
    std::vector<Key> keys(static_cast<size_t>(input.numel));
    load_keys(input.dtype, input.ptr<char>(), itemsize(input.dtype), input.numel, 0, keys.data());
    auto row = [&](int64_t r) { return keys.data() + r * width; };
    Interruption interruption;
    if (!consecutive)
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        interruption.poll();
        return std::lexicographical_compare(row(a), row(a) + width, row(b), row(b) + width);
      });
    auto same = [&](Key a, Key b) { return !differ<Item>(a, b, input.dtype); };
    for (size_t i = 0; i < order.size(); ++i)
      groups.take(order[i], i == 0 || !std::equal(row(order[i]), row(order[i]) + width,
                                                  row(order[i - 1]), same));
  });
  return groups.count;
}

}  // namespace rl::kernels
