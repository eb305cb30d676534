#include "kernels/sparse_product.h"

#include <algorithm>

#include "core/error.h"
#include "core/interpreter.h"
#include "core/parallel.h"

namespace rl::kernels {
namespace {

// The columns that one row of a product has, once each.
class RowColumns {
 public:
  explicit RowColumns(int64_t width) : words_(size_t(width + 63) / 64), place_(size_t(width)) {}

  // `most`: how many there may be. Few are sorted; where there are many, all bits are looked at.
  void begin(int64_t most) { are_few_ = static_cast<size_t>(most) * 4 < words_.size(); }
  void meet(int64_t column) {
    uint64_t& word = words_[size_t(column) / 64];
    const uint64_t bit = uint64_t(1) << (column % 64);
    if (are_few_ && !(word & bit)) met_.push_back(column);
    word |= bit;
  }
  // Appends them in order, and forgets them.
  void append_to(std::vector<int64_t>& columns) {
    auto append = [&](int64_t column) {
      place_[size_t(column)] = static_cast<int64_t>(columns.size());
      columns.push_back(column);
    };
    if (are_few_) {
      std::sort(met_.begin(), met_.end());
      for (int64_t column : met_) {
        append(column);
        words_[size_t(column) / 64] = 0;
      }
      met_.clear();
      return;
    }
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t left = words_[w]; left; left &= left - 1)
        append(static_cast<int64_t>(w) * 64 + __builtin_ctzll(left));
      words_[w] = 0;
    }
  }
  int64_t place(int64_t column) const { return place_[size_t(column)]; }

 private:
  std::vector<uint64_t> words_;  // a bit for each column
  std::vector<int64_t> place_, met_;
  bool are_few_ = true;
};

[[noreturn, gnu::noinline]] void fail_index(int64_t i, int64_t size) {
  fail(ErrorKind::Runtime, "sparse: index ", i, " is out of bounds for size ", size);
}

// An index that the program may change meanwhile: what is checked is what is used.
inline int64_t checked_index(const int64_t* p, int64_t size) {
  const int64_t i = __atomic_load_n(p, __ATOMIC_RELAXED);
  if (__builtin_expect(static_cast<uint64_t>(i) >= static_cast<uint64_t>(size), 0))
    fail_index(i, size);
  return i;
}

}  // namespace

void CompressedRows::find_starts(const int64_t* rows, int64_t n, int64_t height, int64_t* starts) {
  std::fill_n(starts, height + 1, int64_t(0));
  for (int64_t i = 0; i < n; ++i) starts[checked_index(rows + i, height) + 1] = i + 1;
  for (int64_t r = 0; r < height; ++r) starts[r + 1] = std::max(starts[r], starts[r + 1]);
}

template <class T>
void CompressedRows::multiply(const T* values, int64_t count, const T* vector, int64_t width,
                              T* product) const {
  const int64_t grain = default_grain * (rows + 1) / (count + rows + 1) + 1;
  parallel_for(0, rows, grain, [=, a = *this](int64_t first, int64_t last) {
    const int64_t* columns = a.columns;
    for (int64_t r = first; r < last; ++r) {
      const int64_t begin = a.starts[r], end = a.starts[r + 1];
      check(begin >= 0 && begin <= end && end <= count, "sparse: row ", r, " has the elements [",
            begin, ", ", end, ") of ", count);
      auto term = [&](int64_t i) { return values[i] * vector[checked_index(columns + i, width)]; };
      T even(0), odd(0);  // so that not each sum waits for the one before
      int64_t i = begin;
      for (; i + 2 <= end; i += 2) {
        even += term(i);
        odd += term(i + 1);
      }
      product[r] = i < end ? even + odd + term(i) : even + odd;
    }
  });
}
template void CompressedRows::multiply(const float*, int64_t, const float*, int64_t, float*) const;
template void CompressedRows::multiply(const double*, int64_t, const double*, int64_t,
                                       double*) const;

SparseProduct::SparseProduct(CompressedRows a, CompressedRows b, int64_t width)
    : a_(a), b_(b), width_(width) {
  for (int64_t k = 0; k < a.starts[a.rows]; ++k)
    count_ += b.starts[a.columns[k] + 1] - b.starts[a.columns[k]];
}

// begin_row(count of columns up to and with this row), then each(k, m, place) for its products.
template <class BeginRow, class Each>
std::vector<int64_t> SparseProduct::run(int64_t* starts, BeginRow begin_row, Each each) const {
  constexpr int64_t long_work = 1 << 16;
  ScopedGilRelease released(count_ > long_work);
  std::vector<int64_t> columns;
  RowColumns row(width_);
  for (int64_t i = 0; i < a_.rows; ++i) {
    const int64_t begin = a_.starts[i], end = a_.starts[i + 1];
    int64_t most = 0;
    for (int64_t k = begin; k < end; ++k)
      most += b_.starts[a_.columns[k] + 1] - b_.starts[a_.columns[k]];
    row.begin(most);
    for (int64_t k = begin; k < end; ++k)
      for (int64_t m = b_.starts[a_.columns[k]]; m < b_.starts[a_.columns[k] + 1]; ++m)
        row.meet(b_.columns[m]);
    starts[i] = static_cast<int64_t>(columns.size());
    row.append_to(columns);
    begin_row(columns.size());
    for (int64_t k = begin; k < end; ++k)
      for (int64_t m = b_.starts[a_.columns[k]]; m < b_.starts[a_.columns[k] + 1]; ++m)
        each(k, m, row.place(b_.columns[m]));
  }
  starts[a_.rows] = static_cast<int64_t>(columns.size());
  return columns;
}

std::vector<int64_t> SparseProduct::find(int64_t* starts, int64_t* left, int64_t* right,
                                         int64_t* places) const {
  return run(
      starts, [](size_t) {},
      [&](int64_t k, int64_t m, int64_t place) {
        *left++ = k;
        *right++ = m;
        *places++ = place;
      });
}

template <class T>
std::vector<int64_t> SparseProduct::multiply(int64_t* starts, const T* a, const T* b,
                                             std::vector<T>& values) const {
  return run(
      starts, [&](size_t count) { values.resize(count); },
      [&](int64_t k, int64_t m, int64_t place) { values[size_t(place)] += a[k] * b[m]; });
}
template std::vector<int64_t> SparseProduct::multiply(int64_t*, const float*, const float*,
                                                      std::vector<float>&) const;
template std::vector<int64_t> SparseProduct::multiply(int64_t*, const double*, const double*,
                                                      std::vector<double>&) const;

}  // namespace rl::kernels
