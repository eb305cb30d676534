// The lines along one dim of views, handed to the loops of softmax_tiles.h in tiles.
#pragma once
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "kernels/cpu/softmax_tiles.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {

// Lines along dim of N views of one shape and dtype, the last of which is written if `writes`, and
// M views of that shape without dim, which hold an element per line. Tiles of neighbouring lines
// run across the lines where a view lies so or the lines are short. Each view is handed on where it
// lies if it has the compute dtype and its elements are dense in the rows of the tile, else through
// a copy; what is written across lines shares that of an operand. Few neighbouring lines are put
// beside others that lie further away.
template <int N, int M = 0, bool writes = true>
class SoftmaxLines {
 public:
  // Tiles run across lines of up to `longest_across` elements: as measured, for each kind of loop.
  SoftmaxLines(const char* name, const View* const (&views)[N], int64_t dim, int64_t longest_across,
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
    if (n_ <= longest_across) walk_.lengthen_runs(least_neighbours);
    choose_tiles(longest_across);
  }

  // f(tile, pointers, row strides in elements); of the views beside, pointers go with the tile's
  // first line and step(k) leads to the next one's.
  template <class F>
  void run(F&& f) const {
    if (walk_.numel == 0 || n_ == 0) return;
    if (beside_others_) return run_beside_others(f);
    // Few classes have wide tiles, for whose rows the memory's prefetching pays; many narrow ones,
    // which stay in the caches: copies of lines in the first-level one.
    const int64_t elements = copies_ == 0 ? 65536 : across_ ? 32768 : 6144 / copies_;
    const int64_t least = !across_ ? 1 : copies_ ? 16 : 64;
    const int64_t widest = std::clamp(elements / n_, least, softmax_columns);
    const int64_t grain = std::max<int64_t>(widest, default_grain / 4 / n_);
    walk_.parallel_runs(grain, [&](char* const* start, int64_t m) {
      const auto scratch = memory_of_copies(std::min(widest, m));
      for (int64_t j = 0; j < m; j += widest) {
        char* p[N + M];
        for (int k = 0; k < N + M; ++k) p[k] = start[k] + j * walk_.strides[k][0];
        SoftmaxTile tile{across_, element_, n_, std::min(widest, m - j)};
        run_tile(tile, p, scratch.get(), f, [&](int k) {
          const int64_t line = walk_.strides[k][0];
          return across_ ? Blocks{1, 0, n_, step_[k], tile.width, line}
                         : Blocks{1, 0, tile.width, line, n_, step_[k]};
        });
      }
    });
  }

  // Whether what is written lies in an order so different from what is read that lines are faster
  // once the one is a copy of the other: elements across the lines are dense in the latter alone,
  // or few.
  bool worth_a_copy() const {
    constexpr int out = N - 1;
    bool same = step_[0] == step_[out];
    for (int d = 0; d < walk_.ndim; ++d)
      same = same && walk_.strides[0][d] == walk_.strides[out][d];
    const bool dense_alone = across_ && walk_.strides[0][0] == size_ &&
                             walk_.strides[out][0] != size_ && step_[out] != size_;
    return !same && (beside_others_ || dense_alone);
  }

  int64_t step(int beside) const { return walk_.strides[N + beside][0]; }

 private:
  // Where the elements of a tile lie in a view: that many blocks of rows of columns, the bytes from
  // one to the next after each number.
  struct Blocks {
    int64_t blocks, block, rows, row, columns, column;
  };

  static constexpr int64_t least_neighbours = 4;

  void choose_tiles(int64_t longest_across) {
    constexpr int64_t least_turned = 16;
    const int64_t neighbours = walk_.sizes[0];
    bool lies_across = false;
    for (int k = 0; k < N && neighbours >= least_neighbours; ++k) {
      const int64_t line = std::abs(walk_.strides[k][0]);  // 0: the same line for all
      lies_across = lies_across || (line != 0 && line < std::abs(step_[k]));
    }
    across_ = lies_across || (n_ <= longest_across && neighbours >= least_turned);
    beside_others_ = M == 0 && lies_across && walk_.ndim > 1 &&
                     (neighbours < 16 || (neighbours <= 64 && n_ * neighbours <= 512));
    for (int k = 0; k < N; ++k) {
      bool dense = across_ ? walk_.strides[k][0] == size_ : n_ == 1 || step_[k] == size_;
      direct_[k] = dtype_ == element_ && dense && !beside_others_;
    }
    copies_ = std::count(direct_, direct_ + N, false);
    // Along lines, loads of parts of vectors would wait for the stores of the line before.
    shares_copy_ = across_ && writes && !direct_[N - 1];
    if (shares_copy_ && copies_ > 1) --copies_;
  }

  std::unique_ptr<char[]> memory_of_copies(int64_t width) const {
    if (copies_ == 0) return nullptr;
    return std::unique_ptr<char[]>(new char[static_cast<size_t>(copies_ * bytes_of_copy(width))]);
  }
  int64_t bytes_of_copy(int64_t width) const { return n_ * width * itemsize(element_); }

  template <class F>
  void run_beside_others(F& f) const {
    constexpr int64_t elements = 4096;  // of which a few copies stay in the caches
    const int d = walk_.dim_of_rows();
    const int64_t neighbours = walk_.sizes[0], most = softmax_columns / neighbours;
    const int64_t height = std::clamp<int64_t>(elements / (n_ * neighbours), 1, most);
    walk_.parallel_panels(d, height, default_grain / 4 / n_, [&](char* const* p, int64_t rows) {
      SoftmaxTile tile{true, element_, n_, rows * neighbours};
      const auto scratch = memory_of_copies(tile.width);
      run_tile(tile, p, scratch.get(), f, [&](int k) {
        return Blocks{n_, step_[k], rows, walk_.strides[k][d], neighbours, walk_.strides[k][0]};
      });
    });
  }

  template <class F, class BlocksOf>
  void run_tile(const SoftmaxTile& tile, char* const* p, char* scratch, F& f,
                BlocksOf blocks_of) const {
    char *at[N + M], *copy = scratch;
    constexpr int out = N - 1;
    std::copy(p, p + N + M, at);
    int64_t strides[N];
    for (int k = 0; k < N; ++k) {
      strides[k] = (across_ ? step_[k] : walk_.strides[k][0]) / size_;
      if (direct_[k]) continue;
      strides[k] = across_ ? tile.width : n_;
      at[k] = k == out && shares_copy_ ? scratch : copy;
      if (writes && k == out) break;
      load(p[k], blocks_of(k), copy);
      copy += bytes_of_copy(tile.width);
    }
    f(tile, static_cast<char* const*>(at), static_cast<const int64_t*>(strides));
    if (writes && !direct_[out]) store(at[out], p[out], blocks_of(out));
  }

  void load(const char* from, const Blocks& b, char* copy) const {
    for (int64_t i = 0; i < b.blocks; ++i)
      load_panel(dtype_, from + i * b.block, b.row, b.column, element_,
                 copy + i * b.rows * b.columns * itemsize(element_), b.rows, b.columns);
  }
  void store(const char* copy, char* to, const Blocks& b) const {
    for (int64_t i = 0; i < b.blocks; ++i)
      store_panel(element_, copy + i * b.rows * b.columns * itemsize(element_), dtype_,
                  to + i * b.block, b.row, b.column, b.rows, b.columns);
  }

  StridedIterator<N + M> walk_;
  int64_t n_, size_, step_[N], copies_;
  DType dtype_, element_;
  bool across_, beside_others_, shares_copy_, direct_[N];
};

}  // namespace rl::kernels
