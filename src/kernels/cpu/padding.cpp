#include "kernels/padding.h"

#include <algorithm>
#include <cstdlib>
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
  // Dim `within`, if it is not -1, is one of what each element consists of.
  PaddedLines(const View& inner, const View& padded, const PaddedOffsets& places,
              int64_t within = -1)
      : runs_(runs_of(places.back())), inner_rows_{0}, padded_rows_{0} {
    int64_t count = static_cast<int64_t>(places.size()), first = padded.ndim - count;
    int64_t inner_size = itemsize(inner.dtype), padded_size = itemsize(padded.dtype);
    planes_.base[0] = inner.ptr<char>();
    planes_.base[1] = padded.ptr<char>();
    for (int64_t d = first - 1; d >= 0; --d)
      if (d != within)
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

  // Lines of a plane, the bytes from each to the next the same for all.
  struct EvenLines {
    char *inner, *padded;
    int64_t inner_apart, padded_apart, count;
  };

  // f(lines) for all, in any order: as many at a time as stay in the first-level cache.
  template <class F> void for_lines(F&& f) const {
    int64_t rows = static_cast<int64_t>(inner_rows_.size());
    int64_t most = 1 + (16 << 10) / (1 + length_ * std::abs(padded_step));
    if (rows == 1) return for_planes_of_a_line(most, f);
    parallel_for(0, planes_.numel * rows, 1 + default_grain / length_,
                 [&](int64_t begin, int64_t end) {
                   while (begin < end) {
                     int64_t row = begin % rows, stop = std::min(rows, row + end - begin);
                     plane(begin / rows, [&](char* const* p) {
                       for (int64_t i = row; i < stop;) {
                         EvenLines lines = even_lines(p, i, std::min(stop, i + most));
                         f(lines);
                         i += lines.count;
                       }
                     });
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

  // for_lines where planes are lines.
  template <class F> void for_planes_of_a_line(int64_t most, F&& f) const {
    planes_.parallel_runs(1 + default_grain / length_, [&](char* const* p, int64_t n) {
      int64_t inner = planes_.strides[0][0], padded = planes_.strides[1][0];
      for (int64_t i = 0; i < n; i += most)
        f({p[0] + inner_rows_[0] + i * inner, p[1] + padded_rows_[0] + i * padded, inner, padded,
           std::min(most, n - i)});
    });
  }

  // From line i on, of those before `end`.
  EvenLines even_lines(char* const* p, int64_t i, int64_t end) const {
    const int64_t *inner = inner_rows_.data() + i, *padded = padded_rows_.data() + i;
    EvenLines lines{p[0] + inner[0], p[1] + padded[0], 0, 0, 1};
    if (i + 1 == end) return lines;
    lines.inner_apart = inner[1] - inner[0];
    lines.padded_apart = padded[1] - padded[0];
    int64_t& n = lines.count;
    while (i + n < end && inner[n] - inner[n - 1] == lines.inner_apart &&
           padded[n] - padded[n - 1] == lines.padded_apart)
      ++n;
    return lines;
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

// The dim before `first` whose elements lie side by side in both views, as channels may; or -1.
int64_t side_by_side(const View& a, const View& b, int64_t first) {
  int64_t last = a.ndim - 1;
  if (a.strides[last] == 1) return -1;
  for (int64_t d = 0; d < first; ++d)
    if (a.sizes[d] >= 4 && a.strides[d] == 1 && b.strides[d] == 1) return d;
  return -1;
}

}  // namespace

void pad(const View& input, const PaddedOffsets& places, const View& out) {
  if (out.numel == 0) return;
  int64_t within = side_by_side(input, out, out.ndim - static_cast<int64_t>(places.size()));
  PaddedLines lines(input, out, places, within);
  visit_size(out.dtype, [&](auto tag) {
    constexpr int64_t size = sizeof(typename decltype(tag)::type);
    int64_t across = lines.padded_step, unit = within < 0 ? size : size * out.sizes[within];
    lines.for_lines([&](const PaddedLines::EvenLines& even) {
      int64_t inner = even.inner_apart, padded = even.padded_apart, count = even.count;
      lines.for_runs(even.inner, even.padded, [&](char* from, int64_t step, char* to, int64_t n) {
        if (n <= short_run && within < 0)
          for (int64_t i = 0; i < n; ++i, from += step, to += across)
            for (int64_t j = 0; j < count; ++j)
              std::memcpy(to + j * padded, from + j * inner, size);
        else if (step == unit && across == unit)
          copy_rows(n * unit, from, inner, to, padded, count);
        else if (within >= 0)
          for (int64_t j = 0; j < count; ++j)
            copy_rows(unit, from + j * inner, step, to + j * padded, across, n);
        else
          for (int64_t j = 0; j < count; ++j)
            copy_strided(size, from + j * inner, step, to + j * padded, across, n);
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
