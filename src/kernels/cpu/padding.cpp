#include "kernels/padding.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/combine.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {
namespace {

// Offsets of a line that show elements `step` apart: one's own row, and what is before and after.
struct Run {
  int64_t first, count, from, step;
};

std::vector<Run> runs_of(const std::vector<int64_t>& places) {
  std::vector<Run> runs;
  for (size_t i = 0, end; i < places.size(); i = end) {
    end = i + 1;
    int64_t step = end < places.size() ? places[end] - places[i] : 0;
    while (end < places.size() && places[end] - places[end - 1] == step) ++end;
    runs.push_back({static_cast<int64_t>(i), static_cast<int64_t>(end - i), places[i],
                    end - i > 1 ? step : 0});
  }
  return runs;
}

// The lines of a padded view along its last dim, each beside the line of the inner view it shows.
class PaddedLines {
 public:
  PaddedLines(const View& inner, const View& padded, const PaddedOffsets& places)
      : runs_(runs_of(places.back())), inner_rows_{0}, padded_rows_{0} {
    int64_t count = static_cast<int64_t>(places.size()), first = padded.ndim - count;
    int64_t inner_size = itemsize(inner.dtype), padded_size = itemsize(padded.dtype);
    planes_.base[0] = inner.ptr<char>();
    planes_.base[1] = padded.ptr<char>();
    for (int64_t d = first - 1; d >= 0; --d)
      planes_.add(padded.sizes[d],
                  {inner.strides[d] * inner_size, padded.strides[d] * padded_size});
    planes_.finish(false);
    for (int64_t k = 0; k + 1 < count; ++k) {
      const std::vector<int64_t>& at = places[static_cast<size_t>(k)];
      add_dim(at, inner.strides[first + k] * inner_size, padded.strides[first + k] * padded_size);
    }
    inner_step = inner.strides[inner.ndim - 1] * inner_size;
    padded_step = padded.strides[padded.ndim - 1] * padded_size;
    length_ = padded.sizes[padded.ndim - 1];
  }

  // f(inner line, padded line) for all lines, in any order.
  template <class F> void for_lines(F&& f) const {
    int64_t rows = static_cast<int64_t>(inner_rows_.size());
    parallel_for(0, planes_.numel * rows, 1 + default_grain / length_,
                 [&](int64_t begin, int64_t end) {
                   while (begin < end) {
                     int64_t row = begin % rows, stop = std::min(rows, row + end - begin);
                     plane(begin / rows, [&](char* const* p) { lines(p, row, stop, f); });
                     begin += stop - row;
                   }
                 });
  }

  // first(inner plane), then f for the plane's lines in order, for all planes.
  template <class First, class F> void for_planes(First&& first, F&& f) const {
    int64_t rows = static_cast<int64_t>(inner_rows_.size());
    parallel_for(0, planes_.numel, 1 + default_grain / (rows * length_),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     plane(i, [&](char* const* p) {
                       first(p[0]);
                       lines(p, 0, rows, f);
                     });
                 });
  }

  // f(inner element, its step in bytes, padded element, n) for the runs of a line.
  template <class F> void for_runs(char* inner, char* padded, F&& f) const {
    for (const Run& run : runs_)
      f(inner + run.from * inner_step, run.step * inner_step, padded + run.first * padded_step,
        run.count);
  }

  int64_t inner_step, padded_step;  // bytes

 private:
  // Rows of the dims so far, each as many times as the next dim, inside them, has places.
  void add_dim(const std::vector<int64_t>& places, int64_t inner_stride, int64_t padded_stride) {
    std::vector<int64_t> inner, padded;
    for (size_t row = 0; row < inner_rows_.size(); ++row)
      for (size_t i = 0; i < places.size(); ++i) {
        inner.push_back(inner_rows_[row] + places[i] * inner_stride);
        padded.push_back(padded_rows_[row] + static_cast<int64_t>(i) * padded_stride);
      }
    inner_rows_ = std::move(inner);
    padded_rows_ = std::move(padded);
  }

  template <class F> void plane(int64_t i, F&& f) const {
    planes_.range(i, i + 1, planes_.base, [&](char* const* p, int64_t) { f(p); });
  }
  template <class F> void lines(char* const* p, int64_t begin, int64_t end, F& f) const {
    for (int64_t i = begin; i < end; ++i)
      f(p[0] + inner_rows_[static_cast<size_t>(i)], p[1] + padded_rows_[static_cast<size_t>(i)]);
  }

  StridedIterator<2> planes_;  // inner, padded
  std::vector<Run> runs_;
  std::vector<int64_t> inner_rows_, padded_rows_;  // byte offsets of a plane's lines
  int64_t length_;
};

// Most paddings are of a few elements, for which a call takes longer than a loop.
constexpr int64_t short_run = 8;

}  // namespace

void pad(const View& input, const PaddedOffsets& places, const View& out) {
  if (out.numel == 0) return;
  PaddedLines lines(input, out, places);
  visit_size(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    lines.for_lines([&](char* line, char* padded) {
      lines.for_runs(line, padded, [&](const char* from, int64_t step, char* to, int64_t n) {
        if (n > short_run) return copy_strided(sizeof(T), from, step, to, lines.padded_step, n);
        for (int64_t i = 0; i < n; ++i)
          *reinterpret_cast<T*>(to + i * lines.padded_step) =
              *reinterpret_cast<const T*>(from + i * step);
      });
    });
  });
}

void pad_backward(const View& grad, const PaddedOffsets& places, const View& grad_input) {
  if (grad.numel == 0) return;
  PaddedLines lines(grad_input, grad, places);
  int64_t plane = itemsize(grad.dtype);
  for (size_t d = 1; d <= places.size(); ++d)
    plane *= grad_input.sizes[grad_input.ndim - static_cast<int64_t>(d)];
  visit_combine("pad_backward", grad.dtype, Combine::Sum, [&](auto tag, auto) {
    using T = typename decltype(tag)::type;
    auto clear = [plane](char* p) { std::memset(p, 0, static_cast<size_t>(plane)); };
    lines.for_planes(clear, [&](char* line, char* padded) {
      lines.for_runs(line, padded, [&](char* to, int64_t step, const char* from, int64_t n) {
        if (n > short_run)
          return combine_run(grad.dtype, Combine::Sum, to, step, from, lines.padded_step, n);
        for (int64_t i = 0; i < n; ++i) {
          T& sum = *reinterpret_cast<T*>(to + i * step);
          sum =
              combine<Combine::Sum>(sum, *reinterpret_cast<const T*>(from + i * lines.padded_step));
        }
      });
    });
  });
}

}  // namespace rl::kernels
