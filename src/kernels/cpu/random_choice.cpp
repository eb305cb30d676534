// Sampling among indices: permutations and categories.
#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cpu/random_fill.h"
#include "kernels/random.h"

namespace rl::kernels {

// Fisher and Yates: from the front with 32-bit draws; from 2^32 / 20 elements on, where a 32-bit
// modulus would skew too much, inside out with 64-bit draws.
void randperm(const View& out, Generator& generator) {
  visit_real("randperm", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = out.ptr<T>();
    int64_t n = out.numel, step = n ? out.strides[0] : 1;
    GeneratorLock lock(generator);
    if (n < int64_t(0xffffffff / 20)) {
      for (int64_t i = 0; i < n; ++i) data[i * step] = convert<T>(i);
      for (int64_t i = 0; i + 1 < n; ++i) {
        if (i % polled_elements == 0) lock.poll();
        int64_t other = i + generator.random() % static_cast<uint32_t>(n - i);
        std::swap(data[i * step], data[other * step]);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        if (i % polled_elements == 0) lock.poll();
        int64_t other = static_cast<int64_t>(generator.random64() % static_cast<uint64_t>(i + 1));
        data[i * step] = data[other * step];
        data[other * step] = convert<T>(i);
      }
    }
  });
}

namespace {

// (rows, n) over a view of one or two dims.
struct Rows {
  int64_t count, length, row_step, step;
  explicit Rows(const View& v)
      : count(v.ndim == 2 ? v.sizes[0] : 1),
        length(v.sizes[v.ndim - 1]),
        row_step(v.ndim == 2 ? v.strides[0] : 0),
        step(v.strides[v.ndim - 1]) {}
};

// Inverts the cumulative distribution, held in compute precision, at one 53-bit fraction a sample.
// What programs look for in these messages: "probability tensor contains either", and "invalid
// multinomial distribution".
template <class C>
void check_probability(C value) {
  check(value >= 0 && value <= std::numeric_limits<C>::max(),
        "multinomial: probability tensor contains either `inf`, `nan` or element < 0, got ", value,
        ": an invalid multinomial distribution");
}

template <class C>
void check_sum(C sum, int64_t row) {
  check(sum > 0,
        "multinomial: invalid multinomial distribution (sum of probabilities <= 0) in row ", row);
}

template <class T>
void sample_with_replacement(const View& probs, const View& out, Generator& generator) {
  using C = compute_t<T>;
  Rows from(probs), to(out);
  std::vector<C> cumulative(static_cast<size_t>(from.length));
  GeneratorLock lock(generator);
  for (int64_t row = 0; row < from.count; ++row) {
    const T* p = probs.ptr<T>() + row * from.row_step;
    C sum = 0;
    for (int64_t i = 0; i < from.length; ++i) {
      C value = convert<C>(p[i * from.step]);
      check_probability(value);
      cumulative[static_cast<size_t>(i)] = sum += value;
    }
    check_sum(sum, row);
    for (C& c : cumulative) c /= sum;
    cumulative.back() = 1;
    int64_t* samples = out.ptr<int64_t>() + row * to.row_step;
    for (int64_t i = 0; i < to.length; ++i) {
      double u = fraction53(generator);
      auto found = std::lower_bound(cumulative.begin(), cumulative.end(), u);
      samples[i * to.step] = found - cumulative.begin();
    }
  }
}

// Exponential races: the k largest of p / e with e exponential (rounded as T) are k samples without
// replacement. Ties fall as the standard algorithms put them, which PyTorch's topk uses too.
template <class T>
void sample_without_replacement(const View& probs, const View& out, Generator& generator) {
  using C = compute_t<T>;
  Rows from(probs), to(out);
  check(to.length <= from.length, "multinomial: cannot draw ", to.length, " of ", from.length,
        " categories without replacement");
  std::vector<T> race(static_cast<size_t>(probs.numel));
  Dims race_strides = memory_order_strides(probs);
  View race_view = probs;
  race_view.data = race.data();
  race_view.strides = race_strides.data();
  exponential(race_view, 1.0, generator);
  Rows lane(race_view);

  using Entry = std::pair<C, int64_t>;
  auto ahead = [](const Entry& a, const Entry& b) { return a.first > b.first; };
  std::vector<Entry> entries(static_cast<size_t>(from.length));
  for (int64_t row = 0; row < from.count; ++row) {
    const T* p = probs.ptr<T>() + row * from.row_step;
    const T* e = race.data() + row * lane.row_step;
    C sum = 0;
    for (int64_t i = 0; i < from.length; ++i) {
      C value = convert<C>(p[i * from.step]);
      check_probability(value);
      sum += value;
      T ratio = convert<T>(value / convert<C>(e[i * lane.step]));
      entries[static_cast<size_t>(i)] = {convert<C>(ratio), i};
    }
    check_sum(sum, row);
    auto begin = entries.begin(), end = entries.end(), cut = begin + to.length;
    if (to.length == 1) {
      std::iter_swap(begin, std::min_element(begin, end, ahead));
    } else if (to.length * 64 <= from.length) {
      std::partial_sort(begin, cut, end, ahead);
    } else if (to.length > 0) {
      std::nth_element(begin, cut - 1, end, ahead);
      std::sort(begin, cut - 1, ahead);
    }
    int64_t* samples = out.ptr<int64_t>() + row * to.row_step;
    for (int64_t i = 0; i < to.length; ++i) samples[i * to.step] = begin[i].second;
  }
}

}  // namespace

void multinomial(const View& probs, bool replacement, const View& out, Generator& generator) {
  if (out.numel == 0) return;
  check(probs.numel > 0, "multinomial: there are no categories to draw from");
  visit_floating("multinomial", probs.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (replacement && Rows(out).length != 1) sample_with_replacement<T>(probs, out, generator);
    else sample_without_replacement<T>(probs, out, generator);
  });
}

}  // namespace rl::kernels
