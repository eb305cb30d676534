#include <limits>

#include "kernels/cpu/scan_lanes.h"
#include "kernels/cpu/transpose_square.h"

namespace rl::kernels::RL_ISA {
namespace {

// Of numbers; the later of equals.
struct LastMax {
  template <class T> static constexpr T identity() {
    using L = std::numeric_limits<T>;
    return L::has_infinity ? -L::infinity() : L::lowest();
  }
  template <class V> RL_INLINE static V apply(V a, V b) { return a > b ? a : b; }
  template <class V> RL_INLINE static auto replaces(V x, V best) { return x >= best; }
};
struct LastMin {
  template <class T> static constexpr T identity() {
    using L = std::numeric_limits<T>;
    return L::has_infinity ? L::infinity() : L::max();
  }
  template <class V> RL_INLINE static V apply(V a, V b) { return a < b ? a : b; }
  template <class V> RL_INLINE static auto replaces(V x, V best) { return x <= best; }
};

// Puts x in the place of what was best before, if it is as good; whether it did. NaN, once met,
// stays. Of integers nothing but the extreme itself waits for the step before.
template <class Op, class T, class V> RL_INLINE auto take(V x, V& best) {
  if constexpr (std::is_integral_v<T>) {
    best = Op::apply(best, x);
    return x == best;
  } else {
    auto taken = (x != x) | ((best == best) & Op::replaces(x, best));
    best = taken ? x : best;
    return taken;
  }
}

// The places are a running maximum too: of the numbers of those elements that equal the extreme.
template <class Op, class T>
void extremes_of_numbers(const T* x, T* values, int64_t* places, int64_t n, int64_t first, T* best,
                         int64_t* place) {
  using Number = LaneOf<T>;
  constexpr int lanes = Vector<T>::lanes;
  constexpr int64_t strip = 512;
  Number numbers[strip];
  int64_t before = *place;
  T last = *best;
  for (int64_t start = 0; start < n; start += strip) {
    int64_t m = n - start < strip ? n - start : strip, i = 0;
    Number number = -1;
    for (; i + lanes <= m; i += lanes) {
      vec<T> v = load(x + i), none = Op::template identity<T>() - vec<T>{};
      vec<T> extreme = Op::apply(vec<T>(last - vec<T>{}), prefix<Op, T>(v, none));
      vec<Number> here = count_lanes<T>() + static_cast<Number>(i),
                  earlier = number - vec<Number>{};
      here = v == extreme ? here : vec<Number>{} - 1;
      here = prefix<LastMax, Number>(here, vec<Number>{} - 1);
      here = LastMax::apply(earlier, here);
      store(values + i, extreme);
      store(numbers + i, here);
      last = extreme[lanes - 1];
      number = here[lanes - 1];
    }
    for (; i < m; ++i) {
      T extreme = Op::apply(last, x[i]);
      number = x[i] == extreme ? static_cast<Number>(i) : number;
      values[i] = last = extreme;
      numbers[i] = number;
    }
    for (int64_t k = 0; k < m; ++k)
      places[k] = numbers[k] < 0 ? before : first + start + numbers[k];
    before = places[m - 1];
    x += strip;
    values += strip;
    places += strip;
  }
  *best = last;
  *place = before;
}

template <class T> bool has_nan(const T* x, int64_t n) {
  vec<LaneOf<T>> found = {};
  for_offsets<T>(n, [&](auto at) {
    vec<T> v = at(x);
    found |= v != v;
  });
  bool any = false;
  for (int k = 0; k < Vector<T>::lanes; ++k) any |= found[k] != 0;
  return any;
}

// An element of each of `lanes` lines, which lie side by side or `line` bytes from each other.
template <class T, int lanes, bool dense>
RL_INLINE Lanes<T, lanes> load_lines(const char* p, int64_t line) {
  Lanes<T, lanes> v;
  if constexpr (dense || lanes == 1) {
    __builtin_memcpy(&v, p, sizeof v);
  } else {
#pragma GCC unroll 4
    for (int k = 0; k < lanes; ++k) v[k] = *reinterpret_cast<const T*>(p + k * line);
  }
  return v;
}
template <class T, int lanes, bool dense>
RL_INLINE void store_lines(char* p, int64_t line, Lanes<T, lanes> v) {
  if constexpr (dense || lanes == 1) {
    __builtin_memcpy(p, &v, sizeof v);
  } else {
#pragma GCC unroll 4
    for (int k = 0; k < lanes; ++k) *reinterpret_cast<T*>(p + k * line) = v[k];
  }
}

// Of `lanes` lines from `line` on, which have met these extremes, there. In vectors, as from
// numbers compilers make branches that no processor foresees.
template <class Op, int lanes, bool dense, class T>
void extremes_of_lines(const ExtremeTile& t, int64_t line, T* best, int64_t* place) {
  using Places = Lanes<int64_t, lanes>;
  const TileOperand from = t.x, to = t.values, at = t.places;
  const char* x = from.data + line * from.line;
  char *values = to.data + line * to.line, *places = at.data + line * at.line;
  Lanes<T, lanes> extreme;
  Places where;
  __builtin_memcpy(&extreme, best, sizeof extreme);
  __builtin_memcpy(&where, place, sizeof where);
  for (int64_t i = t.begin, end = t.begin + t.n; i < end; ++i) {
    auto v = load_lines<T, lanes, dense>(x, from.line);
    auto taken = take<Op, T>(v, extreme);
    if constexpr (lanes == 1) where = taken ? i : where;
    else where = __builtin_convertvector(taken, Places) ? i - Places{} : where;
    store_lines<T, lanes, dense>(values, to.line, extreme);
    store_lines<int64_t, lanes, dense>(places, at.line, where);
    x += from.step;
    values += to.step;
    places += at.step;
  }
  __builtin_memcpy(best, &extreme, sizeof extreme);
  __builtin_memcpy(place, &where, sizeof where);
}

// Lines from `first` on: as many vectors of `lanes` as there are, then narrower ones.
template <class Op, int lanes, bool dense, class T>
void extremes_across(const ExtremeTile& t, int64_t first, T* best, int64_t* place) {
  int64_t j = first;
  for (; j + lanes <= t.lines; j += lanes)
    extremes_of_lines<Op, lanes, dense>(t, j, best + j, place + j);
  if constexpr (lanes > 1) extremes_across<Op, dense ? lanes / 2 : 1, dense>(t, j, best, place);
}

template <class Op, class T>
void extremes_along(const ExtremeTile& t, int64_t line, T* best, int64_t* place) {
  const T* x = reinterpret_cast<const T*>(t.x.data + line * t.x.line);
  if constexpr (std::is_floating_point_v<T>)
    if (*best != *best || has_nan(x, t.n))
      return extremes_of_lines<Op, 1, true>(t, line, best, place);
  extremes_of_numbers<Op>(x, reinterpret_cast<T*>(t.values.data + line * t.values.line),
                          reinterpret_cast<int64_t*>(t.places.data + line * t.places.line), t.n,
                          t.begin, best, place);
}

// Some elements of some lines.
ExtremeTile part_of(ExtremeTile t, int64_t line, int64_t lines, int64_t begin, int64_t n) {
  for (TileOperand* operand : {&t.x, &t.values, &t.places})
    operand->data += line * operand->line + begin * operand->step;
  t.lines = lines;
  t.begin += begin;
  t.n = n;
  return t;
}

constexpr int place_lanes = Vector<int64_t>::lanes,
              gathered_lanes = place_lanes < 4 ? place_lanes : 4;

// Lines whose elements lie side by side, in squares that are turned in registers: a third of the
// time of gathered elements.
template <class Op, class T>
void extremes_of_squares(const ExtremeTile& t, T* best, int64_t* place) {
  constexpr int64_t side = square_side<T>, row = side * sizeof(T), place_row = side * 8;
  T x[side * side];
  int64_t places[side * side];
  char *turned = reinterpret_cast<char*>(x), *turned_places = reinterpret_cast<char*>(places);
  const TileOperand numbers{turned, row, sizeof(T), 0};
  ExtremeTile square{numbers, numbers, {turned_places, place_row, 8, 0}, 0, side, side, 1, nullptr};
  int64_t i = 0;
  for (; i + side <= t.n; i += side) {
    transpose_square<T>(t.x.data + i * t.x.step, t.x.line, turned, row);
    square.begin = t.begin + i;
    extremes_across<Op, place_lanes, true>(square, 0, best, place);
    transpose_square<T>(turned, row, t.values.data + i * t.values.step, t.values.line);
    for (int64_t r = 0; r < side; r += place_lanes)
      for (int64_t c = 0; c < side; c += place_lanes)
        transpose_square<int64_t>(turned_places + r * place_row + c * 8, place_row,
                                  t.places.data + c * t.places.line + (i + r) * 8, t.places.line);
  }
  if (i < t.n)
    extremes_across<Op, gathered_lanes, false>(part_of(t, 0, side, i, t.n - i), 0, best, place);
}

template <class Op, class T>
void extremes_of_strip(bool across, bool along, const ExtremeTile& t, T* best, int64_t* place) {
  constexpr int64_t side = square_side<T>;
  if (across && (t.lines > 1 || !along))
    return extremes_across<Op, place_lanes, true>(t, 0, best, place);
  int64_t j = 0;
  if constexpr (std::is_integral_v<T>)  // whose extremes by vectors along a line take longer
    for (; along && t.n >= side && j + side <= t.lines; j += side)
      extremes_of_squares<Op>(part_of(t, j, side, 0, t.n), best + j, place + j);
  for (; along && t.n > longest_short_line && j < t.lines; ++j)
    extremes_along<Op>(t, j, best + j, place + j);
  extremes_across<Op, gathered_lanes, false>(t, j, best, place);
}

template <class Op, class T>
void extremes_of_block(bool across, bool along, const ExtremeTile& t) {
  constexpr int64_t strip = 512;
  T bests[strip];
  int64_t met[strip];
  for (int64_t j = 0; j < t.lines; j += strip) {
    const ExtremeTile part = part_of(t, j, t.lines - j < strip ? t.lines - j : strip, 0, t.n);
    int64_t* place = t.carry ? static_cast<int64_t*>(t.carry) + j : met;
    T* best = t.carry ? reinterpret_cast<T*>(static_cast<int64_t*>(t.carry) + t.lines) + j : bests;
    for (int64_t k = 0; k < part.lines && t.begin == 0; ++k) {
      best[k] = Op::template identity<T>();
      place[k] = 0;
    }
    extremes_of_strip<Op>(across, along, part, best, place);
  }
}

template <class Op, class T> void extremes_of_tile(ExtremeTile t) {
  auto dense = [&](int64_t TileOperand::* step) {
    return t.x.*step == sizeof(T) && t.values.*step == sizeof(T) && t.places.*step == 8;
  };
  const bool across = dense(&TileOperand::line), along = dense(&TileOperand::step);
  for (int64_t b = 0; b < t.blocks; ++b) {
    extremes_of_block<Op, T>(across, along, t);
    for (TileOperand* operand : {&t.x, &t.values, &t.places}) operand->data += operand->block;
  }
}

template <class Op> void extremes_typed(DType element, const ExtremeTile& tile) {
  if (element == DType::Float32) return extremes_of_tile<Op, float>(tile);
  if (element == DType::Float64) return extremes_of_tile<Op, double>(tile);
  extremes_of_tile<Op, int64_t>(tile);
}

}  // namespace

void extreme_tile(bool largest, DType element, const ExtremeTile& tile) {
  if (largest) extremes_typed<LastMax>(element, tile);
  else extremes_typed<LastMin>(element, tile);
}

}  // namespace rl::kernels::RL_ISA
