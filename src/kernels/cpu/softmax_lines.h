// The lines along one dim of views, handed to the loops of softmax_tiles.h in tiles.
#pragma once
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "kernels/cpu/softmax_tiles.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/transpose.h"

namespace rl::kernels {

// Lines along dim of N views of one shape and dtype, the last of which is written if `writes`, and
// M views of that shape without dim, which hold an element per line. Tiles of neighbouring lines
// are handed on where they lie if their elements have the compute dtype and are dense, else through
// a copy. Lines that are short and dense are turned in it, so that the loops run across them; few
// neighbouring lines are put beside others that lie further away.
template <int N, int M = 0, bool writes = true>
class SoftmaxLines {
 public:
  // Lines of up to `longest_turned` elements are turned: as measured, for each kind of loop.
  SoftmaxLines(const char* name, const View* const (&views)[N], int64_t dim, int64_t longest_turned,
               const std::array<const View*, M>& beside = {}) {
    const View& first = *views[0];
    check_implemented(is_floating(first.dtype), name, ": not implemented for dtype ", first.dtype);
    n_ = first.ndim ? first.sizes[dim] : 1;
    dtype_ = first.dtype;
    element_ = compute_dtype(dtype_);
    size_ = itemsize(dtype_);
    for (int k = 0; k < N; ++k) {
      check(views[k]->dtype == dtype_ && views[k]->shape() == first.shape(), name, ": sizes ",
            first.shape(), " and ", views[k]->shape(), " or dtypes ", dtype_, " and ",
            views[k]->dtype, " differ");
      step_[k] = first.ndim ? views[k]->strides[dim] * size_ : 0;
    }
    const View* all[N + M];
    std::copy(views, views + N, all);
    std::copy(beside.begin(), beside.end(), all + N);
    for (int k = 0; k < N + M; ++k) walk_.base[k] = all[k]->template ptr<char>();
    for (int64_t d = first.ndim - 1; d >= 0; --d) {
      if (d == dim) continue;
      int64_t step[N + M];
      for (int k = 0; k < N + M; ++k)
        step[k] = all[k]->strides[k >= N && d > dim ? d - 1 : d] * itemsize(all[k]->dtype);
      walk_.add(first.sizes[d], step);
    }
    walk_.finish(true);
    across_ = walk_.sizes[0] >= 4 && std::abs(walk_.strides[0][0]) < std::abs(step_[0]);
    direct_ = dtype_ == element_;
    for (int k = 0; k < N; ++k)
      direct_ = direct_ && (across_ ? walk_.strides[k][0] == size_ : n_ == 1 || step_[k] == size_);
    if (dtype_ != element_) longest_turned = std::max<int64_t>(longest_turned, 96);
    const int64_t neighbours = walk_.sizes[0];
    beside_others_ = M == 0 && across_ && walk_.ndim > 1 &&
                     (neighbours < 16 || (neighbours <= 64 && n_ * neighbours <= 512));
    direct_ = direct_ && !beside_others_;
    turned_ = !across_ && n_ <= longest_turned && walk_.sizes[0] >= least_turned &&
              std::all_of(step_, step_ + N, [&](int64_t step) { return n_ == 1 || step == size_; });
    if (turned_) {
      across_ = true;
      direct_ = false;
    }
  }

  // f(tile, pointers, row strides in elements); of the views beside, pointers go with the tile's
  // first line and step(k) leads to the next one's.
  template <class F>
  void run(F&& f) const {
    if (walk_.numel == 0 || n_ == 0) return;
    if (beside_others_) return run_beside_others(f);
    // Few classes have wide tiles, for whose rows the memory's prefetching pays; many narrow ones,
    // which stay in the caches.
    int64_t elements = direct_ ? 65536 : 16384, least = direct_ ? 64 : 1;
    int64_t widest = across_ ? std::clamp(elements / n_, least, softmax_columns) : 1;
    int64_t grain = std::max<int64_t>(widest, default_grain / 4 / n_);
    size_t bytes = direct_ ? 0 : static_cast<size_t>((N + 1) * n_ * widest * itemsize(element_));
    walk_.parallel_runs(grain, [&](char* const* start, int64_t m) {
      std::unique_ptr<char[]> scratch(bytes ? new char[bytes] : nullptr);
      for (int64_t j = 0; j < m; j += widest) {
        char* p[N + M];
        for (int k = 0; k < N + M; ++k) p[k] = start[k] + j * walk_.strides[k][0];
        SoftmaxTile tile{across_, element_, n_, std::min(widest, m - j)};
        if (direct_) run_direct(tile, p, f);
        else run_copied(tile, p, {1, tile.width, 0}, scratch.get(), f);
      }
    });
  }

  int64_t step(int beside) const { return walk_.strides[N + beside][0]; }

 private:
  // The lines of a tile: so many rows, along dim d of the walk, of neighbours.
  struct Panel {
    int64_t rows, neighbours;
    int d;
  };

  template <class F>
  void run_beside_others(F& f) const {
    constexpr int64_t elements = 4096;  // of which a few copies stay in the caches
    const int d = walk_.dim_of_rows();
    const int64_t neighbours = walk_.sizes[0], most = softmax_columns / neighbours;
    const int64_t height = std::clamp<int64_t>(elements / (n_ * neighbours), 1, most);
    const int64_t bytes = (N + 1) * n_ * height * neighbours * itemsize(element_);
    walk_.parallel_panels(d, height, default_grain / 4 / n_, [&](char* const* p, int64_t rows) {
      std::unique_ptr<char[]> scratch(new char[static_cast<size_t>(bytes)]);
      SoftmaxTile tile{true, element_, n_, rows * neighbours};
      run_copied(tile, p, {rows, neighbours, d}, scratch.get(), f);
    });
  }

  template <class F>
  void run_direct(const SoftmaxTile& tile, char* const* p, F& f) const {
    int64_t strides[N];
    for (int k = 0; k < N; ++k) strides[k] = step_[k] / size_;
    f(tile, p, static_cast<const int64_t*>(strides));
  }

  template <class F>
  void run_copied(const SoftmaxTile& tile, char* const* p, const Panel& panel, char* scratch,
                  F& f) const {
    char* copies[N + M];
    std::copy(p + N, p + N + M, copies + N);
    const int64_t bytes = n_ * tile.width * itemsize(element_);  // of a copy
    char* turned = scratch + N * bytes;
    int64_t strides[N];
    for (int k = 0; k < N; ++k) {
      copies[k] = scratch + k * bytes;
      strides[k] = tile.width;
      if (!writes || k < N - 1) load(k, p[k], panel, copies[k], turned);
    }
    f(tile, static_cast<char* const*>(copies), static_cast<const int64_t*>(strides));
    if (writes) store(copies[N - 1], p[N - 1], panel, turned);
  }

  void load(int k, const char* from, const Panel& panel, char* copy, char* turned) const {
    const int64_t line = walk_.strides[k][0], width = panel.rows * panel.neighbours;
    if (turned_) {
      const bool converted = dtype_ != element_;
      transpose(size_, from, line, size_, converted ? turned : copy, width * size_, size_, width,
                n_, false);
      if (converted) load_strip(dtype_, turned, size_, element_, copy, n_ * width);
    } else if (across_) {
      for (int64_t i = 0; i < n_; ++i)
        load_panel(dtype_, from + i * step_[k], row_step(k, panel), line, element_,
                   copy + i * width * itemsize(element_), panel.rows, panel.neighbours);
    } else {
      load_strip(dtype_, from, step_[k], element_, copy, n_);
    }
  }

  void store(const char* copy, char* to, const Panel& panel, char* turned) const {
    constexpr int k = N - 1;
    const int64_t line = walk_.strides[k][0], width = panel.rows * panel.neighbours;
    if (turned_) {
      const bool converted = dtype_ != element_;
      if (converted) store_strip(element_, copy, dtype_, turned, size_, n_ * width);
      transpose(size_, converted ? turned : copy, width * size_, size_, to, line, size_, n_, width,
                false);
    } else if (across_) {
      for (int64_t i = 0; i < n_; ++i)
        store_panel(element_, copy + i * width * itemsize(element_), dtype_, to + i * step_[k],
                    row_step(k, panel), line, panel.rows, panel.neighbours);
    } else {
      store_strip(element_, copy, dtype_, to, step_[k], n_);
    }
  }

  int64_t row_step(int k, const Panel& panel) const {
    return panel.rows > 1 ? walk_.strides[k][panel.d] : panel.neighbours * walk_.strides[k][0];
  }

  static constexpr int64_t least_turned = 16;  // lines

  StridedIterator<N + M> walk_;
  int64_t n_, size_, step_[N];
  DType dtype_, element_;
  bool across_, direct_, turned_, beside_others_;
};

}  // namespace rl::kernels
