#include "kernels/elementwise.h"

#include <algorithm>

#include "kernels/cpu/stream.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/strips.h"
#include "kernels/cpu/transpose.h"

namespace rl::kernels {
namespace {

constexpr int64_t strip_length = 2048;
// Passes that copy or convert a strip read ahead less than they would over all: the next strip's
// lines come while this one is worked on. relu of every second double of 2 MB takes 77 us, in
// strips of 16 KB 104.
constexpr int64_t bytes_of_copies = 4096;
// What is computed for streaming stores: one part is computed while the last one is on its way to
// memory. A sum of 64 MB takes 5.5 ms, in strips of 256 6.3 and of 2048 9.3; exp takes 5.0, in
// strips of 256 4.6.
constexpr int64_t streamed_strip = 128;
constexpr int64_t first_level = 32 << 10;  // bytes of all operands' strips, at most
constexpr int64_t widest = 8;  // bytes of the widest element of which a whole strip fits
constexpr int64_t slack = 64;  // bytes that repeat_elements may write beyond a strip
// Innermost runs of fewer elements and of fewer bytes than this are collected into one strip, by
// which x + row takes 100 us for a million floats in rows of 64, not 400. Wider ones pay for their
// copies; where nothing is copied, all of so many bytes are collected. Runs that the loop can take
// where they lie are collected if they are yet shorter: x[:, 1:] + y[:, 1:] of 1 MB of floats in
// rows of 128 takes 37 us, collected 47.
constexpr int64_t short_row = 512, short_bytes = 2048, streamed_bytes = 1024;
constexpr int64_t short_bytes_in_place = 512;
constexpr int64_t short_row_of_constant = 192;
// But loops of a constant take rows of so many elements one by one, if there are enough at a time.
constexpr int64_t least_row_of_constant = 16, least_panel_of_constant = 256;

// The loops of a formula in one type.
struct Strips {
  StripFunction any;
  // Where the first or the second input is one element along a row; or nullptr.
  ConstantStripFunction of_constant[2];
};

// Whether all runs of dim 0 of an operand are one.
template <int N> bool same_row(const StridedIterator<N>& walk, int k) {
  const int64_t* strides = walk.strides[k];
  return std::all_of(strides + 1, strides + walk.ndim, [](int64_t step) { return step == 0; });
}

// Whether runs of dim 0 are taken together without copies: what is neither one element in each of
// them nor the same run lies in one piece.
template <int N>
bool rows_lie_together(const StridedIterator<N>& walk, const DType* stored, const DType* computed) {
  for (int k = 0; k < N; ++k) {
    if (stored[k] != computed[k]) return false;
    if (k > 0 && (walk.strides[k][0] == 0 || same_row(walk, k))) continue;
    int64_t dense = itemsize(stored[k]);
    for (int d = 0; d < walk.ndim; dense *= walk.sizes[d++])
      if (walk.strides[k][d] != dense) return false;
  }
  return true;
}

// Whether a loop of a constant is worth a call for each row: gcc works through what is left of 32
// bytes element by element. x + column of bytes in rows of 31 took 4.5 times as long as by strips.
bool rows_suit_vectors(int64_t n, DType computed) {
  if (itemsize(computed) >= 4 || is_reduced(computed)) return true;
  return n % (32 / itemsize(computed)) <= n / 8;
}

// Whether each run of dim 0 is, of all operands, what the loop reads and writes.
template <int N>
bool runs_in_place(const StridedIterator<N>& walk, const DType* stored, const DType* computed) {
  for (int k = 0; k < N; ++k)
    if (stored[k] != computed[k] || walk.strides[k][0] != itemsize(stored[k])) return false;
  return true;
}

// The input that is one element in each run, if the formula has a loop for that; else 0.
template <int N>
int constant_input(const Strips& strips, const StridedIterator<N>& walk, DType computed) {
  if constexpr (N == 3) {
    bool first = walk.strides[1][0] == 0, second = walk.strides[2][0] == 0;
    if (first != second && strips.of_constant[second] &&
        (walk.ndim == 1 || rows_suit_vectors(walk.sizes[0], computed)))
      return second ? 2 : 1;
  }
  return 0;
}

// One call of a loop over N operands (the result first), seen by one thread. Operands that the loop
// cannot read or write where they lie go through buffers, as do results that pass by the caches.
template <int N>
class LoopRun {
 public:
  LoopRun(const Strips& strips, const StridedIterator<N>& walk, const DType* stored,
          const DType* computed, const Scalar* numbers, bool streamed)
      : strips_(strips), walk_(walk), stored_(stored), numbers_(numbers) {
    std::copy(computed, computed + N, computed_);
    if (computed[0] == DType::Bool && stored[0] != DType::Bool) computed_[0] = DType::UInt8;  // 0/1
    int64_t bytes = 0, size = 1;
    for (int k = 0; k < N; ++k) {
      direct_[k] = walk.strides[k][0] == itemsize(stored[k]) && stored[k] == computed[k];
      filled_[k] = nullptr;
      bytes += itemsize(computed[k]);
      size = std::max(size, itemsize(computed[k]));
      repeats_ = repeats_ || (walk.strides[k][0] == 0 && !same_row(walk, k));
    }
    while (strip_ * bytes > first_level) strip_ /= 2;
    copied_ = std::min(strip_, bytes_of_copies / size);
    streamed_ = streamed && direct_[0];
    if (streamed_) {
      copied_ = strip_ = std::min(strip_, streamed_strip);
      repeats_ = false;
    }
    direct_[0] = direct_[0] && !streamed;
  }

  void range(int64_t begin, int64_t end, char* const* start) {
    take_constant();
    if (!constant_ && std::all_of(direct_, direct_ + N, [](bool d) { return d; }))
      return walk_.range(begin, end, start, [&](char* const* p, int64_t n) {
        void* operands[N];
        for (int k = 0; k < N; ++k) operands[k] = p[k];
        strips_.any(n, operands, numbers_);
      });
    walk_.range(begin, end, start, [&](char* const* p, int64_t n) { long_run(p, n); });
    if (streamed_) end_streaming();
  }

  // Runs of dim 0 that are short, as many as fill a strip. What lies in one piece is used there;
  // the rest is gathered operand by operand, along what are its own steps from row to row.
  void rows(int64_t begin, int64_t end) {
    const int64_t n = walk_.sizes[0], at_once = std::max<int64_t>(1, copied_ / n);
    for (int k = 0; k < N; ++k) {
      for (int d = 1; d < walk_.ndim; ++d) lines_[k].add(walk_.sizes[d], {walk_.strides[k][d]});
      lines_[k].base[0] = walk_.base[k];
      lines_[k].finish(false);
      dense_[k] = lines_[k].ndim == 1 && lines_[k].strides[0][0] == n * itemsize(stored_[k]) &&
                  walk_.strides[k][0] == itemsize(stored_[k]);
      direct_[k] = direct_[k] && dense_[k];
    }
    for (int64_t r = begin; r < end; r += at_once) {
      int64_t count = std::min(at_once, end - r);
      void* operands[N];
      for (int k = 0; k < N; ++k) {
        operands[k] = direct_[k] ? row(k, r) : buffer(k);
        if (k > 0 && !direct_[k]) gather(k, r, count);
      }
      strips_.any(count * n, operands, numbers_);
      if (!direct_[0]) scatter(r, count);
    }
    if (streamed_) end_streaming();
  }

  // All of dim 0 for some rows of dim d, along which some operands lie dense, in tiles: whole cache
  // lines of those operands.
  void panel(int d, char* const* start, int64_t rows) {
    constexpr int64_t height = 16;
    int64_t width = strip_ / height;
    for (int64_t c = 0; c < walk_.sizes[0]; c += width)
      for (int64_t r = 0; r < rows; r += height) {
        char* p[N];
        for (int k = 0; k < N; ++k)
          p[k] = start[k] + c * walk_.strides[k][0] + r * walk_.strides[k][d];
        tile(d, p, std::min(height, rows - r), std::min(width, walk_.sizes[0] - c));
      }
    if (streamed_) end_streaming();
  }

 private:
  void take_constant() {
    // Calls for strips as short as those that are streamed take longer than filling one for each
    // row.
    if (streamed_ && !is_reduced(computed_[0])) return;
    constant_ = constant_input(strips_, walk_, computed_[0]);
    if (!constant_) return;
    if (is_reduced(computed_[0])) computed_[constant_] = DType::Float32;
    direct_[constant_] = stored_[constant_] == computed_[constant_];
    copied_ = strip_;
    repeats_ = false;
  }

  char* buffer(int k) { return buffers_ + k * (strip_length * widest + slack); }

  void long_run(char* const* p, int64_t n) {
    bool all_direct = std::all_of(direct_, direct_ + N, [](bool d) { return d; });
    // An element that is repeated for one row after the other fills half of a strip each time.
    int64_t step = all_direct ? n : repeats_ && n <= strip_length ? copied_ / 2 : copied_;
    for (int64_t i = 0; i < n; i += step) {
      int64_t m = std::min(step, n - i);
      void* operands[N];
      for (int k = 0; k < N; ++k) {
        char* at = p[k] + i * walk_.strides[k][0];
        operands[k] = direct_[k] ? at : buffer(k);
        if (k > 0 && !direct_[k]) load(k, at, m);
      }
      if (constant_) strips_.of_constant[constant_ - 1](1, m, operands, one_row, numbers_);
      else strips_.any(m, operands, numbers_);
      if (!direct_[0]) store(buffer(0), p[0] + i * walk_.strides[0][0], m);
    }
  }

  // A broadcast element fills its buffer once for as long as it is the same one.
  void load(int k, const char* at, int64_t n) {
    if (k == constant_) n = 1;
    if (walk_.strides[k][0] == 0) {
      if (filled_[k] == at && filled_count_[k] >= n) return;
      filled_[k] = at;
      filled_count_[k] = n;
    }
    load_strip(stored_[k], at, walk_.strides[k][0], computed_[k], buffer(k), n);
  }

  void store(const char* from, char* to, int64_t n) {
    if (streamed_) copy_streaming(from, to, n * itemsize(stored_[0]));
    else store_strip(computed_[0], from, stored_[0], to, walk_.strides[0][0], n);
  }

  char* row(int k, int64_t r) {  // of an operand that is dense
    return walk_.base[k] + r * walk_.sizes[0] * itemsize(stored_[k]);
  }

  void gather(int k, int64_t first, int64_t rows) {
    const StridedIterator<1>& lines = lines_[k];
    int64_t n = walk_.sizes[0], size = itemsize(stored_[k]), step = walk_.strides[k][0];
    bool converted = stored_[k] != computed_[k], same = lines.ndim == 1 && lines.strides[0][0] == 0;
    if (same && filled_count_[k] >= rows) return;  // the one row, from the last time
    filled_count_[k] = same ? rows : 0;
    if (dense_[k])
      return convert_contiguous(stored_[k], computed_[k], row(k, first), buffer(k), rows * n);
    alignas(64) char unconverted[strip_length * widest + slack];
    char* to = converted ? unconverted : buffer(k);
    lines.range(first, first + rows, lines.base, [&](char* const* p, int64_t count) {
      int64_t line = lines.strides[0][0];
      if (step == size) {
        copy_rows(n * size, p[0], line, to, n * size, count);
      } else if (step == 0) {
        repeat_elements(size, p[0], line, to, n, count);
      } else {
        for (int64_t i = 0; i < n; ++i)
          copy_strided(size, p[0] + i * step, line, to + i * size, n * size, count);
      }
      to += count * n * size;
    });
    if (converted) convert_contiguous(stored_[k], computed_[k], unconverted, buffer(k), rows * n);
  }

  void scatter(int64_t first, int64_t rows) {
    int64_t n = walk_.sizes[0], size = itemsize(stored_[0]), step = walk_.strides[0][0];
    if (streamed_ && dense_[0]) return store(buffer(0), row(0, first), rows * n);
    alignas(64) char converted[strip_length * widest];
    const char* from = buffer(0);
    if (stored_[0] != computed_[0]) {
      char* to = dense_[0] ? row(0, first) : converted;
      convert_contiguous(computed_[0], stored_[0], from, to, rows * n);
      if (dense_[0]) return;
      from = converted;
    }
    lines_[0].range(first, first + rows, lines_[0].base, [&](char* const* p, int64_t count) {
      int64_t line = lines_[0].strides[0][0];
      if (step == size) {
        copy_rows(n * size, from, n * size, p[0], line, count);
      } else {
        for (int64_t i = 0; i < n; ++i)
          copy_strided(size, from + i * size, n * size, p[0] + i * step, line, count);
      }
      from += count * n * size;
    });
  }

  void tile(int d, char* const* p, int64_t rows, int64_t columns) {
    alignas(64) char turned[strip_length * widest];
    for (int k = 1; k < N; ++k) {
      int64_t row = walk_.strides[k][d], column = walk_.strides[k][0];
      int64_t size = itemsize(stored_[k]), line = columns * itemsize(computed_[k]);
      if (row == size && column != size) {
        bool converted = stored_[k] != computed_[k];
        transpose(size, p[k], column, row, converted ? turned : buffer(k), columns * size, size,
                  columns, rows, false);
        if (converted)
          convert_contiguous(stored_[k], computed_[k], turned, buffer(k), rows * columns);
      } else {
        for (int64_t r = 0; r < rows; ++r)
          load_strip(stored_[k], p[k] + r * row, column, computed_[k], buffer(k) + r * line,
                     columns);
      }
    }
    compute(rows * columns);
    for (int64_t r = 0; r < rows; ++r)
      store(buffer(0) + r * columns * itemsize(computed_[0]), p[0] + r * walk_.strides[0][d],
            columns);
  }

  void compute(int64_t n) {
    void* operands[N];
    for (int k = 0; k < N; ++k) operands[k] = buffer(k);
    strips_.any(n, operands, numbers_);
  }

  static constexpr int64_t one_row[N] = {};  // no steps

  const Strips& strips_;
  int constant_ = 0;  // the input of which a run reads one element, if there is a loop for that
  const StridedIterator<N>& walk_;
  const DType* stored_;
  DType computed_[N];
  const Scalar* numbers_;
  int64_t strip_ = strip_length;
  int64_t copied_;  // elements of a strip of which operands are copied or converted
  bool streamed_, repeats_ = false;
  bool direct_[N];
  const char* filled_[N];
  int64_t filled_count_[N] = {};
  StridedIterator<1> lines_[N];  // of rows(): the way of each operand from row to row
  bool dense_[N];                // are its rows one after the other, without gaps?
  alignas(64) char buffers_[N * (strip_length * widest + slack)];
};

// Rows of which one input is a constant, where they lie; false where they are too short for that,
// or would go through buffers.
template <int N>
bool run_rows_of_constant(const Strips& strips, const StridedIterator<N>& walk, const DType* stored,
                          const DType* computed, const Scalar* numbers) {
  const int constant = constant_input(strips, walk, computed[0]);
  const int64_t n = walk.sizes[0];
  if (!constant || walk.ndim == 1 || is_reduced(computed[0])) return false;
  if (n < least_row_of_constant || n * walk.sizes[1] < least_panel_of_constant) return false;
  for (int k = 0; k < N; ++k)
    if (stored[k] != computed[k] || (k != constant && walk.strides[k][0] != itemsize(stored[k])))
      return false;
  const int64_t height = std::max<int64_t>(1, default_grain / 8 / n);
  walk.parallel_panels(1, height, default_grain, [&](char* const* p, int64_t rows) {
    void* operands[N];
    int64_t steps[N];
    for (int k = 0; k < N; ++k) {
      operands[k] = p[k];
      steps[k] = walk.strides[k][1];
    }
    strips.of_constant[constant - 1](rows, n, operands, steps, numbers);
  });
  return true;
}

template <int N>
void run(const Strips& strips, const View& out, const View* inputs, const DType* computed,
         const Scalar* numbers) {
  const View* views[N] = {&out};
  DType stored[N] = {out.dtype};
  bool streamed = worth_streaming(out.numel * itemsize(out.dtype), Pass::Compute);
  for (int k = 1; k < N; ++k) {
    views[k] = &inputs[k - 1];
    stored[k] = inputs[k - 1].dtype;
    if (inputs[k - 1].data == out.data) streamed = false;  // in place: the line is there
  }
  StridedIterator<N> walk(views, true);
  if constexpr (N == 3)  // which of the two is a constant makes no difference to this formula
    if (!strips.of_constant[0] && strips.of_constant[1] && walk.strides[1][0] == 0) {
      std::swap(walk.base[1], walk.base[2]);
      std::swap(walk.strides[1], walk.strides[2]);
      std::swap(stored[1], stored[2]);
    }
  int transposed = 0;
  for (int k = 1; k < N && !transposed; ++k) transposed = walk.transposed_dim(k);
  if (transposed)
    return walk.parallel_panels(transposed, 256, default_grain, [&](char* const* p, int64_t rows) {
      LoopRun<N>(strips, walk, stored, computed, numbers, streamed).panel(transposed, p, rows);
    });
  // Rows too short for streaming stores are quicker through the caches than through copies.
  const bool streams = streamed && walk.sizes[0] * itemsize(out.dtype) >= streamed_bytes;
  if (!streams && run_rows_of_constant(strips, walk, stored, computed, numbers)) return;
  const int64_t n = walk.sizes[0], most = streamed ? streamed_bytes : short_bytes;
  const bool in_place = !streamed && runs_in_place(walk, stored, computed);
  int64_t size = std::max(itemsize(computed[0]), itemsize(computed[N - 1]));
  const bool constant = constant_input(strips, walk, computed[0]);
  const int64_t short_to = constant ? short_row_of_constant : short_row;
  const bool together = !constant && n * size <= most && rows_lie_together(walk, stored, computed);
  const int64_t short_of = in_place ? short_bytes_in_place : most;
  if (walk.ndim > 1 && (together || (n < short_to && n * size < short_of)))
    return parallel_for(0, walk.numel / n, default_grain / n, [&](int64_t begin, int64_t end) {
      LoopRun<N>(strips, walk, stored, computed, numbers, streamed).rows(begin, end);
    });
  parallel_for(0, walk.numel, default_grain, [&](int64_t begin, int64_t end) {
    LoopRun<N>(strips, walk, stored, computed, numbers, streamed).range(begin, end, walk.base);
  });
}

}  // namespace

void check_dtype(const Loop& loop, DType compute) {
  if (__builtin_expect(!(loop.dtypes >> static_cast<int>(compute) & 1), 0))
    fail(ErrorKind::NotImplemented, '"', loop.name, "\" not implemented for dtype ", compute);
}

StripFunction find_strip(const Loop& loop, DType compute) {
  check_dtype(loop, compute);
  return loop.strips->by_isa[isa_index][static_cast<int>(compute)];
}

// That of 16-bit elements, where the formula has one. A number beside them becomes a float, which
// loops of a constant leave as it is: those that one run of all elements takes.
static StripFunction strip_as_stored(const Loop& loop, const View& out, Views inputs) {
  if (!is_reduced(out.dtype)) return nullptr;
  auto at = static_cast<int>(out.dtype);
  const ConstantStrips* constants = loop.strips->constants[isa_index];
  for (int k = 0; k < inputs.count; ++k) {
    if (inputs[k].dtype == out.dtype) continue;
    bool is_number = !is_complex(inputs[k].dtype) && inputs.count == 2 && out.numel > 1 &&
                     std::all_of(inputs[k].strides, inputs[k].strides + inputs[k].ndim,
                                 [](int64_t step) { return step == 0; });
    if (!is_number || !constants || !constants->of[k][at]) return nullptr;
    if (!out.contiguous() || !inputs[1 - k].contiguous()) return nullptr;
  }
  return loop.strips->by_isa[isa_index][at];
}

void run_loop(const Loop& loop, DType compute, LoopResult result, const View& out, Views inputs,
              const Scalar* numbers) {
  Strips strips{find_strip(loop, compute), {}};
  if (out.numel == 0) return;
  if (StripFunction unconverted = strip_as_stored(loop, out, inputs)) {
    strips.any = unconverted;
    compute = out.dtype;
  }
  if (const ConstantStrips* constants = loop.strips->constants[isa_index])
    for (int k = 0; k < 2; ++k) strips.of_constant[k] = constants->of[k][static_cast<int>(compute)];
  DType computed[max_loop_inputs + 1];
  computed[0] = loop_result_dtype(result, compute);
  for (int k = 1; k <= inputs.count; ++k) computed[k] = compute;
  switch (inputs.count) {
    case 0: return run<1>(strips, out, inputs.first, computed, numbers);
    case 1: return run<2>(strips, out, inputs.first, computed, numbers);
    case 2: return run<3>(strips, out, inputs.first, computed, numbers);
    case 3: return run<4>(strips, out, inputs.first, computed, numbers);
    case 4: return run<5>(strips, out, inputs.first, computed, numbers);
    case 5: return run<6>(strips, out, inputs.first, computed, numbers);
    case 6: return run<7>(strips, out, inputs.first, computed, numbers);
    default: return run<8>(strips, out, inputs.first, computed, numbers);
  }
}

}  // namespace rl::kernels
