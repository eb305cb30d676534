#include "kernels/cpu/offsets.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/combine.h"
#include "kernels/cpu/interruptible.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {
namespace {

// The loops over offsets and over the slice at each; view 0 of `slice` is the one with index dims.
struct GatherLoops {
  StridedIterator<1> indices;  // row-major, in the view with index dims
  StridedIterator<2> slice;
  bool slice_inside;  // run along slices, rather than along indices
  bool columns;       // few offsets, whose slices share their cache lines

  GatherLoops(const View& indexed, IntSpan rest, const View& other, int64_t index_dims,
              int64_t few_offsets) {
    int64_t other_size = itemsize(other.dtype), size = itemsize(indexed.dtype);
    for (int64_t d = index_dims - 1; d >= 0; --d)
      indices.add(other.sizes[d], {wrapping_product(other.strides[d], other_size)});
    indices.finish(false);
    for (int64_t i = rest.size() - 1; i >= 0; --i) {
      int64_t d = index_dims + i;
      check(other.sizes[d] == indexed.sizes[rest[i]], "index: sizes ", other.shape(),
            " do not fit the slices of an input of sizes ", indexed.shape());
      slice.add(other.sizes[d], {wrapping_product(other.strides[d], other_size),
                                 wrapping_product(indexed.strides[rest[i]], size)});
    }
    slice.finish(true);
    int64_t index_step = std::abs(indices.strides[0][0]),
            slice_step = std::abs(slice.strides[0][0]);
    // One value, or one slice, for all: what counts is where it goes.
    if (index_step == slice_step || index_step == 0) {
      slice_step = std::abs(slice.strides[1][0]);
      index_step = std::numeric_limits<int64_t>::max();
      for (int64_t d = 0; d < indexed.ndim; ++d)
        if (std::find(rest.begin(), rest.end(), d) == rest.end())
          index_step = std::min(index_step, std::abs(indexed.strides[d] * size));
    }
    bool offsets_denser = index_step < slice_step;
    slice_inside = slice.numel > 1 && (!offsets_denser || indices.numel < few_offsets);
    columns = slice_inside && indices.ndim == 1 && indices.numel < few_offsets &&
              std::abs(slice.strides[1][0]) > size;
  }
};

// Offsets that are `step` bytes apart from each other.
struct Run {
  int64_t first, count, step;
};

// All offsets as runs, if these are long: those of padding, say. Otherwise none.
std::vector<Run> long_runs(const Offsets& offsets) {
  constexpr size_t least_mean = 16;
  std::vector<Run> runs;
  for (size_t i = 0, end; i < offsets.size(); i = end) {
    end = i + 1;
    int64_t step = end < offsets.size() ? offsets[end] - offsets[i] : 0;
    while (end < offsets.size() && offsets[end] - offsets[end - 1] == step) ++end;
    runs.push_back({static_cast<int64_t>(i), static_cast<int64_t>(end - i), step});
    if (runs.size() * least_mean > end + 64) return {};
  }
  if (runs.size() * least_mean > offsets.size()) return {};
  return runs;
}

// As above, where they serve more slices than finding them costs.
std::vector<Run> useful_runs(const GatherLoops& loops, const Offsets& offsets) {
  bool useful = !loops.slice_inside && loops.indices.ndim == 1 && loops.slice.numel >= 4;
  return useful ? long_runs(offsets) : std::vector<Run>();
}

constexpr int64_t most_gathered = 512;  // bytes of rows that are not worth a call each
constexpr int64_t few_gathered = 24, few_scattered = 64;  // columns that are taken one by one
constexpr int64_t column_strip = 128;  // elements of strided slices that stay in the cache

// Slices are cut for threads into parts of at least so many elements: each part passes all offsets,
// and of short ones the offsets and what the memory does at each would take the time.
constexpr int64_t slice_part = 2048;

// What add_to_rows() does in one part: rows of `width` elements, `step` bytes apart, are combined
// in order with those at the offsets that lie in [low, low + bytes).
struct RowPart {
  DType dtype;
  Combine op;
  char* to;
  int64_t width, step, from_step, to_step;  // from row to row, and within one
  int64_t low = 0;
  uint64_t bytes = 0;

  RowPart(const GatherLoops& loops, char* const* start, DType dtype, Combine op)
      : dtype(dtype),
        op(op),
        to(start[1]),
        width(loops.slice.numel),
        step(loops.indices.strides[0][0]),
        from_step(loops.slice.strides[0][0]),
        to_step(loops.slice.strides[1][0]) {}
  bool has(int64_t offset) const { return static_cast<uint64_t>(offset - low) < bytes; }
  bool is_short() const {
    return width <= 12 && from_step == itemsize(dtype) && to_step == from_step;
  }
};

template <int n, class T, Combine op>
RL_INLINE void combine_few(char* to, const char* from) {
  T x[n], y[n];
  std::memcpy(static_cast<void*>(x), from, sizeof x);
  std::memcpy(static_cast<void*>(y), to, sizeof y);
  for (int k = 0; k < n; ++k) y[k] = combine<op>(y[k], x[k]);
  std::memcpy(to, static_cast<const void*>(y), sizeof y);
}
template <class T, Combine op>
void combine_short_rows(const RowPart& part, const char* from, const int64_t* offset,
                        int64_t count) {
  constexpr int64_t size = sizeof(T);
  const int64_t width = part.width;
  for (int64_t i = 0; i < count; ++i, from += part.step) {
    if (!part.has(offset[i])) continue;
    char* to = part.to + offset[i];
    int64_t j = 0;
    for (; j + 4 <= width; j += 4) combine_few<4, T, op>(to + j * size, from + j * size);
    if (width & 2) combine_few<2, T, op>(to + j * size, from + j * size);
    if (width & 1) combine_few<1, T, op>(to + (width - 1) * size, from + (width - 1) * size);
  }
}
using CombineRows = void (*)(const RowPart&, const char*, const int64_t*, int64_t);

void combine_rows(const RowPart& part, const char* from, const int64_t* offset, int64_t count) {
  for (int64_t i = 0; i < count; ++i, from += part.step) {
    int64_t later = offset[std::min<int64_t>(i + prefetched_rows, count - 1)];
    if (part.has(later)) prefetch_row(part.to + later, part.width * part.to_step);
    if (part.has(offset[i]))
      combine_run(part.dtype, part.op, part.to + offset[i], part.to_step, from, part.from_step,
                  part.width);
  }
}

// Slices too short to be cut: threads share out the memory that is written to, and each passes all
// offsets in order.
void add_to_rows(const char* name, const Offsets& offsets, const GatherLoops& loops,
                 char* const* start, const View& self, Combine op) {
  const StridedIterator<2>& slice = loops.slice;
  int64_t count = static_cast<int64_t>(offsets.size()), width = slice.numel;
  auto [least, most] = std::minmax_element(offsets.begin(), offsets.end());
  // Of short rows, passing the offsets takes the time.
  int64_t most_parts = std::min<int64_t>(width < 64 ? 4 : 16, num_threads());
  int64_t low = *least, parts = std::clamp<int64_t>(count * width / default_grain, 1, most_parts);
  int64_t step = (*most - low) / parts + 1;
  RowPart all(loops, start, self.dtype, op);
  CombineRows combine = combine_rows;
  if (all.is_short())
    visit_combine(name, self.dtype, op, [&](auto tag, auto op_tag) {
      combine = combine_short_rows<typename decltype(tag)::type, decltype(op_tag)::value>;
    });
  parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    RowPart part = all;
    part.low = low + begin * step;
    part.bytes = static_cast<uint64_t>((end - begin) * step);
    const int64_t* offset = offsets.data();
    loops.indices.range(0, count, start, [&](char* const* p, int64_t m) {
      auto combine_some = [&](int64_t first, int64_t last) {
        combine(part, p[0] + first * part.step, offset + first, last - first);
      };
      interruptible_for(m, combine_some, std::max<int64_t>(1, interruptible_elements / width));
      offset += m;
    });
  });
}

}  // namespace

View at_least_1d(View v) {
  static const int64_t one = 1;
  if (v.ndim > 0) return v;
  v.sizes = v.strides = &one;
  v.ndim = 1;
  return v;
}

void combine_run(DType dtype, Combine op, char* to, int64_t to_step, const char* from,
                 int64_t from_step, int64_t n) {
  int64_t size = itemsize(dtype);
  if (op == Combine::Set && to_step) return copy_strided(size, from, from_step, to, to_step, n);
  bool side_by_side = to_step == size && from_step == size;
  if (is_complex(dtype) && op == Combine::Sum && side_by_side)
    return combine_row(to_real(dtype), op, to, from, false, 2 * n);
  if (is_reduced(dtype) && op == Combine::Sum && side_by_side)
    return add_reduced_row(dtype, to, from, n);
  bool in_rows = side_by_side || (to_step == size && from_step == 0);
  if (in_rows && !is_complex(dtype) && !is_reduced(dtype))
    return combine_row(dtype, op, to, from, from_step == 0, n);
  if (!is_reduced(dtype) || to_step == 0)
    return visit_combine("combine", dtype, op, [&](auto tag, auto op_tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < n; ++i) {
        T& y = *reinterpret_cast<T*>(to + i * to_step);
        y = combine<decltype(op_tag)::value>(y, *reinterpret_cast<const T*>(from + i * from_step));
      }
    });
  constexpr int64_t strip = 512;
  float x[strip], y[strip];
  for (int64_t i = 0; i < n; i += strip) {
    int64_t m = std::min(strip, n - i);
    load_strip(dtype, from + i * from_step, from_step, DType::Float32, x, m);
    load_strip(dtype, to + i * to_step, to_step, DType::Float32, y, m);
    combine_row(DType::Float32, op, y, x, false, m);
    store_strip(DType::Float32, y, dtype, to + i * to_step, to_step, m);
  }
}

bool load_indices(DType dtype, const char* from, int64_t step, int64_t n, int64_t size,
                  int64_t* to) {
  if (dtype == DType::Int64 && step == sizeof(int64_t)) {
    bool inside;
    copy_inside(reinterpret_cast<const int64_t*>(from), n, size, to, &inside);
    return inside;
  }
  load_strip(dtype, from, step, DType::Int64, to, n);
  return all_inside(to, n, size, false);
}

Offsets offsets_of(const char* op, const View& indexed, const View* indices, IntSpan dims,
                   bool negative_indices) {
  constexpr int64_t strip = 512;
  Offsets offsets(static_cast<size_t>(indices[0].numel));
  if (dims.empty()) std::fill(offsets.begin(), offsets.end(), 0);
  for (int64_t k = 0; k < dims.size(); ++k) {
    const View& index = indices[k];
    check_index(index.dtype == DType::Int64 || index.dtype == DType::Int32, op,
                ": expected an index of dtype int64 or int32, got ", index.dtype);
    check_index(index.shape() == indices[0].shape(), op, ": indices of sizes ", index.shape(),
                " and ", indices[0].shape(), " do not match");
    int64_t size = indexed.sizes[dims[k]],
            step = indexed.strides[dims[k]] * itemsize(indexed.dtype);
    int64_t* to = offsets.data();
    Interruption interruption;
    StridedIterator<1> walk({&index}, false);
    walk.range(0, walk.numel, walk.base, [&](char* const* p, int64_t n) {
      int64_t values[strip], stride = walk.strides[0][0];
      for (int64_t i = 0; i < n; i += strip) {
        int64_t m = std::min(strip, n - i);
        interruption.poll();
        if (dims.size() == 1 && step == 1 && !negative_indices &&
            load_indices(index.dtype, p[0] + i * stride, stride, m, size, to)) {
          to += m;  // places of bytes, as which rows are counted
          continue;
        }
        load_strip(index.dtype, p[0] + i * stride, stride, DType::Int64, values, m);
        bool inside = all_inside(values, m, size, negative_indices);
        for (int64_t j = 0; !inside && j < m; ++j)
          check_index(values[j] < size && values[j] >= (negative_indices ? -size : 0), op,
                      ": index ", values[j], " is out of bounds for dimension ", dims[k],
                      " with size ", size);
        for (int64_t j = 0; j < m; ++j) {
          int64_t v = values[j], offset = (v + (v >> 63 & size)) * step;
          to[j] = k == 0 ? offset : to[j] + offset;
        }
        to += m;
      }
    });
  }
  return offsets;
}

namespace {

using Bases = char* const (&)[2];  // of the result and of the input

// Few columns: all of them in pieces of the slices that stay in the first-level cache.
void gather_columns(const GatherLoops& loops, const Offsets& offsets, int64_t size, Bases start) {
  const StridedIterator<2>& slice = loops.slice;
  const int64_t index_step = loops.indices.strides[0][0];
  const int64_t from = slice.strides[1][0], to = slice.strides[0][0];
  parallel_for(0, slice.numel, default_grain / loops.indices.numel,
               [&](int64_t begin, int64_t end) {
                 slice.range(begin, end, start, [&](char* const* both, int64_t run) {
                   for (int64_t i = 0, m; i < run; i += m) {
                     m = std::min(column_strip, run - i);
                     char* out = both[0] + i * to;
                     for (int64_t offset : offsets) {
                       copy_strided(size, both[1] + i * from + offset, from, out, to, m);
                       out += index_step;
                     }
                   }
                 });
               });
}

// Few runs in each of many slices, points of a few coordinates say: of several slices at a time.
bool gather_short_runs(const GatherLoops& loops, const Offsets& offsets, int64_t size,
                       Bases start) {
  constexpr int64_t strip = 512;
  const StridedIterator<2>& slice = loops.slice;
  const int64_t n = loops.indices.numel, run = slice.sizes[0], height = strip / n;
  const int64_t index_step = loops.indices.strides[0][0];
  const bool follow = loops.indices.ndim == 1 && slice.ndim > 1 && run * size <= most_gathered &&
                      slice.strides[0][0] == size && slice.strides[1][0] == size &&
                      slice.strides[0][1] == n * index_step;
  if (height < 2 || !follow) return false;
  int64_t places[strip], count = 0;
  for (int64_t i = 0; i < std::min(height, slice.sizes[1]); ++i)
    for (int64_t offset : offsets) places[count++] = offset + i * slice.strides[1][1];
  StridedIterator<2> walk = slice;
  std::copy(start, start + 2, walk.base);
  walk.parallel_panels(1, height, default_grain / n, [&](char* const* p, int64_t slices) {
    gather_rows(run * size, p[1], places, p[0], index_step, slices * n);
  });
  return true;
}

// Runs of the innermost dim, of all offsets in turn, for each element of the dims around it.
void gather_runs_inside(const GatherLoops& loops, const Offsets& offsets, int64_t size,
                        Bases start) {
  const StridedIterator<2>& slice = loops.slice;
  int64_t n = loops.indices.numel, index_step = loops.indices.strides[0][0];
  int64_t run = slice.sizes[0], outer = slice.numel / run, from = slice.strides[1][0],
          to = slice.strides[0][0];
  int64_t grain = std::max<int64_t>(1, default_grain / run);
  const bool in_rows = from == size && to == size && run * size <= most_gathered;
  parallel_for(0, outer * n, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t first = begin % n, stop = std::min(n, first + end - begin), at = begin / n * run;
      slice.range(at, at + 1, start, [&](char* const* both, int64_t) {
        const int64_t* offset = offsets.data() + first;
        loops.indices.range(first, stop, both, [&](char* const* p, int64_t m) {
          if (in_rows) gather_rows(run * size, both[1], offset, p[0], index_step, m);
          for (int64_t i = 0; i < m && !in_rows; ++i)
            copy_strided(size, both[1] + offset[i], from, p[0] + i * index_step, to, run);
          offset += m;
        });
      });
      begin += stop - first;
    }
  });
}

// Places that follow each other at one distance are copied as one.
void gather_runs_of_places(const GatherLoops& loops, const std::vector<Run>& runs,
                           const Offsets& offsets, int64_t size, Bases start) {
  const StridedIterator<2>& slice = loops.slice;
  int64_t index_step = loops.indices.strides[0][0];
  parallel_for(
      0, slice.numel, 1 + default_grain / loops.indices.numel, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          slice.range(r, r + 1, start, [&](char* const* both, int64_t) {
            for (const Run& run : runs)
              copy_strided(size, both[1] + offsets[static_cast<size_t>(run.first)], run.step,
                           both[0] + run.first * index_step, index_step, run.count);
          });
      });
}

// So many slices are gathered in one pass over their offsets, which costs as much as the elements.
constexpr int64_t slices_at_once = 4;

// to[r][i] = from[r] at offset[i], for `slices` that lie from_slice and to_slice bytes apart.
template <class T>
void gather_slices(const char* from, int64_t from_slice, char* to, int64_t to_slice, int64_t step,
                   int64_t slices, const int64_t* offset, int64_t n) {
  auto copy = [](char* y, const char* x) { std::memcpy(y, x, sizeof(T)); };
  if (slices == slices_at_once && step == sizeof(T)) {
    for (int64_t i = 0; i < n; ++i, to += sizeof(T)) {
      const char* x = from + offset[i];
      for (int64_t r = 0; r < slices_at_once; ++r) copy(to + r * to_slice, x + r * from_slice);
    }
    return;
  }
  for (int64_t r = 0; r < slices; ++r, from += from_slice, to += to_slice)
    for (int64_t i = 0; i < n; ++i) copy(to + i * step, from + offset[i]);
}

template <class T>
void gather_each(const GatherLoops& loops, const Offsets& offsets, Bases start) {
  const StridedIterator<2>& slice = loops.slice;
  int64_t n = loops.indices.numel, index_step = loops.indices.strides[0][0];
  int64_t groups = (slice.numel + slices_at_once - 1) / slices_at_once;
  parallel_for(0, groups * n, default_grain / slices_at_once, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t index = begin % n, stop = std::min(n, index + end - begin);
      int64_t first = begin / n * slices_at_once,
              last = std::min(first + slices_at_once, slice.numel);
      slice.range(first, last, start, [&](char* const* both, int64_t slices) {
        const int64_t* offset = offsets.data() + index;
        loops.indices.range(index, stop, both, [&](char* const* p, int64_t m) {
          gather_slices<T>(both[1], slice.strides[1][0], p[0], slice.strides[0][0], index_step,
                           slices, offset, m);
          offset += m;
        });
      });
      begin += stop - index;
    }
  });
}

// Elements [begin, end) of all slices, in the order of the offsets. Few strided ones, columns, in
// pieces that stay in the first-level cache.
void scatter_slices(const GatherLoops& loops, const Offsets& offsets, Bases start, DType dtype,
                    Combine op, int64_t begin, int64_t end) {
  const StridedIterator<2>& slice = loops.slice;
  const int64_t n = loops.indices.numel, index_step = loops.indices.strides[0][0];
  const int64_t to = slice.strides[1][0], from = slice.strides[0][0];
  const int64_t part = loops.columns ? column_strip : end - begin;
  Interruption interruption;
  for (; begin < end; begin += part) {
    const int64_t *offset = offsets.data(), stop = std::min(begin + part, end);
    loops.indices.range(0, n, start, [&](char* const* p, int64_t m) {
      for (int64_t i = 0; i < m; ++i) {
        char* both[2] = {p[0] + i * index_step, start[1] + *offset++};
        if (i % 1024 == 1023) interruption.poll();
        slice.range(begin, stop, both, [&](char* const* q, int64_t run) {
          combine_run(dtype, op, q[1], to, q[0], from, run);
        });
      }
    });
  }
}

// Elements [first, last) of `from`, in steps of so many bytes, at their offsets from `to`.
template <class T, Combine op>
void scatter_elements(const char* from, int64_t step, char* to, const int64_t* offset,
                      int64_t first, int64_t last) {
  if constexpr (op == Combine::Set) {
    if (step == 0) {  // one value, which need not be read again after each write
      T value = *reinterpret_cast<const T*>(from);
      for (int64_t i = first; i < last; ++i) *reinterpret_cast<T*>(to + offset[i]) = value;
      return;
    }
  }
  for (int64_t i = first; i < last; ++i) {
    T& y = *reinterpret_cast<T*>(to + offset[i]);
    y = combine<op>(y, *reinterpret_cast<const T*>(from + i * step));
  }
}

using ScatterElements = void (*)(const char*, int64_t, char*, const int64_t*, int64_t, int64_t);
ScatterElements scatter_elements_of(const char* op_name, DType dtype, Combine op) {
  ScatterElements scatter = nullptr;
  visit_combine(op_name, dtype, op, [&](auto tag, auto op_tag) {
    scatter = scatter_elements<typename decltype(tag)::type, decltype(op_tag)::value>;
  });
  return scatter;
}

}  // namespace

void gather_at(const Offsets& offsets, const View& input, IntSpan rest, const View& out,
               int64_t index_dims) {
  if (out.numel == 0) return;
  GatherLoops loops(input, rest, out, index_dims, few_gathered);
  char* start[2] = {out.ptr<char>(), input.ptr<char>()};
  int64_t size = itemsize(out.dtype);
  if (loops.columns) return gather_columns(loops, offsets, size, start);
  if (loops.slice_inside && gather_short_runs(loops, offsets, size, start)) return;
  if (loops.slice_inside) return gather_runs_inside(loops, offsets, size, start);
  if (std::vector<Run> runs = useful_runs(loops, offsets); !runs.empty())
    return gather_runs_of_places(loops, runs, offsets, size, start);
  visit_size(out.dtype,
             [&](auto tag) { gather_each<typename decltype(tag)::type>(loops, offsets, start); });
}

void scatter_at(const char* op_name, const Offsets& offsets, const View& self, IntSpan rest,
                const View& src, int64_t index_dims, Combine op) {
  if (src.numel == 0) return;
  GatherLoops loops(self, rest, src, index_dims, few_scattered);
  const StridedIterator<2>& slice = loops.slice;
  int64_t n = loops.indices.numel, index_step = loops.indices.strides[0][0];
  char* start[2] = {src.ptr<char>(), self.ptr<char>()};
  check_implemented(!is_complex(self.dtype) || (op != Combine::Max && op != Combine::Min), op_name,
                    ": no order among elements of dtype ", self.dtype);
  // Threads share out the slice, never the offsets: those may coincide, and their order counts.
  int64_t grain = std::max<int64_t>(1, default_grain / n);
  auto share = [&](auto&& f) { parallel_for(0, slice.numel, grain, f); };
  if (loops.slice_inside && slice.ndim == 1 && slice.numel < 2 * slice_part)
    return add_to_rows(op_name, offsets, loops, start, self, op);
  if (loops.slice_inside)
    return parallel_for(0, slice.numel, std::max(grain, slice_part),
                        [&](int64_t begin, int64_t end) {
                          scatter_slices(loops, offsets, start, self.dtype, op, begin, end);
                        });
  std::vector<Run> runs = useful_runs(loops, offsets);
  if (!runs.empty())
    return share([&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        slice.range(r, r + 1, start, [&](char* const* both, int64_t) {
          for (const Run& run : runs)
            combine_run(self.dtype, op, both[1] + offsets[static_cast<size_t>(run.first)], run.step,
                        both[0] + run.first * index_step, index_step, run.count);
        });
    });
  auto scatter = scatter_elements_of(op_name, self.dtype, op);
  share([&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      slice.range(r, r + 1, start, [&](char* const* both, int64_t) {
        const int64_t* offset = offsets.data();
        loops.indices.range(0, n, both, [&](char* const* p, int64_t m) {
          interruptible_for(m, [&](int64_t first, int64_t last) {
            scatter(p[0], index_step, both[1], offset, first, last);
          });
          offset += m;
        });
      });
  });
}

}  // namespace rl::kernels
