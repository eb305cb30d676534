// The processor's matrix unit (AMX), which multiplies tiles of 16 x 32 bfloat16 by such of 32 x 16,
// and adds them up in float, or twice as many bytes in int32; for *.isa.cpp files. Only where
// kernels::has_matrix_unit().
//
// A bfloat16 has 8 of the 24 bits of a float. What is more exact is the sum of several, its parts:
// a half of two, a float of three. The product of two floats is then that of each part with each,
// less what lies beyond a float's last bit: six products, each exact, for one.
#pragma once
#include "kernels/cpu/reduced_floats.h"
#include "kernels/cpu/tile_registers.h"
#include "kernels/cpu/transpose_square.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int64_t tile_side = 16;  // lines of a tile, and columns of its sums
constexpr int64_t tile_bytes = 1024;
constexpr int64_t tile_terms = 32;  // what it holds of each line
template <class E> constexpr int64_t terms_of = sizeof(E) == 1 ? 2 * tile_terms : tile_terms;
constexpr int64_t unit_side = 2 * tile_side;  // of the square of sums that the unit holds

template <class E> constexpr int parts_of = 1;
template <> constexpr int parts_of<half> = 2;
template <> constexpr int parts_of<float> = 3;
// A float of which the first part is enough.
struct FloatInOne {
  float value;
};

// A matrix whose lines are rows of the left side of a product, or columns of the right one, and
// whose terms are what is added up.
template <class E> struct Lines {
  const E* data;
  int64_t line, term;
  Lines from(int64_t i, int64_t k) const { return {data + i * line + k * term, line, term}; }
};

// Tiles of one side: those of a step of 32 terms stand `tile` bytes apart, their rows `row`, parts
// `part`, and the next step `step` further.
struct UnitSide {
  const char* data;
  int64_t row, tile, part, step;
};

// Sums (rows, 32) of an earlier product, as they go to their place, in rows of floats or bfloat16;
// beside what is added, if there is anything.
struct UnitSums {
  const float* sums = nullptr;
  void* to = nullptr;
  int64_t row = 0, rows = 0;  // of `to`, in elements
  bool rounded = false;
  const float* added = nullptr;
  int64_t added_row = 0;

  // What is read again and again are copies, since stores might change the fields.
  template <bool rounds, bool adds> RL_INLINE void put_rows(int64_t first, int64_t last) const {
    using To = std::conditional_t<rounds, bfloat16, float>;
    const int64_t to_row = row, plus_row = added_row;
    const float *from = sums + first * unit_side, *plus = adds ? added + first * plus_row : nullptr;
    To* at = static_cast<To*>(to) + first * to_row;
    for (int64_t i = first; i < last; ++i, from += unit_side, at += to_row) {
#pragma GCC unroll 2
      for (int64_t j = 0; j < unit_side; j += tile_side) {
        vec<float> sum = load(from + j);
        if constexpr (adds) sum += load(plus + j);
        if constexpr (!rounds) store(at + j, sum);
        else if constexpr (adds) store_narrow(at + j, sum);
        // What the unit adds up is 0 or a normal number.
        else store(reinterpret_cast<uint16_t*>(at + j), narrowed_to_bfloat16(sum));
      }
      if constexpr (adds) plus += plus_row;
    }
  }
  RL_INLINE void put(int64_t first, int64_t last) const {
    if (added) rounded ? put_rows<true, true>(first, last) : put_rows<false, true>(first, last);
    else rounded ? put_rows<true, false>(first, last) : put_rows<false, false>(first, last);
  }
};

// What happens meanwhile, at each step some of it: what the next product reads is brought near, and
// so are the rows that the sums will be written to; and those of an earlier product are written.
struct UnitMeanwhile {
  const char* next = nullptr;
  int64_t next_bytes = 0;
  const char* target = nullptr;
  int64_t target_row = 0, target_bytes = 0, rows = 0;  // so many at a step
  const UnitSums* earlier = nullptr;

  RL_INLINE void at_step(int64_t step) const {
    const char* from = next + step * next_bytes;
    for (int64_t at = 0; at < next_bytes; at += 64) __builtin_prefetch(from + at, 0, 2);
    if (target_bytes) {
      const char* to = target + step * rows * target_row;
      for (int64_t i = 0; i < rows; ++i, to += target_row) {
        __builtin_prefetch(to, 1, 2);
        if (target_bytes > 64) __builtin_prefetch(to + 64, 1, 2);
      }
    }
    if (!earlier) return;
    int64_t first = step * rows, last = first + rows;
    if (first < earlier->rows) earlier->put(first, last < earlier->rows ? last : earlier->rows);
  }
};

// The tiles of both sides of a product, and how a step of 32 terms is loaded and multiplied.
template <int rows, int columns, UnitOf of> class UnitStep {
 public:
  UnitStep(const UnitSide& left, const UnitSide& right) : left_(left), right_(right) {}

  RL_INLINE void go(const char* left, const char* right) { left_.data = left, right_.data = right; }
  RL_INLINE void advance() { left_.data += left_.step, right_.data += right_.step; }
  RL_INLINE void load_upper(int part) const {
    unit_load<4>(left_.data + part * left_.part, left_.row);
  }
  RL_INLINE void load_lower(int part) const {
    if constexpr (rows == 2) unit_load<5>(left_.data + part * left_.part + left_.tile, left_.row);
  }
  RL_INLINE void load_first(int part) const {
    unit_load<6>(right_.data + part * right_.part, right_.row);
  }
  RL_INLINE void load_second(int part) const {
    if constexpr (columns == 2)
      unit_load<7>(right_.data + part * right_.part + right_.tile, right_.row);
  }
  // The products of a part of either side, one of which is new: of its two tiles the first one is
  // loaded. The others are when the unit has something else to do, and `next` is called then too,
  // for the first one of the part after it.
  template <class F> RL_INLINE void multiply_right(int part, F next) const {
    unit_multiply<of, 0, 4, 6>();
    load_second(part);
    if constexpr (rows == 2) unit_multiply<of, 2, 5, 6>();
    if constexpr (columns == 2) unit_multiply<of, 1, 4, 7>();
    multiply_last(next);
  }
  template <class F> RL_INLINE void multiply_left(int part, F next) const {
    unit_multiply<of, 0, 4, 6>();
    load_lower(part);
    if constexpr (columns == 2) unit_multiply<of, 1, 4, 7>();
    if constexpr (rows == 2) unit_multiply<of, 2, 5, 6>();
    multiply_last(next);
  }

 private:
  template <class F> RL_INLINE void multiply_last(F next) const {
    next();
    if constexpr (rows == 2 && columns == 2) unit_multiply<of, 3, 5, 7>();
  }

  // Copies, which are not read from memory again after each instruction of the unit.
  UnitSide left_, right_;
};

// All products of the parts of a step, whose first tiles are loaded. In the end, `next` is called.
template <int parts, int rows, int columns, UnitOf of, class F>
RL_INLINE void multiply_parts(const UnitStep<rows, columns, of>& step, F next) {
  auto upper = [&](int part) { return [&step, part] { step.load_upper(part); }; };
  auto first = [&](int part) { return [&step, part] { step.load_first(part); }; };
  step.load_lower(0);
  if constexpr (parts == 3) step.multiply_right(2, first(1));
  step.multiply_right(1, upper(1)), step.multiply_left(1, first(0));
  if constexpr (parts == 3) step.multiply_right(0, upper(2)), step.multiply_left(2, upper(0));
  else step.multiply_right(0, upper(0));
  step.multiply_left(0, next);
}

// All steps where there is one part: so few products that the order of the loads makes no
// difference, but what is read from memory besides does.
template <int rows, int columns, UnitOf of>
RL_INLINE void multiply_undivided(const UnitSide& left, const UnitSide& right, int64_t steps,
                                  const UnitMeanwhile& given) {
  const UnitMeanwhile meanwhile = given;  // not read again after each instruction of the unit
  const char *a = left.data, *b = right.data;
  const int64_t left_row = left.row, left_tile = left.tile, left_step = left.step;
  const int64_t right_row = right.row, right_tile = right.tile, right_step = right.step;
  for (int64_t i = 0; i < steps; ++i, a += left_step, b += right_step) {
    meanwhile.at_step(i);
    unit_load<4>(a, left_row);
    if constexpr (rows == 2) unit_load<5>(a + left_tile, left_row);
    unit_load<6>(b, right_row);
    if constexpr (columns == 2) unit_load<7>(b + right_tile, right_row);
    unit_multiply<of, 0, 4, 6>();
    if constexpr (columns == 2) unit_multiply<of, 1, 4, 7>();
    if constexpr (rows == 2) unit_multiply<of, 2, 5, 6>();
    if constexpr (rows == 2 && columns == 2) unit_multiply<of, 3, 5, 7>();
  }
}

// f(tile, where its sums stand) for the unit's tiles of sums, whose rows stand `row` apart.
template <int rows, int columns, class F> RL_INLINE void for_sums(float* sums, int64_t row, F f) {
  const int64_t down = tile_side * row;
  f(std::integral_constant<int, 0>(), sums);
  if constexpr (columns == 2) f(std::integral_constant<int, 1>(), sums + tile_side);
  if constexpr (rows == 2) f(std::integral_constant<int, 2>(), sums + down);
  if constexpr (rows == 2 && columns == 2)
    f(std::integral_constant<int, 3>(), sums + down + tile_side);
}

// sums (32, 32), or 16 of a side that has one tile alone, = or += left @ right, of so many steps.
// Their rows stand `row` apart.
template <int parts, int rows, int columns, UnitOf of = UnitOf::bfloat16>
[[gnu::noinline]] void unit_product(const UnitSide& left, const UnitSide& right, int64_t steps,
                                    bool add, float* sums, const UnitMeanwhile& meanwhile,
                                    int64_t row = unit_side) {
  for_sums<rows, columns>(sums, row, [&](auto tile, float* at) {
    if (add) unit_load<tile>(reinterpret_cast<const char*>(at), row * 4);
    else unit_clear<tile>();
  });
  if constexpr (parts == 1) {
    multiply_undivided<rows, columns, of>(left, right, steps, meanwhile);
  } else {
    UnitStep<rows, columns, of> step(left, right);
    step.load_upper(0), step.load_first(parts - 1);
    for (int64_t i = 0; i < steps; ++i) {
      meanwhile.at_step(i);
      multiply_parts<parts>(step, [&] {
        if (i + 1 < steps) step.advance();  // after the last one, that again
        step.load_upper(0), step.load_first(parts - 1);
      });
    }
  }
  for_sums<rows, columns>(sums, row, [&](auto tile, float* at) { unit_store<tile>(at, row); });
}

// Steps that stand one after the other on both sides.
struct UnitRun {
  int64_t left, right, steps;  // where they begin, in bytes
};

// The same of several runs of floats in three parts, at least one, in one chain of sums: to put
// sums down and take them up again takes as long as a step.
template <int rows, int columns>
[[gnu::noinline]] void unit_product_of_runs(const UnitSide& left, const UnitSide& right,
                                            const UnitRun* runs, int64_t count, float* sums) {
  constexpr int parts = 3;
  for_sums<rows, columns>(sums, unit_side, [&](auto tile, float*) { unit_clear<tile>(); });
  UnitStep<rows, columns, UnitOf::bfloat16> step(left, right);
  step.go(left.data + runs->left, right.data + runs->right);
  step.load_upper(0), step.load_first(parts - 1);
  const UnitRun* end = runs + count;
  for (const UnitRun* run = runs; run != end; ++run)
    for (int64_t i = 0; i < run->steps; ++i)
      multiply_parts<parts>(step, [&] {
        if (i + 1 < run->steps) step.advance();
        else if (run + 1 != end) step.go(left.data + run[1].left, right.data + run[1].right);
        step.load_upper(0), step.load_first(parts - 1);
      });
  for_sums<rows, columns>(sums, unit_side,
                          [&](auto tile, float* at) { unit_store<tile>(at, unit_side); });
}

// The product of so many rows and columns.
template <int parts, UnitOf of = UnitOf::bfloat16>
auto unit_product_for(int64_t rows, int64_t columns) {
  bool few = rows <= tile_side;
  return columns <= tile_side ? few ? unit_product<parts, 1, 1, of> : unit_product<parts, 2, 1, of>
         : few                ? unit_product<parts, 1, 2, of>
                              : unit_product<parts, 2, 2, of>;
}

template <class E> RL_INLINE vec<float> load_as_float(const E* from) {
  if constexpr (sizeof(E) == sizeof(float)) return load(reinterpret_cast<const float*>(from));
  else return load_wide(from);
}

using Words = vec<uint32_t>;  // each a pair of bfloat16 along the terms

// The largest magnitudes in lines of floats, as bits.
using Magnitudes = vec<uint32_t>;

// Whether parts say all of lines with such magnitudes: the unit takes what is below 2^-126 for 0,
// and of infinities there are no parts. A line of zeros does no harm.
inline bool can_be_split(uint32_t largest) {
  constexpr uint32_t least = 0x26800000, most = 0x5d800000;  // 2^-50, 2^60
  return largest == 0 || (largest >= least && largest <= most);
}
inline bool can_be_split(Magnitudes of) {
  bool can = true;
  for (int i = 0; i < Vector<uint32_t>::lanes; ++i) can &= can_be_split(of[i]);
  return can;
}

RL_INLINE Magnitudes larger_bits(Magnitudes a, Magnitudes b) { return a > b ? a : b; }

// The largest of all lanes.
template <int apart, int... lane>
RL_INLINE uint32_t largest_of(Magnitudes of, std::integer_sequence<int, lane...> lanes) {
  if constexpr (apart == 0) return of[0];
  else return largest_of<apart / 2>(larger_bits(of, shuffle<(lane ^ apart)...>(of, of)), lanes);
}
RL_INLINE uint32_t largest_of(Magnitudes of) {
  constexpr int lanes = Vector<uint32_t>::lanes;
  return largest_of<lanes / 2>(of, std::make_integer_sequence<int, lanes>());
}

// The same of one line, of whose terms each lane has seen some.
inline bool line_can_be_split(Magnitudes of) { return can_be_split(largest_of(of)); }

RL_INLINE Magnitudes magnitude_bits(vec<float> x) { return (Magnitudes)x & 0x7fffffffu; }

// The bfloat16 nearest to x, in the upper half of each word; x becomes what is left.
RL_INLINE Words next_part(vec<float>& x) {
  Words nearest = ((Words)x + 0x8000u) & 0xffff0000u;
  x -= (vec<float>)nearest;
  return nearest;
}

// Exchanges, between rows `apart` from each other, the elements whose column differs in that bit.
template <int apart, class V, int... column>
void exchange(V* rows, std::integer_sequence<int, column...>) {
  constexpr int n = sizeof...(column);
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) {
    if (r & apart) continue;
    V a = rows[r], b = rows[r + apart];
    rows[r] = shuffle<(column & apart ? n + column - apart : column)...>(a, b);
    rows[r + apart] = shuffle<(column & apart ? n + column : column + apart)...>(a, b);
  }
}

// Sixteen vectors, as the rows of a square become its columns.
template <class V> RL_INLINE void transpose_registers(V* rows) {
  constexpr auto columns = std::make_integer_sequence<int, Vector<float>::lanes>();
  if constexpr (Vector<float>::lanes == tile_side) {
    exchange<1>(rows, columns);
    exchange<2>(rows, columns);
    exchange<4>(rows, columns);
    exchange<8>(rows, columns);
  }
}

inline Words load_words(const bfloat16* from) {
  return __builtin_convertvector(load_bits(from), Words);
}

// The tiles of 16 lines and 32 terms, one for each part, which stand `part` bytes apart. The left
// side has a row for each line, the right one for each pair of terms. Into `high` go magnitudes:
// line by line of the left side, and of all lines of the right one.
template <bool right>
void pack_tile(const Lines<bfloat16>& from, char* to, int64_t, Magnitudes*) {
  Words words[tile_side];
  if (from.term == 1) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < tile_side; ++i)
      std::memcpy(&words[i], from.data + i * from.line, sizeof(Words));
  } else {
#pragma GCC unroll 16
    for (int64_t i = 0; i < tile_side; ++i) {
      const bfloat16 *even = from.data + 2 * i * from.term, *odd = even + from.term;
      words[i] = load_words(even) | load_words(odd) << 16;
    }
  }
  if ((from.term == 1) == right) transpose_registers(words);
#pragma GCC unroll 16
  for (int64_t i = 0; i < tile_side; ++i) std::memcpy(to + i * 64, &words[i], sizeof(Words));
}

using Bytes = vec<uint8_t, tile_side>;

// The elements of two vectors by turns, of their lower halves or of their upper ones.
template <bool upper, class V, int... i>
RL_INLINE V by_turns(V a, V b, std::integer_sequence<int, i...>) {
  constexpr int n = sizeof...(i);
  return shuffle<(i % 2 * n + i / 2 + upper * n / 2)...>(a, b);
}
template <bool upper, class V> RL_INLINE V by_turns(V a, V b) {
  constexpr int lanes = sizeof(V) / sizeof(a[0]);
  return by_turns<upper>(a, b, std::make_integer_sequence<int, lanes>());
}

// Of bytes, words are groups of four along the terms: those of four rows of 16 bytes.
inline void store_groups(const uint8_t* from, int64_t row, void* to) {
  using Pairs = vec<uint16_t, tile_side>;
  Bytes rows[4];
  for (int64_t k = 0; k < 4; ++k) std::memcpy(&rows[k], from + k * row, sizeof(Bytes));
  Pairs first[2] = {(Pairs)by_turns<false>(rows[0], rows[1]),
                    (Pairs)by_turns<true>(rows[0], rows[1])};
  Pairs second[2] = {(Pairs)by_turns<false>(rows[2], rows[3]),
                     (Pairs)by_turns<true>(rows[2], rows[3])};
  Pairs groups[4] = {by_turns<false>(first[0], second[0]), by_turns<true>(first[0], second[0]),
                     by_turns<false>(first[1], second[1]), by_turns<true>(first[1], second[1])};
  std::memcpy(to, groups, sizeof groups);
}

template <bool right> void pack_tile(const Lines<uint8_t>& from, char* to, int64_t, Magnitudes*) {
  Words words[tile_side];
  for (int64_t i = 0; i < tile_side; ++i)
    if (from.term == 1) std::memcpy(&words[i], from.data + i * from.line, sizeof(Words));
    else store_groups(from.data + 4 * i * from.term, from.term, &words[i]);
  if ((from.term == 1) == right) transpose_registers(words);
  std::memcpy(to, words, sizeof words);
}

// Terms k and 16 + k of some lines make words, one for each part.
template <class E>
RL_INLINE void put_parts(vec<float> a, vec<float> b, char* to, int64_t part, Magnitudes& seen) {
  if constexpr (parts_of<E> == 1) {
    Words words = __builtin_convertvector(narrowed_to_bfloat16(a), Words) |
                  __builtin_convertvector(narrowed_to_bfloat16(b), Words) << 16;
    std::memcpy(to, &words, sizeof words);
    return;
  }
  seen = larger_bits(seen, larger_bits(magnitude_bits(a), magnitude_bits(b)));
#pragma GCC unroll 3
  for (int p = 0; p < parts_of<E>; ++p) {
    Words words = next_part(a) >> 16 | next_part(b);
    std::memcpy(to + p * part, &words, sizeof words);
  }
}

template <bool right, class E>
void pack_tile(const Lines<E>& from, char* to, int64_t part, Magnitudes* high) {
  const bool by_line = from.term == 1;
  const int64_t step = by_line ? from.line : from.term;
  const E* second = from.data + tile_side * from.term;
  Magnitudes of_all{};
  if (by_line != right) {  // vectors in memory are those of the tile
#pragma GCC unroll 4
    for (int64_t i = 0; i < tile_side; ++i) {
      put_parts<E>(load_as_float(from.data + i * step), load_as_float(second + i * step),
                   to + i * 64, part, right ? of_all : high[i]);
    }
  } else {
    vec<float> a[tile_side], b[tile_side];
#pragma GCC unroll 16
    for (int64_t i = 0; i < tile_side; ++i) a[i] = load_as_float(from.data + i * step);
    transpose_registers(a);
#pragma GCC unroll 16
    for (int64_t i = 0; i < tile_side; ++i) b[i] = load_as_float(second + i * step);
    transpose_registers(b);
#pragma GCC unroll 4
    for (int64_t i = 0; i < tile_side; ++i)
      put_parts<E>(a[i], b[i], to + i * 64, part, right ? of_all : high[i]);
  }
  if constexpr (right && parts_of<E> > 1) *high = larger_bits(*high, of_all);
}

// The same of up to so many lines and terms, with zeros for the others.
template <bool right, class E>
void pack_tile_of(const Lines<E>& from, int64_t lines, int64_t terms, char* to, int64_t part,
                  Magnitudes* high) {
  constexpr int64_t most = terms_of<E>;
  bool whole = lines >= tile_side && terms >= most;
  if (whole && (from.term == 1 || from.line == 1)) return pack_tile<right>(from, to, part, high);
  alignas(64) E near[tile_side * most] = {};
  lines = lines < tile_side ? lines : tile_side, terms = terms < most ? terms : most;
  for (int64_t i = 0; i < lines; ++i)
    for (int64_t k = 0; k < terms; ++k)
      near[i * most + k] = from.data[i * from.line + k * from.term];
  pack_tile<right>(Lines<E>{near, most, 1}, to, part, high);
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
