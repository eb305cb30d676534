#include "kernels/elementwise.h"

#include <algorithm>

#include "kernels/cpu/stream.h"
#include "kernels/cpu/strip.h"
#include "kernels/transpose.h"
#include "kernels/walk.h"

namespace rl::kernels {
namespace {

constexpr int64_t strip_length = 2048;
constexpr int64_t widest = 8;      // bytes of the widest element of which a whole strip fits
constexpr int64_t short_run = 64;  // innermost runs below this are collected into one strip

// One call of a loop over N operands (the result first), seen by one thread. Operands that the loop
// cannot read or write where they lie go through buffers, as do results that pass by the caches.
template <int N>
class LoopRun {
 public:
  LoopRun(StripFunction function, const Walk<N>& walk, const DType* stored, const DType* computed,
          const Scalar* numbers, bool streamed)
      : function_(function), walk_(walk), stored_(stored), computed_(computed), numbers_(numbers) {
    for (int k = 0; k < N; ++k) {
      direct_[k] = walk.strides[k][0] == itemsize(stored[k]) && stored[k] == computed[k];
      filled_[k] = nullptr;
      if (itemsize(computed[k]) > widest) strip_ = strip_length / 2;
    }
    streamed_ = streamed && direct_[0];
    direct_[0] = direct_[0] && !streamed;
  }

  void range(int64_t begin, int64_t end, char* const* start) {
    if (walk_.sizes[0] >= short_run || walk_.ndim == 1) {
      walk_.range(begin, end, start, [&](char* const* p, int64_t n) { long_run(p, n); });
    } else {
      walk_.range(begin, end, start, [&](char* const* p, int64_t n) { collect(p, n); });
      flush();
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
  char* buffer(int k) { return buffers_ + k * strip_length * widest; }

  void long_run(char* const* p, int64_t n) {
    bool all_direct = std::all_of(direct_, direct_ + N, [](bool d) { return d; });
    int64_t step = all_direct ? n : strip_;
    for (int64_t i = 0; i < n; i += step) {
      int64_t m = std::min(step, n - i);
      void* operands[N];
      for (int k = 0; k < N; ++k) {
        char* at = p[k] + i * walk_.strides[k][0];
        operands[k] = direct_[k] ? at : buffer(k);
        if (k > 0 && !direct_[k]) load(k, at, m);
      }
      function_(m, operands, numbers_);
      if (!direct_[0]) store(buffer(0), p[0] + i * walk_.strides[0][0], m);
    }
  }

  // A broadcast element fills its buffer once for as long as it is the same one.
  void load(int k, const char* at, int64_t n) {
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

  void collect(char* const* p, int64_t n) {
    if (count_ + n > strip_) flush();
    for (int k = 1; k < N; ++k)
      load_strip(stored_[k], p[k], walk_.strides[k][0], computed_[k],
                 buffer(k) + count_ * itemsize(computed_[k]), n);
    runs_[run_count_++] = {p[0], n};
    count_ += n;
  }

  void flush() {
    if (count_ == 0) return;
    const char* from = buffer(0);
    compute(count_);
    for (int i = 0; i < run_count_; ++i) {
      store(from, runs_[i].to, runs_[i].n);
      from += runs_[i].n * itemsize(computed_[0]);
    }
    count_ = 0;
    run_count_ = 0;
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
    function_(n, operands, numbers_);
  }

  struct Run {
    char* to;
    int64_t n;
  };
  StripFunction function_;
  const Walk<N>& walk_;
  const DType* stored_;
  const DType* computed_;
  const Scalar* numbers_;
  int64_t strip_ = strip_length;
  bool streamed_;
  bool direct_[N];
  const char* filled_[N];
  int64_t filled_count_[N];
  int64_t count_ = 0;
  int run_count_ = 0;
  Run runs_[strip_length];
  alignas(64) char buffers_[N * strip_length * widest];
};

template <int N>
void run(StripFunction function, const View& out, const View* inputs, const DType* computed,
         const Scalar* numbers) {
  const View* views[N] = {&out};
  DType stored[N] = {out.dtype};
  // Computing and streaming do not overlap: from 16 MB on (and 2 MB of cache), exp gains too.
  bool streamed = worth_streaming(out.numel * itemsize(out.dtype) / 8);
  for (int k = 1; k < N; ++k) {
    views[k] = &inputs[k - 1];
    stored[k] = inputs[k - 1].dtype;
    if (inputs[k - 1].data == out.data) streamed = false;  // in place: the line is there
  }
  Walk<N> walk(views, true);
  int transposed = 0;
  for (int k = 1; k < N && !transposed; ++k) transposed = walk.transposed_dim(k);
  if (transposed)
    return walk.parallel_panels(transposed, 256, default_grain, [&](char* const* p, int64_t rows) {
      LoopRun<N>(function, walk, stored, computed, numbers, streamed).panel(transposed, p, rows);
    });
  parallel_for(0, walk.numel, default_grain, [&](int64_t begin, int64_t end) {
    LoopRun<N>(function, walk, stored, computed, numbers, streamed).range(begin, end, walk.base);
  });
}

}  // namespace

StripFunction find_strip(const Loop& loop, DType compute) {
  StripFunction found = compute == DType::Float32   ? loop.floats[isa_index][0]
                        : compute == DType::Float64 ? loop.floats[isa_index][1]
                                                    : loop.others[static_cast<int>(compute)];
  if (__builtin_expect(!found, 0))
    fail(ErrorKind::NotImplemented, '"', loop.name, "\" not implemented for dtype ", compute);
  return found;
}

void run_loop(const Loop& loop, DType compute, LoopResult result, const View& out,
              const View* inputs, int count, const Scalar* numbers) {
  StripFunction function = find_strip(loop, compute);
  if (out.numel == 0) return;
  DType computed[max_loop_inputs + 1];
  computed[0] = loop_result_dtype(result, compute);
  for (int k = 1; k <= count; ++k) computed[k] = compute;
  switch (count) {
    case 0: return run<1>(function, out, inputs, computed, numbers);
    case 1: return run<2>(function, out, inputs, computed, numbers);
    case 2: return run<3>(function, out, inputs, computed, numbers);
    case 3: return run<4>(function, out, inputs, computed, numbers);
    case 4: return run<5>(function, out, inputs, computed, numbers);
    case 5: return run<6>(function, out, inputs, computed, numbers);
    case 6: return run<7>(function, out, inputs, computed, numbers);
    default: return run<8>(function, out, inputs, computed, numbers);
  }
}

}  // namespace rl::kernels
