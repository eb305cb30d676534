#include <algorithm>
#include <cstdlib>
#include <optional>

#include "core/interpreter.h"
#include "kernels/cpu/combine.h"
#include "kernels/cpu/offsets.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {
namespace {

constexpr int64_t strip = 512;

// What does the work on one strip or row: called through a pointer, so that the loops around it are
// compiled once and not for each dtype and operation.
template <class... Args> class Call {
 public:
  template <class F>
  Call(F& f)
      : function_(&f), call_([](void* g, Args... args) { (*static_cast<F*>(g))(args...); }) {}
  void operator()(Args... args) const { call_(function_, args...); }

 private:
  void* function_;
  void (*call_)(void*, Args...);
};
// Indexed, its step, other, its step, at, count, bytes from index to index.
using OnStrip = Call<char*, int64_t, char*, int64_t, const int64_t*, int64_t, int64_t>;
using OnRow = Call<char*, int64_t, char*, int64_t, int64_t>;

// gather and scatter work on lines along dim, which are independent of each other.
struct Lines {
  const char* name;
  int64_t dim, dim_size, dim_step;  // of the view that is indexed
  int64_t n, index_step, other_step;
  DType dtype, index_dtype;
  StridedIterator<3> walk;                 // indexed view, index, other view
  ErrorKind outside = ErrorKind::Runtime;  // what an index out of range raises
  bool across;  // neighbouring lines are closer in memory than neighbours in a line

  Lines(const char* name, const View& indexed, int64_t dim, const View& index, const View& other)
      : name(name), dim(dim), dtype(indexed.dtype), index_dtype(index.dtype) {
    check(indexed.ndim == index.ndim && other.ndim == index.ndim, name, ": input of sizes ",
          indexed.shape(), ", index of sizes ", index.shape(), " and values of sizes ",
          other.shape(), " must have as many dims as each other");
    check_type(index.dtype == DType::Int64 || index.dtype == DType::Int32, name,
               ": expected an index of dtype int64, got ", index.dtype);
    bool scalar = index.ndim == 0;
    dim_size = scalar ? 1 : indexed.sizes[dim];
    dim_step = scalar ? 0 : indexed.strides[dim] * itemsize(indexed.dtype);
    n = scalar ? 1 : index.sizes[dim];
    index_step = scalar ? 0 : index.strides[dim] * itemsize(index.dtype);
    other_step = scalar ? 0 : other.strides[dim] * itemsize(other.dtype);
    walk.base[0] = indexed.ptr<char>();
    walk.base[1] = index.ptr<char>();
    walk.base[2] = other.ptr<char>();
    for (int64_t d = index.ndim - 1; d >= 0; --d) {
      bool fits =
          index.sizes[d] <= other.sizes[d] && (d == dim || index.sizes[d] <= indexed.sizes[d]);
      check(fits || index.numel == 0, name, ": index of sizes ", index.shape(),
            " is larger than input of sizes ", indexed.shape(), " or values of sizes ",
            other.shape(), " apart from dimension ", dim);
      if (d != dim)
        walk.add(index.sizes[d], {indexed.strides[d] * itemsize(indexed.dtype),
                                  index.strides[d] * itemsize(index.dtype),
                                  other.strides[d] * itemsize(other.dtype)});
    }
    walk.finish(true);
    across = walk.sizes[0] >= 4 && (n == 1 || std::abs(walk.strides[1][0]) < std::abs(index_step));
  }

  // f(indexed, its step, other, its step, at, m, down): m elements in row-major order within each
  // line, at[i] being the i-th one's checked index and `down` the bytes from one to the next. Where
  // neighbouring lines share their indices, row(indexed, its step, other, its step, m) at the place
  // of one index for m of them.
  void run(OnStrip f, OnRow row) const {
    if (n <= strip / 4 && blocks_follow(0, 1)) return run_blocks(0, 1, f);
    const int64_t inner = walk.sizes[0];
    if (inner > 1 && inner <= short_row && blocks_follow(1, inner)) return run_blocks(1, inner, f);
    // Parts as long as a row, or as what is done side by side: each passes all indices.
    int64_t together = !across ? 1 : walk.strides[1][0] == 0 ? walk.sizes[0] : side_by_side();
    int64_t grain = std::max<int64_t>(together, default_grain / 4 / n);
    walk.parallel_runs(grain, [&](char* const* p, int64_t lines) {
      int64_t step = walk.strides[0][0], other = walk.strides[2][0];
      if (across && walk.strides[1][0] == 0) {
        run_strips(nullptr, 0, p[1], index_step, p[2], other_step, n,
                   [&](char*, int64_t, char* from, int64_t, const int64_t* at, int64_t m, int64_t) {
                     for (int64_t i = 0; i < m; ++i) {
                       prefetch_row(p[0] + at[std::min(i + prefetched_rows, m - 1)] * dim_step,
                                    step * lines);
                       row(p[0] + at[i] * dim_step, step, from + i * other_step, other, lines);
                     }
                   });
      } else if (across) {
        for (int64_t j = 0, wide = side_by_side(); j < lines; j += wide)
          for (int64_t i = 0; i < n; ++i)
            run_strips(p[0] + j * step, step, p[1] + j * walk.strides[1][0] + i * index_step,
                       walk.strides[1][0], p[2] + j * other + i * other_step, other,
                       std::min(wide, lines - j), f);
      } else {
        for (int64_t j = 0; j < lines; ++j) {
          if (j + 1 < lines) prefetch_line(p[0] + (j + 1) * step);
          run_strips(p[0] + j * step, 0, p[1] + j * walk.strides[1][0], index_step,
                     p[2] + j * other, other_step, n, f);
        }
      }
    });
  }

  void check_all(const View& index) const {
    StridedIterator<1> w;
    w.base[0] = index.ptr<char>();
    for (int64_t d = index.ndim - 1; d >= 0; --d)  // what is repeated is checked once
      if (index.strides[d] != 0) w.add(index.sizes[d], {index.strides[d] * itemsize(index.dtype)});
    w.finish(true);
    w.parallel_runs(default_grain, [&](char* const* p, int64_t m) {
      int64_t step = w.strides[0][0];
      bool in_place = index_dtype == DType::Int64 && step == sizeof(int64_t);
      if (in_place && all_inside(reinterpret_cast<const int64_t*>(p[0]), m, dim_size, false))
        return;
      run_strips(nullptr, 0, p[0], step, nullptr, 0, m, [](auto...) {});
    });
  }

 private:
  // Whether index and values lie in one piece as blocks along dim d of n rows of `row` elements.
  bool blocks_follow(int d, int64_t row) const {
    auto follow = [&](int view, int64_t step, int64_t size) {
      bool dense = step == row * size && (row == 1 || walk.strides[view][0] == size);
      return dense && (d == walk.ndim || walk.strides[view][d] == n * step);
    };
    return follow(1, index_step, itemsize(index_dtype)) && follow(2, other_step, itemsize(dtype));
  }
  // Strips of several such rows, whose indices count elements from the first one's block on.
  void run_blocks(int d, int64_t row, OnStrip f) const {
    const int64_t size = itemsize(dtype), unit = dim_step / size, rows = strip / row;
    const int64_t height = std::max<int64_t>(1, rows / n);
    StridedIterator<3> blocks = walk;
    if (d == walk.ndim) {
      blocks.sizes[d] = 1;
      for (auto& strides : blocks.strides) strides[d] = 0;
    }
    int64_t first[strip], count = 0;  // of each element of a strip, without its index
    for (int64_t i = 0; i < std::min(rows, height * n); ++i)
      for (int64_t j = 0; j < row; ++j)
        first[count++] = (i / n * blocks.strides[0][d] + j * walk.strides[0][0]) / size;
    blocks.parallel_panels(d, height, default_grain / 4 / n, [&](char* const* p, int64_t m) {
      Interruption interruption;
      for (int64_t i = 0; i < m * n; i += rows) {
        if (i > 0) interruption.poll();
        run_strips(p[0], 0, p[1] + i * index_step, itemsize(index_dtype), p[2] + i * other_step,
                   size, std::min(rows, m * n - i) * row,
                   [&](char* line, int64_t step, char* other, int64_t next, int64_t* at,
                       int64_t strips, int64_t) {
                     count_from(first, unit, at, strips);
                     f(line, step, other, next, at, strips, size);
                   });
      }
    });
  }

  // Writes wait for each other, and in random order for the memory: 2.4 ns each, with this 1.
  void prefetch_line(const char* line) const {
    constexpr int64_t cache_line = 64, first_level = 32 << 10;
    int64_t bytes = dim_size * std::abs(dim_step);
    if (bytes > first_level || std::abs(dim_step) > cache_line || n < dim_size / 4) return;
    for (int64_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(line + i, 1);
  }

  // So few that all places of theirs stay in the second-level cache. Those of a multiple of 4 KB
  // from each other share its sets, so that wider rows are better: 2.5 ms of 1,024 columns,
  // not 4.6.
  int64_t side_by_side() const { return dim_step % 4096 ? 64 : 256; }
  static constexpr int64_t short_row = 16;  // of neighbouring lines

  template <class F>
  void run_strips(char* indexed, int64_t step, char* index, int64_t step_of_index, char* other,
                  int64_t step_of_other, int64_t count, F&& f) const {
    // Copies: somebody else may change the indices between check and use.
    alignas(64) int64_t at[strip];
    Interruption interruption;
    for (int64_t i = 0; i < count; i += strip) {
      if (i > 0) interruption.poll();
      int64_t m = std::min(strip, count - i);
      if (!load_indices(index_dtype, index + i * step_of_index, step_of_index, m, dim_size, at))
        check_range(at, m);
      f(indexed + i * step, step, other + i * step_of_other, step_of_other, at, m, dim_step);
    }
  }

  void check_range(const int64_t* at, int64_t m) const {
    for (int64_t k = 0; k < m; ++k)
      if (at[k] < 0 || at[k] >= dim_size)
        fail(outside, name, ": index ", at[k], " is out of bounds for dimension ", dim,
             " with size ", dim_size);
  }
};

// The indices along dim, if all lines share them: they are then those of whole slices.
std::optional<View> shared_index(const View& index, int64_t dim) {
  bool shared = index.ndim > 1;
  for (int64_t d = 0; d < index.ndim; ++d)
    shared = shared && (d == dim || index.strides[d] == 0 || index.sizes[d] == 1);
  if (!shared) return std::nullopt;
  return View{index.data,       index.sizes + dim, index.strides + dim, 1,
              index.sizes[dim], index.dtype,       index.device};
}

// The sizes of `index`, but those of `indexed` along dim.
Dims slice_sizes(const View& indexed, int64_t dim, const View& index) {
  Dims sizes(index.shape());
  sizes[dim] = indexed.sizes[dim];
  return sizes;
}

}  // namespace

void gather(const View& input, int64_t dim, const View& index, const View& out) {
  check(input.dtype == out.dtype, "gather: input of dtype ", input.dtype, ", out of dtype ",
        out.dtype);
  check(index.shape() == out.shape(), "gather: index of sizes ", index.shape(), ", out of sizes ",
        out.shape());
  std::optional<View> shared = shared_index(index, dim);
  if (shared && index.numel != 0) {
    // With the error of gather, not of index_select.
    Lines("gather", input, dim, index, out).check_all(index);
    Dims sizes = slice_sizes(input, dim, index);
    return select_slices("gather", input.slice(dim, 0, sizes), dim, *shared, out);
  }
  gather_elements("gather", ErrorKind::Runtime, input, dim, index, out);
}

void gather_elements(const char* name, ErrorKind outside, const View& input, int64_t dim,
                     const View& index, const View& out) {
  Lines lines(name, input, dim, index, out);
  lines.outside = outside;
  if (index.numel == 0) return;
  visit_size(input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int64_t size = sizeof(T);
    auto element = [](const char* x, int64_t x_step, char* y, int64_t y_step, const int64_t* at,
                      int64_t m, int64_t down) {
      if (x_step == 0 && down == size && y_step == size) {
        const T* from = reinterpret_cast<const T*>(x);
        T* to = reinterpret_cast<T*>(y);
#pragma GCC unroll 4
        for (int64_t i = 0; i < m; ++i) to[i] = from[at[i]];
        return;
      }
      for (int64_t i = 0; i < m; ++i)
        *reinterpret_cast<T*>(y + i * y_step) =
            *reinterpret_cast<const T*>(x + i * x_step + at[i] * down);
    };
    auto row = [](const char* x, int64_t x_step, char* y, int64_t y_step, int64_t m) {
      copy_strided(size, x, x_step, y, y_step, m);
    };
    lines.run(element, row);
  });
}

void scatter(const View& self, int64_t dim, const View& index, const View& src, Combine op,
             bool include_self, bool fresh) {
  check(self.dtype == src.dtype, "scatter: Expected self.dtype to be equal to src.dtype, got ",
        self.dtype, " and ", src.dtype);
  if (index.numel == 0) return;
  std::optional<View> shared = shared_index(index, dim);
  const Lines all("scatter", self, dim, index, src);  // which fit each other
  if (!fresh || shared) all.check_all(index);         // before any is written
  if (shared) {
    Dims sizes = slice_sizes(self, dim, index);
    return index_combine("scatter", self.slice(dim, 0, sizes), dim, *shared,
                         src.slice(dim, 0, index.shape()), op, include_self);
  }
  auto apply = [&](const View& target, const View& values, Combine step) {
    Lines lines("scatter", target, dim, index, values);
    auto row = [&](char* y, int64_t y_step, char* x, int64_t x_step, int64_t m) {
      combine_run(target.dtype, step, y, y_step, x, x_step, m);
    };
    visit_combine("scatter", target.dtype, step, [&](auto tag, auto op_tag) {
      using T = typename decltype(tag)::type;
      constexpr Combine how = decltype(op_tag)::value;
      constexpr int64_t size = sizeof(T);
      auto element = [](char* y, int64_t y_step, const char* x, int64_t x_step, const int64_t* at,
                        int64_t m, int64_t down) {
        if (y_step == 0 && down == size && x_step == size) {
          T* to = reinterpret_cast<T*>(y);
          const T* from = reinterpret_cast<const T*>(x);
          for (int64_t i = 0; i < m; ++i) to[at[i]] = combine<how>(to[at[i]], from[i]);
          return;
        }
        for (int64_t i = 0; i < m; ++i) {
          T& to = *reinterpret_cast<T*>(y + i * y_step + at[i] * down);
          to = combine<how>(to, *reinterpret_cast<const T*>(x + i * x_step));
        }
      };
      lines.run(element, row);
    });
  };
  View values = src.ndim == 0 ? src : src.slice(dim, 0, index.shape());
  combine_wide(self, values, index.numel, op, [&](const View& to, const View& from) {
    combine_by_steps("scatter", to, from, op, include_self, apply);
  });
}

void divide_by_counts(const char* name, const View& self, const View& counts) {
  StridedIterator<2> w({&self, &counts}, true);
  visit_all(name, self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    w.parallel_runs(default_grain, [&](char* const* p, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        T& x = *reinterpret_cast<T*>(p[0] + i * w.strides[0][0]);
        int64_t count = *reinterpret_cast<const int64_t*>(p[1] + i * w.strides[1][0]);
        count = std::max<int64_t>(count, 1);
        if constexpr (is_integral_element_v<T>) {
          int64_t v = static_cast<int64_t>(x), quotient = v / count;
          x = static_cast<T>(quotient - (v % count < 0));
        } else {
          x = T(compute_t<T>(x) / convert<compute_t<T>>(count));
        }
      }
    });
  });
}

}  // namespace rl::kernels
