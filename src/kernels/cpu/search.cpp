#include <algorithm>
#include <cmath>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/interpreter.h"
#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/cpu/offsets.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/reduce.h"
#include "kernels/sort.h"

namespace rl::kernels {
namespace {

// found[k] is the first place in a row of n where values[k] may stand; NaN stands after everything.
// rows[k] counts from `data` to the k-th one's row. All searches take each step together, without a
// branch: what one waits for memory, the others use.
template <bool right, class T>
void search_rows(const T* data, const int64_t* rows, const int64_t* order, int64_t n,
                 const T* values, int64_t count, int64_t* found) {
  auto comes_before = [](T x, T value) {
    return (right ? x <= value : x < value) | (value != value);
  };
  for (int64_t k = 0; k < count; ++k) found[k] = rows[k];
  for (int64_t left = n; left > 0;) {
    int64_t half = (left + 1) / 2;
    for (int64_t k = 0; k < count; ++k) {
      int64_t last = found[k] + half - 1;
      T x = data[order ? rows[k] + order[last] : last];
      found[k] += half & -static_cast<int64_t>(comes_before(x, values[k]));
    }
    left -= half;
  }
  for (int64_t k = 0; k < count; ++k) found[k] -= rows[k];
}

// One type compares for all: float32, float64 or int64, whichever holds the dtype's elements.
template <class T>
void search(const View& sorted, const View& values, bool right, const View* sorter,
            const View& out) {
  int64_t n = sorted.sizes[sorted.ndim - 1],
          per_row = values.ndim ? values.sizes[values.ndim - 1] : 1;
  bool shared = sorted.ndim == 1;
  Scratch<T> rows(static_cast<size_t>(sorted.numel));
  load_strip(sorted.dtype, sorted.ptr<char>(), itemsize(sorted.dtype), dtype_of<T>, rows.data(),
             sorted.numel);
  Scratch<int64_t> places;  // a copy, as they may change after this check
  if (sorter) places.assign(sorter->ptr<int64_t>(), sorter->ptr<int64_t>() + sorter->numel);
  const int64_t* order = sorter ? places.data() : nullptr;
  for (int64_t i = 0; order && i < sorter->numel; ++i)
    check_index(order[i] >= 0 && order[i] < n, "searchsorted: sorter index ", order[i],
                " is out of range for rows of ", n);
  parallel_for(0, values.numel, default_grain / 32, [&](int64_t begin, int64_t end) {
    constexpr int64_t strip = 256;
    T wanted[strip];
    int64_t found[strip], offsets[strip] = {}, in_size = itemsize(values.dtype),
                          out_size = itemsize(out.dtype);
    for (int64_t i = begin; i < end; i += strip) {
      int64_t m = std::min(strip, end - i);
      load_strip(values.dtype, values.ptr<char>() + i * in_size, in_size, dtype_of<T>, wanted, m);
      for (int64_t k = 0; !shared && k < m; ++k) offsets[k] = (i + k) / per_row * n;
      (right ? search_rows<true, T> : search_rows<false, T>)(rows.data(), offsets, order, n, wanted,
                                                             m, found);
      store_strip(DType::Int64, found, out.dtype, out.ptr<char>() + i * out_size, out_size, m);
    }
  });
}

// The least and the largest element, which is NaN if there is one.
std::pair<double, double> range_of(const View& input) {
  Dims ones(input.ndim, 1);
  double low = 0, high = 0;
  amin(input, {&low, ones.data(), ones.data(), input.ndim, 1, DType::Float64});
  amax(input, {&high, ones.data(), ones.data(), input.ndim, 1, DType::Float64});
  return {low, high};
}

// Arithmetic in the input's own precision decides which side of an edge an element falls.
template <class C>
void count_bins(const View& input, C low, C high, std::vector<int64_t>& counts) {
  int64_t bins = static_cast<int64_t>(counts.size());
  StridedIterator<1> w({&input}, true);
  w.range(0, w.numel, w.base, [&](char* const* p, int64_t n) {
    constexpr int64_t strip = 512;
    C x[strip];
    for (int64_t i = 0; i < n; i += strip) {
      int64_t m = std::min(strip, n - i), step = w.strides[0][0];
      load_strip(input.dtype, p[0] + i * step, step, dtype_of<C>, x, m);
      for (int64_t k = 0; k < m; ++k) {
        if (!(x[k] >= low && x[k] <= high)) continue;
        int64_t bin = static_cast<int64_t>((x[k] - low) * static_cast<C>(bins) / (high - low));
        ++counts[static_cast<size_t>(std::min(bin, bins - 1))];
      }
    }
  });
}

// f(elements, n) for strips of elements [begin, end) of a 1-D view as int64, which somebody else
// may change meanwhile.
template <class F>
void for_integers(const View& v, int64_t begin, int64_t end, F f) {
  constexpr int64_t strip = 1024;
  int64_t loaded[strip], step = v.strides[0] * itemsize(v.dtype);
  bool in_place = v.dtype == DType::Int64 && step == sizeof(int64_t);
  Interruption interruption;
  for (int64_t i = begin; i < end; i += strip) {
    if (i > begin) interruption.poll();
    int64_t n = std::min(strip, end - i);
    const char* from = v.ptr<char>() + i * step;
    if (!in_place) load_strip(v.dtype, from, step, DType::Int64, loaded, n);
    f(in_place ? reinterpret_cast<const int64_t*>(from) : loaded, n);
  }
}

[[noreturn]] void fail_bin(int64_t value, int64_t bins) {
  check_index(false, "bincount: element ", value, " is out of range for ", bins, " bins");
  __builtin_unreachable();
}

// An element is read once, then checked and used: somebody else may change it meanwhile.
inline int64_t checked_bin(const int64_t* x, int64_t bins) {
  int64_t v = __atomic_load_n(x, __ATOMIC_RELAXED);
  if (__builtin_expect(static_cast<uint64_t>(v) >= static_cast<uint64_t>(bins), 0))
    fail_bin(v, bins);
  return v;
}

// counts[x] += 1 for each element. Neighbours are counted apart where there are few bins: of two
// that are equal the second waits for the first one's sum. So are the parts of several threads.
void count_each(const View& input, int64_t bins, int64_t* counts) {
  static constexpr int64_t ways = 4, most_bins = 2048;
  if (bins > most_bins || input.numel < bins)
    return for_integers(input, 0, input.numel, [bins, counts](const int64_t* x, int64_t n) {
      for (int64_t k = 0; k < n; ++k) ++counts[checked_bin(x + k, bins)];
    });
  parallel_for(0, input.numel, default_grain + ways * bins, [&](int64_t begin, int64_t end) {
    Scratch<int64_t> part(static_cast<size_t>(ways * bins), 0);
    for_integers(input, begin, end, [bins, &part](const int64_t* x, int64_t n) {
      const int64_t m = bins;  // stores might change what is captured
      int64_t *first = part.data(), k = 0;
      for (; k + ways <= n; k += ways) {
        ++first[checked_bin(x + k, m)];
        ++first[m + checked_bin(x + k + 1, m)];
        ++first[2 * m + checked_bin(x + k + 2, m)];
        ++first[3 * m + checked_bin(x + k + 3, m)];
      }
      for (; k < n; ++k) ++first[checked_bin(x + k, m)];
    });
    for (int64_t i = 0; i < bins; ++i) {
      int64_t sum = part[i] + part[i + bins] + part[i + 2 * bins] + part[i + 3 * bins];
      if (end - begin == input.numel) counts[i] = sum;  // an atomic sum takes 6 ns
      else if (sum) __atomic_fetch_add(counts + i, sum, __ATOMIC_RELAXED);
    }
  });
}

// The largest element, at least 0; a negative one raises.
int64_t largest_bin(const View& input, int64_t begin, int64_t end) {
  int64_t high = 0;
  for_integers(input, begin, end, [&high](const int64_t* x, int64_t n) {
    int64_t top[4] = {high, high, high, high}, signs = 0, k = 0;
    for (; k + 4 <= n; k += 4)
      for (int64_t way = 0; way < 4; ++way) {  // so that none waits for the one before
        signs |= x[k + way];
        top[way] = std::max(top[way], x[k + way]);
      }
    for (; k < n; ++k) {
      signs |= x[k];
      high = std::max(high, x[k]);
    }
    for (int64_t t : top) high = std::max(high, t);
    if (signs < 0)
      check(false, "bincount: only supports 1-d non-negative integral inputs, got the element ",
            std::min(int64_t(-1), *std::min_element(x, x + n)));
  });
  return high;
}

}  // namespace

void searchsorted(const View& sorted, const View& values, bool right, const View* sorter,
                  const View& out) {
  check(sorted.ndim >= 1 && sorted.dtype == values.dtype, "searchsorted: boundaries of sizes ",
        sorted.shape(), " and dtype ", sorted.dtype, " do not go with values of dtype ",
        values.dtype);
  bool fits = sorted.ndim == 1 ||
              (sorted.ndim == values.ndim &&
               IntSpan(sorted.sizes, sorted.ndim - 1) == IntSpan(values.sizes, values.ndim - 1));
  check(fits, "searchsorted: boundaries of sizes ", sorted.shape(),
        " do not go with values of sizes ", values.shape());
  check_implemented(!is_complex(sorted.dtype), "searchsorted: not implemented for dtype ",
                    sorted.dtype);
  if (values.numel == 0) return;
  if (sorted.dtype == DType::Float64) search<double>(sorted, values, right, sorter, out);
  else if (is_floating(sorted.dtype)) search<float>(sorted, values, right, sorter, out);
  else search<int64_t>(sorted, values, right, sorter, out);
}

void histc(const View& input, double low, double high, const View& out) {
  check_implemented(is_floating(input.dtype), "histc: not implemented for dtype ", input.dtype);
  check(out.numel > 0, "histc: bins must be > 0, but got ", out.numel);
  if (low == high && input.numel > 0) std::tie(low, high) = range_of(input);
  check(std::isfinite(low) && std::isfinite(high), "histc: range of [", low, ", ", high,
        "] is not finite");
  if (low == high) {
    low -= 1;
    high += 1;
  }
  check(low < high, "histc: max must be larger than min, got [", low, ", ", high, "]");
  std::vector<int64_t> counts(static_cast<size_t>(out.numel), 0);
  if (input.dtype == DType::Float64) count_bins<double>(input, low, high, counts);
  else count_bins<float>(input, static_cast<float>(low), static_cast<float>(high), counts);
  store_strip(DType::Int64, counts.data(), out.dtype, out.ptr<char>(),
              out.strides[0] * itemsize(out.dtype), out.numel);
}

int64_t bincount_size(const View& input) {
  check(input.ndim == 1 && is_integral_or_bool(input.dtype) && input.dtype != DType::Bool,
        "bincount: only supports 1-d non-negative integral inputs, got sizes ", input.shape(),
        " and dtype ", input.dtype);
  if (input.numel == 0) return 0;
  int64_t largest = 0;
  std::mutex mutex;
  parallel_for(0, input.numel, default_grain, [&](int64_t begin, int64_t end) {
    int64_t high = largest_bin(input, begin, end);
    std::lock_guard<std::mutex> lock(mutex);
    largest = std::max(largest, high);
  });
  return largest + 1;
}

void bincount(const View& input, const View* weights, const View& out) {
  check(!weights || (weights->numel == input.numel && weights->dtype == out.dtype),
        "bincount: weights should have the same length as input and out's dtype");
  fill(out, 0);
  if (!weights && out.dtype == DType::Int64)
    return count_each(input, out.numel, out.ptr<int64_t>());
  visit<int64_t, float, double>("bincount", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* counts = out.ptr<T>();
    const T* weight = weights ? weights->ptr<T>() : nullptr;
    int64_t weight_step = weights ? weights->strides[0] : 0;
    int64_t i = 0;
    for_integers(input, 0, input.numel, [&](const int64_t* x, int64_t n) {
      for (int64_t k = 0; k < n; ++k)
        counts[checked_bin(x + k, out.numel)] += weight[(i + k) * weight_step];
      i += n;
    });
  });
}

}  // namespace rl::kernels
