#include "kernels/cpu/arg_tiles.h"

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

// Does x take the place of the earlier value v? NaN beats all but an earlier NaN.
template <bool largest, class T>
RL_INLINE bool beats(T x, T v) {
  return (v == v) & !(largest ? x <= v : x >= v);
}

// As wide as T, so that values and places share vector masks.
template <class T> using PlaceOf = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

template <bool largest, class T>
void arg_row(const T* x, int64_t n, int64_t first, T* value, int64_t* index) {
  using Place = PlaceOf<T>;
  constexpr int width = vector_bytes / sizeof(T);
  T best = x[0];
  Place place = 0;
  int64_t i = 1;
  if (n >= width) {  // the best of each lane, then the first of the best
    vec<T> high = load(x);
    vec<Place> round = {}, now = {};
    for (i = width; i + width <= n; i += width) {
      now += 1;
      vec<T> v = load(x + i);
      auto better = (high == high) & ~(largest ? v <= high : v >= high);
      high = better ? v : high;
      round = better ? now : round;
    }
    T values[width];
    Place rounds[width];
    __builtin_memcpy(values, &high, sizeof high);
    __builtin_memcpy(rounds, &round, sizeof round);
    best = fold<std::conditional_t<largest, Max, Min>>(values, width);
    place = static_cast<Place>(n);
    for (int k = 0; k < width; ++k) {
      bool equal = (values[k] == best) | ((values[k] != values[k]) & (best != best));
      Place at = static_cast<Place>(rounds[k] * width + k);
      place = (equal & (at < place)) ? at : place;
    }
  }
  for (; i < n; ++i)
    if (beats<largest>(x[i], best)) {
      best = x[i];
      place = static_cast<Place>(i);
    }
  if (*index >= 0 && !beats<largest>(best, *value)) return;
  *value = best;
  *index = first + place;
}

template <bool largest, class T>
void arg_columns(const T* x, int64_t n, int64_t row_stride, int64_t width, int64_t first, T* values,
                 int64_t* indices) {
  using Place = PlaceOf<T>;
  constexpr int64_t block = 64;
  for (int64_t j0 = 0; j0 < width; j0 += block, x += block, values += block, indices += block) {
    int64_t m = width - j0 < block ? width - j0 : block;
    T best[block];
    Place place[block] = {};
    for (int64_t j = 0; j < m; ++j) best[j] = x[j];
    for (int64_t i = 1; i < n; ++i)
      for (int64_t j = 0; j < m; ++j) {
        T v = x[i * row_stride + j];
        bool better = beats<largest>(v, best[j]);
        best[j] = better ? v : best[j];
        place[j] = better ? static_cast<Place>(i) : place[j];
      }
    for (int64_t j = 0; j < m; ++j) {
      if (indices[j] >= 0 && !beats<largest>(best[j], values[j])) continue;
      values[j] = best[j];
      indices[j] = first + place[j];
    }
  }
}

template <bool largest, class T>
void arg_typed(const void* in, int64_t n, int64_t row_stride, int64_t width, int64_t first,
               void* values, int64_t* indices) {
  const T* x = static_cast<const T*>(in);
  T* v = static_cast<T*>(values);
  if (width == 1) return arg_row<largest>(x, n, first, v, indices);
  arg_columns<largest>(x, n, row_stride, width, first, v, indices);
}

}  // namespace

void arg_tile(bool largest, DType element, const void* x, int64_t n, int64_t row_stride,
              int64_t width, int64_t first, void* values, int64_t* indices) {
  auto typed =
      element == DType::Float32   ? largest ? arg_typed<true, float> : arg_typed<false, float>
      : element == DType::Float64 ? largest ? arg_typed<true, double> : arg_typed<false, double>
      : largest                   ? arg_typed<true, int64_t>
                                  : arg_typed<false, int64_t>;
  typed(x, n, row_stride, width, first, values, indices);
}

}  // namespace rl::kernels::RL_ISA
