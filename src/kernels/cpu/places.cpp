#include "kernels/cpu/places.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/cpu/combine.h"
#include "kernels/cpu/strip.h"
#include "kernels/walk.h"

namespace rl::kernels {
namespace {

// The loops over places and over the slice at each; view 0 of `slice` is the one with place dims.
struct PlaceLoops {
  Walk<1> places;  // row-major, in the view with place dims
  Walk<2> slice;
  bool slice_inside;  // run along slices, rather than along places

  PlaceLoops(const View& indexed, IntSpan rest, const View& other, int64_t place_dims) {
    int64_t other_size = itemsize(other.dtype), size = itemsize(indexed.dtype);
    for (int64_t d = place_dims - 1; d >= 0; --d)
      places.add(other.sizes[d], {wrapping_product(other.strides[d], other_size)});
    places.finish(false);
    for (int64_t i = rest.size() - 1; i >= 0; --i) {
      int64_t d = place_dims + i;
      check(other.sizes[d] == indexed.sizes[rest[i]], "index: sizes ", other.shape(),
            " do not fit the slices of an input of sizes ", indexed.shape());
      slice.add(other.sizes[d], {wrapping_product(other.strides[d], other_size),
                                 wrapping_product(indexed.strides[rest[i]], size)});
    }
    slice.finish(true);
    bool places_denser = std::abs(places.strides[0][0]) < std::abs(slice.strides[0][0]);
    slice_inside = slice.numel > 1 && (!places_denser || places.numel < 16);
  }
};

}  // namespace

View at_least_1d(View v) {
  static const int64_t one = 1;
  if (v.ndim > 0) return v;
  v.sizes = v.strides = &one;
  v.ndim = 1;
  return v;
}

Places places(const char* op, const View& indexed, const View* indices, IntSpan dims,
              bool negative_indices) {
  constexpr int64_t strip = 512;
  Places offsets(static_cast<size_t>(indices[0].numel));
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
    Walk<1> walk({&index}, false);
    walk.range(0, walk.numel, walk.base, [&](char* const* p, int64_t n) {
      int64_t values[strip], stride = walk.strides[0][0];
      for (int64_t i = 0; i < n; i += strip) {
        int64_t m = std::min(strip, n - i);
        load_strip(index.dtype, p[0] + i * stride, stride, DType::Int64, values, m);
        for (int64_t j = 0; j < m; ++j) {
          int64_t v = values[j];
          check_index(v < size && v >= (negative_indices ? -size : 0), op, ": index ", v,
                      " is out of bounds for dimension ", dims[k], " with size ", size);
          int64_t offset = (v < 0 ? v + size : v) * step;
          *to = k == 0 ? offset : *to + offset;
          ++to;
        }
      }
    });
  }
  return offsets;
}

void read_places(const Places& offsets, const View& input, IntSpan rest, const View& out,
                 int64_t place_dims) {
  if (out.numel == 0) return;
  PlaceLoops loops(input, rest, out, place_dims);
  const Walk<2>& slice = loops.slice;
  int64_t n = loops.places.numel, size = itemsize(out.dtype),
          place_step = loops.places.strides[0][0];
  char* start[2] = {out.ptr<char>(), input.ptr<char>()};
  if (loops.slice_inside) {
    int64_t grain = std::max<int64_t>(1, default_grain / slice.numel);
    parallel_for(0, n, grain, [&](int64_t begin, int64_t end) {
      const int64_t* offset = offsets.data() + begin;
      loops.places.range(begin, end, start, [&](char* const* p, int64_t m) {
        for (int64_t i = 0; i < m; ++i) {
          char* both[2] = {p[0] + i * place_step, start[1] + *offset++};
          auto copy_run = [&](char* const* q, int64_t run) {
            copy_strided(size, q[1], slice.strides[1][0], q[0], slice.strides[0][0], run);
          };
          if (slice.ndim == 1) copy_run(both, slice.numel);
          else slice.range(0, slice.numel, both, copy_run);
        }
      });
    });
    return;
  }
  visit_size(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(0, slice.numel * n, default_grain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        int64_t place = begin % n, stop = std::min(n, place + end - begin);
        slice.range(begin / n, begin / n + 1, start, [&](char* const* both, int64_t) {
          const char* from = both[1];
          const int64_t* offset = offsets.data() + place;
          loops.places.range(place, stop, both, [&](char* const* p, int64_t m) {
            if (place_step == sizeof(T)) {
              T* to = reinterpret_cast<T*>(p[0]);
              for (int64_t i = 0; i < m; ++i) to[i] = *reinterpret_cast<const T*>(from + offset[i]);
            } else {
              for (int64_t i = 0; i < m; ++i)
                *reinterpret_cast<T*>(p[0] + i * place_step) =
                    *reinterpret_cast<const T*>(from + offset[i]);
            }
            offset += m;
          });
        });
        begin += stop - place;
      }
    });
  });
}

void combine_places(const char* op_name, const Places& offsets, const View& self, IntSpan rest,
                    const View& src, int64_t place_dims, Combine op) {
  if (src.numel == 0) return;
  PlaceLoops loops(self, rest, src, place_dims);
  const Walk<2>& slice = loops.slice;
  int64_t n = loops.places.numel, place_step = loops.places.strides[0][0];
  char* start[2] = {src.ptr<char>(), self.ptr<char>()};
  visit_combine(op_name, self.dtype, op, [&](auto tag, auto op_tag) {
    using T = typename decltype(tag)::type;
    auto combine_run = [](char* to, int64_t to_step, const char* from, int64_t from_step,
                          int64_t m) {
      constexpr Combine how = decltype(op_tag)::value;
      if (to_step == sizeof(T) && from_step == sizeof(T)) {
        T* y = reinterpret_cast<T*>(to);
        const T* x = reinterpret_cast<const T*>(from);
        for (int64_t i = 0; i < m; ++i) y[i] = combine<how>(y[i], x[i]);
        return;
      }
      if (to_step == sizeof(T) && from_step == 0) {
        T* y = reinterpret_cast<T*>(to);
        const T x = *reinterpret_cast<const T*>(from);
        for (int64_t i = 0; i < m; ++i) y[i] = combine<how>(y[i], x);
        return;
      }
      for (int64_t i = 0; i < m; ++i) {
        T& y = *reinterpret_cast<T*>(to + i * to_step);
        y = combine<how>(y, *reinterpret_cast<const T*>(from + i * from_step));
      }
    };
    // Threads share out the slice, never the places: those may coincide, and their order counts.
    int64_t grain = std::max<int64_t>(1, default_grain / n);
    parallel_for(0, slice.numel, grain, [&](int64_t begin, int64_t end) {
      if (loops.slice_inside) {
        const int64_t* offset = offsets.data();
        loops.places.range(0, n, start, [&](char* const* p, int64_t m) {
          for (int64_t i = 0; i < m; ++i) {
            char* both[2] = {p[0] + i * place_step, start[1] + *offset++};
            slice.range(begin, end, both, [&](char* const* q, int64_t run) {
              combine_run(q[1], slice.strides[1][0], q[0], slice.strides[0][0], run);
            });
          }
        });
      } else {
        for (int64_t r = begin; r < end; ++r)
          slice.range(r, r + 1, start, [&](char* const* both, int64_t) {
            const int64_t* offset = offsets.data();
            loops.places.range(0, n, both, [&](char* const* p, int64_t m) {
              for (int64_t i = 0; i < m; ++i)
                combine_run(both[1] + *offset++, 0, p[0] + i * place_step, 0, 1);
            });
          });
      }
    });
  });
}

}  // namespace rl::kernels
