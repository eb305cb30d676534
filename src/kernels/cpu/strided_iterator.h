// Nested loops over N views of one shape, with dims merged where memory allows, so that inner
// runs are long. Pointers and strides are in bytes, so one instance serves all dtypes.
#pragma once
#include <algorithm>
#include <utility>

#include "core/parallel.h"
#include "core/view.h"

namespace rl::kernels {

template <int N>
struct StridedIterator {
  int64_t numel = 1;
  int ndim = 0;
  char* base[N] = {};
  int64_t sizes[max_dims + 1];  // innermost first
  int64_t strides[N][max_dims + 1];

  StridedIterator() = default;

  // All dims but `skip`. With `reorder`, dims are sorted by the strides of the first view (then the
  // second, ...), smallest innermost; without it the walk is in row-major order.
  StridedIterator(const View* const (&views)[N], bool reorder, int64_t skip = -1) {
    for (int k = 0; k < N; ++k) base[k] = views[k]->template ptr<char>();
    for (int64_t d = views[0]->ndim - 1; d >= 0; --d) {
      if (d == skip) continue;
      int64_t step[N];
      for (int k = 0; k < N; ++k)
        step[k] = wrapping_product(views[k]->strides[d], itemsize(views[k]->dtype));
      add(views[0]->sizes[d], step);
    }
    finish(reorder);
  }

  // Dims are added from the innermost out; finish() follows the last.
  void add(int64_t size, const int64_t (&step)[N]) {
    numel *= size;
    if (size == 1) return;
    sizes[ndim] = size;
    for (int k = 0; k < N; ++k) strides[k][ndim] = step[k];
    ++ndim;
  }

  void finish(bool reorder) {
    if (reorder)
      for (int i = 1; i < ndim; ++i)
        for (int j = i; j > 0 && inner_before(j, j - 1); --j) swap_dims(j, j - 1);
    int last = 0;
    for (int d = 1; d < ndim; ++d)
      if (!merge(last, d)) {
        ++last;
        sizes[last] = sizes[d];
        for (int k = 0; k < N; ++k) strides[k][last] = strides[k][d];
      }
    if (ndim == 0) {
      sizes[0] = 1;
      for (int k = 0; k < N; ++k) strides[k][0] = 0;
    }
    ndim = last + 1;
  }

  // Puts the longest dim in the place of an innermost one of fewer than `least`, coordinates say.
  void lengthen_runs(int64_t least) {
    int longest = static_cast<int>(std::max_element(sizes, sizes + ndim) - sizes);
    if (sizes[0] < least && longest > 0) swap_dims(0, longest);
  }

  // For callers that see several innermost elements as one.
  void drop_innermost() {
    numel /= sizes[0];
    --ndim;
    for (int d = 0; d < ndim; ++d) {
      sizes[d] = sizes[d + 1];
      for (int k = 0; k < N; ++k) strides[k][d] = strides[k][d + 1];
    }
  }

  // The dim along which view k is densest, if that is not the innermost: a transposition; else 0.
  int transposed_dim(int k) const {
    int best = 0;
    for (int d = 1; d < ndim && sizes[0] >= 8; ++d)
      if (strides[k][d] != 0 && sizes[d] >= 8 &&
          magnitude(strides[k][d]) < magnitude(strides[k][best]))
        best = d;
    return best;
  }

  // The dim whose rows are taken together where dim 0 is short: 1, or a longer one if that is short
  // as well. 0 if there is none.
  int dim_of_rows() const {
    int best = ndim > 1 ? 1 : 0;
    for (int d = 2; d < ndim && sizes[best] < 8; ++d)
      if (sizes[d] > sizes[best]) best = d;
    return best;
  }

  // f(pointers, n) for runs of the innermost dim that together are elements [begin, end).
  template <class F>
  void range(int64_t begin, int64_t end, char* const* start, F&& f) const {
    if (begin >= end) return;
    char* row[N];  // where the run lies
    for (int k = 0; k < N; ++k) row[k] = start[k];
    if (ndim == 1) {  // no divisions: many runs are as short as a row of a table
      for (int k = 0; k < N; ++k) row[k] += begin * strides[k][0];
      return f(static_cast<char* const*>(row), end - begin);
    }
    int64_t at[max_dims + 1], skipped = begin % sizes[0], rest = begin / sizes[0];
    for (int d = 1; d < ndim; ++d) {
      at[d] = 0;
      if (rest == 0) continue;
      at[d] = rest % sizes[d];
      rest /= sizes[d];
      for (int k = 0; k < N; ++k) row[k] += at[d] * strides[k][d];
    }
    char* inside[N];  // of the first run alone, which may begin within its row
    for (int k = 0; k < N; ++k) inside[k] = row[k] + skipped * strides[k][0];
    char* const* p = inside;
    for (;;) {
      int64_t n = sizes[0] - skipped < end - begin ? sizes[0] - skipped : end - begin;
      f(p, n);
      begin += n;
      if (begin >= end) return;
      skipped = 0;
      p = row;
      // Added up and nothing else, in one way: a load of two pointers that were stored one by one
      // would wait until all that f has stored before has reached the cache.
      for (int d = 1; d < ndim; ++d) {
        for (int k = 0; k < N; ++k) row[k] += strides[k][d];
        if (++at[d] < sizes[d]) break;
        for (int k = 0; k < N; ++k) row[k] -= sizes[d] * strides[k][d];
        at[d] = 0;
      }
    }
  }

  // f(pointers, rows, columns) for pieces that follow each other in [begin, end): `rows` whole rows
  // of dim 0, `columns` long, that lie along dim 1, or a part of one row.
  template <class F>
  void pieces(int64_t begin, int64_t end, char* const* start, F&& f) const {
    char* p[N];
    for (int64_t n; begin < end; begin += n) {
      int64_t column = begin % sizes[0], rest = begin / sizes[0];
      for (int k = 0; k < N; ++k) p[k] = start[k] + column * strides[k][0];
      const int64_t row = ndim > 1 ? rest % sizes[1] : 0;
      for (int d = 1; d < ndim; rest /= sizes[d++])
        for (int k = 0; k < N; ++k) p[k] += rest % sizes[d] * strides[k][d];
      int64_t rows = 1, columns = sizes[0];
      if (column != 0 || end - begin < columns) columns = std::min(columns - column, end - begin);
      else if (ndim > 1) rows = std::min(sizes[1] - row, (end - begin) / columns);
      f(static_cast<char* const*>(p), rows, columns);
      n = rows * columns;
    }
  }

  // As range() over everything, split among threads.
  template <class F>
  void parallel_runs(int64_t grain, F&& f) const {
    parallel_for(0, numel, grain, [&](int64_t b, int64_t e) { range(b, e, base, f); });
  }

  // f(pointers, rows) for panels of up to `height` rows of dim d, each row all of dim 0 (or, if
  // that is d, one element), over all other dims. Ctrl-C ends the loop between panels.
  template <class F>
  void parallel_panels(int d, int64_t height, int64_t grain, F&& f) const {
    int64_t panels = (sizes[d] + height - 1) / height;
    int64_t step[N];
    StridedIterator outer;
    for (int k = 0; k < N; ++k) {
      outer.base[k] = base[k];
      step[k] = height * strides[k][d];
    }
    outer.add(panels, step);
    for (int other = 1; other < ndim; ++other) {
      if (other == d) continue;
      for (int k = 0; k < N; ++k) step[k] = strides[k][other];
      outer.add(sizes[other], step);
    }
    outer.finish(false);
    int64_t elements = (d == 0 ? 1 : sizes[0]) * (height < sizes[d] ? height : sizes[d]);
    parallel_for(0, outer.numel, 1 + grain / elements, [&](int64_t begin, int64_t end) {
      Interruption interruption;
      int64_t i = begin;
      outer.range(begin, end, outer.base, [&](char* const* start, int64_t n) {
        char* p[N];
        for (int k = 0; k < N; ++k) p[k] = start[k];
        for (int64_t last = i + n; i < last; ++i) {
          interruption.poll();
          int64_t left = sizes[d] - i % panels * height;
          f(static_cast<char* const*>(p), left < height ? left : height);
          for (int k = 0; k < N; ++k) p[k] += outer.strides[k][0];
        }
      });
    });
  }

  // f(pointers) for each element, split among threads: for walks over the lines along a skipped
  // dim.
  template <class F>
  void parallel_each(int64_t grain, F&& f) const {
    parallel_runs(grain, [&](char* const* start, int64_t n) {
      char* p[N];
      for (int k = 0; k < N; ++k) p[k] = start[k];
      for (int64_t i = 0; i < n; ++i) {
        f(static_cast<char* const*>(p));
        for (int k = 0; k < N; ++k) p[k] += strides[k][0];
      }
    });
  }

 private:
  static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

  bool inner_before(int a, int b) const {
    for (int k = 0; k < N; ++k) {
      int64_t x = magnitude(strides[k][a]), y = magnitude(strides[k][b]);
      if (x != y && x != 0 && y != 0) return x < y;
    }
    return false;
  }
  void swap_dims(int a, int b) {
    std::swap(sizes[a], sizes[b]);
    for (int k = 0; k < N; ++k) std::swap(strides[k][a], strides[k][b]);
  }
  // Makes dims `inner` and `outer` one, where each view steps through them evenly.
  bool merge(int inner, int outer) {
    for (int k = 0; k < N; ++k)
      if (strides[k][outer] != strides[k][inner] * sizes[inner]) return false;
    sizes[inner] *= sizes[outer];
    return true;
  }
};

}  // namespace rl::kernels
