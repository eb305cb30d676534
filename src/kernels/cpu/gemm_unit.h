// Products of floats and of 16-bit floats on the processor's matrix unit; for *.isa.cpp files.
#pragma once
#include <optional>

#include "kernels/cpu/gemm_put.h"
#include "kernels/cpu/tile_unit.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels::RL_ISA {
namespace {

// How by_unit goes about products of one size: blocks of both sides, packed into panels of 32
// lines. A block of the left side stays in the second cache while panels of the right one pass it.
struct UnitPlan {
  static constexpr int64_t most_panels = 8;
  int64_t parts, step_terms;
  int64_t depth, rows, columns;  // of a block
  int64_t chunk;                 // terms of a panel of the right side that stay in the first cache

  UnitPlan(int64_t step_terms, const UnitBlocks& blocks)
      : parts(blocks.parts),
        step_terms(step_terms),
        depth(blocks.depth),
        rows(blocks.rows),
        columns(blocks.columns) {
    chunk = chunk_steps() * step_terms;
  }
  static int64_t whole(int64_t lines) { return (lines + unit_side - 1) / unit_side * unit_side; }
  int64_t steps(int64_t terms) const { return (terms + step_terms - 1) / step_terms; }
  int64_t step_bytes() const { return 2 * parts * tile_bytes; }
  int64_t panel_bytes(int64_t terms) const { return steps(terms) * step_bytes(); }
  // As measured: sums are taken up again where that lets the right side stay in the first cache,
  // but not so often that it takes longer than reading from the second.
  int64_t chunk_steps() const {
    int64_t all = steps(depth);
    if (parts == 1) return all <= 12 ? all : 8;
    return parts == 3 && all > 5 && all <= 12 ? 4 : all;
  }
  // Where magnitudes stand, of `units` of pack_rows terms of a panel, behind the panels of a block.
  static int64_t units(int64_t terms) { return (terms + pack_rows - 1) / pack_rows; }
  static constexpr int64_t unit_bytes = 2 * sizeof(Magnitudes);
  int64_t block_bytes(int64_t lines, int64_t terms) const {
    int64_t magnitudes = parts == 1 ? 0 : units(terms) * unit_bytes;
    return whole(lines) / unit_side * (panel_bytes(terms) + magnitudes);
  }
};

// One of the blocks.
struct UnitBlock {
  char* data;
  int64_t lines, terms;

  char* panel(const UnitPlan& plan, int64_t at) const {
    return data + at * plan.panel_bytes(terms);
  }
  Magnitudes* magnitudes(const UnitPlan& plan, int64_t at) const {
    char* behind = panel(plan, UnitPlan::whole(lines) / unit_side);
    return reinterpret_cast<Magnitudes*>(behind +
                                         at * UnitPlan::units(terms) * UnitPlan::unit_bytes);
  }
};

// f(line, term) for each step of the terms [first, last) of each panel, as the lines lie in memory:
// one after the other, or side by side: then some panels at a time.
template <class E, class F>
void for_steps(const Lines<E>& from, int64_t lines, int64_t first, int64_t last, F f) {
  if (from.line == 1)
    for (int64_t i0 = 0; i0 < lines; i0 += 8 * unit_side)
      for (int64_t k = first; k < last; k += terms_of<E>)
        for (int64_t i = i0; i < std::min(lines, i0 + 8 * unit_side); i += unit_side) f(i, k);
  else
    for (int64_t i = 0; i < lines; i += unit_side)
      for (int64_t k = first; k < last; k += terms_of<E>) f(i, k);
}

// Terms [first, last) of a block of the right side; its first element is from.data[0].
template <class E> void pack_right_side(const UnitPlan& plan, const Lines<E>& from, int64_t first,
                                        int64_t last, const UnitBlock& to) {
  for_steps(from, to.lines, first, last, [&](int64_t j, int64_t k) {
    int64_t panel = j / unit_side;
    char* tiles = to.panel(plan, panel) + k / terms_of<E> * plan.step_bytes();
    Magnitudes* high = to.magnitudes(plan, panel) + k / pack_rows * 2;
    for (int64_t t = 0; t < 2; ++t) {
      if (parts_of<E> > 1 && k % pack_rows == 0) high[t] = Magnitudes{};
      pack_tile_of<true>(from.from(j + t * tile_side, k), to.lines - j - t * tile_side, last - k,
                         tiles + t * tile_bytes, 2 * tile_bytes, high + t);
    }
  });
}

// Whether both sides of each panel can be split.
inline bool right_can_be_split(const UnitPlan& plan, const UnitBlock& block, int64_t panel) {
  if (plan.parts == 1) return true;
  const Magnitudes* high = block.magnitudes(plan, panel);
  Magnitudes first{}, second{};
  for (int64_t u = 0; u < UnitPlan::units(block.terms); ++u) {
    first = larger_bits(first, high[2 * u]);
    second = larger_bits(second, high[2 * u + 1]);
  }
  return can_be_split(first) && can_be_split(second);
}

// A panel of the left side: where its tiles are, and whether it can be split.
struct LeftPanel {
  UnitSide side;
  bool can_be_split;
};

// The panels of some lines, one behind the other.
template <class E> void pack_left_side(const UnitPlan& plan, const Lines<E>& from, int64_t lines,
                                       int64_t terms, char* to, LeftPanel* panels) {
  Magnitudes high[UnitPlan::most_panels * unit_side] = {};
  int64_t bytes = plan.panel_bytes(terms);
  for_steps(from, lines, 0, terms, [&](int64_t i, int64_t k) {
    char* tiles = to + i / unit_side * bytes + k / terms_of<E> * plan.step_bytes();
    for (int64_t t = 0; t < 2 && i + t * tile_side < lines; ++t)
      pack_tile_of<false>(from.from(i + t * tile_side, k), lines - i - t * tile_side, terms - k,
                          tiles + t * tile_bytes, 2 * tile_bytes, high + i + t * tile_side);
  });
  for (int64_t i = 0; i < lines; i += unit_side, to += bytes) {
    bool can = true;
    for (int64_t x = i; parts_of<E> > 1 && x < i + unit_side; ++x)
      can &= line_can_be_split(high[x]);
    panels[i / unit_side] = {{to, 64, tile_bytes, 2 * tile_bytes, plan.step_bytes()}, can};
  }
}

// Of few columns, whole tiles of bfloat16 or bytes are read where they lie.
template <class E> bool is_read_in_place(const Lines<E>& left, int64_t lines, int64_t terms,
                                         int64_t columns) {
  return (std::is_same_v<E, bfloat16> || sizeof(E) == 1) && left.term == 1 && lines >= unit_side &&
         terms % terms_of<E> == 0 && columns <= 4 * unit_side;
}

// In gemm_tiles.isa.cpp.
template <class T> void by_tiles(Problem<T>& p);

// What of a target is the same for all squares of sums. Its fields are read one by one for each: a
// copy of the target would wait for the stores of the tiles before it.
template <class E, class S> struct UnitTarget {
  bool plain;  // sums need little: to be stored or rounded to bfloat16, beside what is added
  bool holds;  // they are the result, and may be added up where it goes
  bool rounded;
  char* data;
  int64_t row, column;  // in bytes
  const float* added;
  int64_t added_row;

  explicit UnitTarget(const Target<S>& to)
      : plain(is_plain(to)),
        holds(plain && to.beta == 0 && !to.rounded.data),
        rounded(to.rounded.data),
        data(rounded ? reinterpret_cast<char*>(to.rounded.data) : reinterpret_cast<char*>(to.c)),
        row(rounded ? 2 * to.rounded.row : int64_t{sizeof(S)} * to.row),
        column(rounded ? 2 * to.rounded.col : int64_t{sizeof(S)} * to.col),
        added(to.beta != 0 ? reinterpret_cast<const float*>(to.added) : nullptr),
        added_row(to.added_row) {}

  char* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
  bool lies_in_rows() const { return column == (rounded ? 2 : int64_t{sizeof(S)}); }
  void set(UnitSums& made, int64_t i, int64_t j, const float* sums, int64_t rows) const {
    made.sums = sums;
    made.to = at(i, j);
    made.row = row / (rounded ? 2 : int64_t{sizeof(S)});
    made.rows = rows;
    made.rounded = rounded;
    made.added = added ? added + i * added_row + j : nullptr;
    made.added_row = added_row;
  }

 private:
  static bool is_plain(const Target<S>& to) {
    bool adds = std::is_same_v<S, float> && to.beta == 1 && to.added_col == 1;
    if (to.finish || to.alpha != 1 || (to.beta != 0 && !adds)) return false;
    if (!to.rounded.data) return to.col == 1;
    return std::is_same_v<E, bfloat16> && to.rounded.dtype == DType::BFloat16 &&
           to.rounded.col == 1;
  }
};

// Of elements of E, added up in elements of S.
template <class E, class S> class UnitProduct {
 public:
  UnitProduct(const Problem<S>& p, const UnitPlan& plan, UnitOf kind)
      : p_(p), plan_(plan), kind_(kind) {}

  void run(const Lines<E>& left, const Lines<E>& right, const Target<S>& target, char* scratch) {
    if (!p_.packed && p_.m <= plan_.rows) return run_few_rows(left, right, target, scratch);
    for (int64_t j = 0; j < p_.n; j += plan_.columns)
      for (int64_t k = 0; k < p_.k; k += plan_.depth) {
        UnitBlock block = read_right_side(right, j, std::min(plan_.columns, p_.n - j), k, scratch);
        for (int64_t i = 0; i < p_.m; i += plan_.rows) {
          Rows rows = read_left_side(left.from(i, k), std::min(plan_.rows, p_.m - i), block.terms,
                                     scratch + right_bytes());
          multiply(rows, block, j, target.at(i, j).part(k == 0, k + block.terms == p_.k));
          rows.waiting.put(0, rows.waiting.rows);
        }
      }
  }

  int64_t right_bytes() const {
    if (p_.packed) return 0;
    int64_t most = p_.m <= plan_.rows ? few_columns() : plan_.columns;
    return plan_.block_bytes(std::min(most, p_.n), plan_.depth);
  }
  int64_t left_bytes() const {
    int64_t lines = UnitPlan::whole(std::min(plan_.rows, p_.m));
    return lines / unit_side * (plan_.panel_bytes(plan_.depth) + sums_bytes);
  }

 private:
  static constexpr int64_t sums_bytes = unit_side * unit_side * sizeof(float);

  static constexpr int64_t square_size = unit_side * unit_side;

  // Some rows of the left side, where they lie or packed, and room for their sums.
  struct Rows {
    Lines<E> lines;
    int64_t count, panels;
    LeftPanel side[UnitPlan::most_panels];
    float* sums;
    UnitSums waiting = {};  // that the next product writes
  };
  // A panel of the right side.
  struct Columns {
    const UnitBlock& block;
    int64_t at, first, count;
    bool can_be_split;
  };

  // Rows that are one block: they are packed once, and the right side panels at a time, which are
  // used while they are in the second cache.
  void run_few_rows(const Lines<E>& left, const Lines<E>& right, const Target<S>& target,
                    char* scratch) {
    const int64_t columns = few_columns();
    for (int64_t k = 0; k < p_.k; k += plan_.depth) {
      int64_t terms = std::min(plan_.depth, p_.k - k);
      Rows rows = read_left_side(left.from(0, k), p_.m, terms, scratch + right_bytes());
      for (int64_t j = 0; j < p_.n; j += columns) {
        UnitBlock block = read_right_side(right, j, std::min(columns, p_.n - j), k, scratch);
        multiply(rows, block, j, target.at(0, j).part(k == 0, k + terms == p_.k));
      }
      rows.waiting.put(0, rows.waiting.rows);
    }
  }
  int64_t few_columns() const {
    constexpr int64_t bytes = int64_t(1) << 19;
    return std::max<int64_t>(2, bytes / plan_.panel_bytes(plan_.depth)) * unit_side;
  }

  UnitBlock read_right_side(const Lines<E>& right, int64_t column, int64_t columns, int64_t term,
                            char* scratch) {
    UnitBlock block{scratch, columns, std::min(plan_.depth, p_.k - term)};
    right_ = right.from(column, term);
    if (p_.packed) block.data = const_cast<char*>(reinterpret_cast<const char*>(p_.packed));
    else pack_right_side(plan_, right_, 0, block.terms, block);
    return block;
  }

  Rows read_left_side(const Lines<E>& left, int64_t count, int64_t terms, char* scratch) const {
    Rows rows{left, count, (count + unit_side - 1) / unit_side, {}, nullptr};
    rows.sums = reinterpret_cast<float*>(scratch + rows.panels * plan_.panel_bytes(terms));
    int64_t there = 0;
    for (; is_read_in_place(left, count - there * unit_side, terms, p_.n); ++there) {
      const Lines<E> lines = left.from(there * unit_side, 0);
      constexpr int64_t size = sizeof(E);
      rows.side[there].side = {reinterpret_cast<const char*>(lines.data), size * lines.line,
                               size * tile_side * lines.line, 0, 64};
      rows.side[there].can_be_split = true;
    }
    pack_left_side(plan_, left.from(there * unit_side, 0), count - there * unit_side, terms,
                   scratch, rows.side + there);
    return rows;
  }

  // Rows by the columns of a block that are asked for, which begin at `first`.
  void multiply(Rows& rows, const UnitBlock& block, int64_t first, const Target<S>& to) {
    const UnitTarget<E, S> squares(to);
    for (int64_t j = 0, at = 0; j < block.lines; j += unit_side, ++at) {
      if (first + j < p_.first || first + j >= p_.last) continue;
      Columns columns{block, at, j, std::min(unit_side, block.lines - j),
                      right_can_be_split(plan_, block, at)};
      for (int64_t k = 0; k < block.terms; k += plan_.chunk)
        multiply_chunk(rows, columns, k, to, squares);
    }
  }

  // All rows by a panel of the right side, of whose terms those from k on.
  void multiply_chunk(Rows& rows, const Columns& columns, int64_t k, const Target<S>& to,
                      const UnitTarget<E, S>& squares) {
    int64_t terms = columns.block.terms, step = k / terms_of<E>;
    int64_t steps = plan_.steps(std::min(plan_.chunk, terms - k));
    UnitSide right{columns.block.panel(plan_, columns.at) + step * plan_.step_bytes(), 64,
                   tile_bytes, 2 * tile_bytes, plan_.step_bytes()};
    // What is read next, and where the sums go, is far away.
    UnitMeanwhile meanwhile{right.data + steps * plan_.step_bytes(),
                            plan_.step_bytes() / rows.panels / 64 * 64};
    meanwhile.rows = (unit_side + steps - 1) / steps;
    bool ends = k + plan_.chunk >= terms;
    for (int64_t i = 0; i < rows.panels; ++i, meanwhile.next += steps * meanwhile.next_bytes) {
      UnitSide left = rows.side[i].side;
      left.data += step * left.step;
      float* square = rows.sums + i * square_size;
      int64_t lines = std::min(unit_side, rows.count - i * unit_side);
      const bool can_be_split = columns.can_be_split && rows.side[i].can_be_split;
      const bool whole = columns.count == unit_side;
      // Reading and writing it for each of several short chunks would take longer than a copy.
      const bool in_place = can_be_split && lines == unit_side && whole && squares.holds &&
                            (plan_.parts > 1 || plan_.chunk >= terms);
      if ((in_place ? k == 0 : ends) && squares.lies_in_rows()) {
        meanwhile.target = squares.at(i * unit_side, columns.first);
        meanwhile.target_row = squares.row;
        meanwhile.target_bytes = unit_side * squares.column;
      }
      meanwhile.earlier = &rows.waiting;
      float* sums = square;
      if (in_place) sums = reinterpret_cast<float*>(squares.at(i * unit_side, columns.first));
      multiply_sides(left, right, lines, columns.count, steps, k > 0, sums, meanwhile,
                     in_place ? squares.row / int64_t{sizeof(float)} : unit_side);
      rows.waiting.rows = 0;
      if (in_place || !ends) continue;
      if constexpr (parts_of<E> > 1)
        if (!can_be_split)
          multiply_unsplit(rows.lines.from(i * unit_side, 0), lines, right_.from(columns.first, 0),
                           columns.count, terms, square);
      if (whole && squares.plain)
        squares.set(rows.waiting, i * unit_side, columns.first, square, lines);
      else put(square, lines, columns.count, to.at(i * unit_side, columns.first));
    }
  }

  void multiply_sides(const UnitSide& left, const UnitSide& right, int64_t rows, int64_t columns,
                      int64_t steps, bool add, float* sums, const UnitMeanwhile& meanwhile,
                      int64_t row) const {
    auto of_kind = [&](auto kind) {
      unit_product_for<parts_of<E>, decltype(kind)::value>(rows, columns)(left, right, steps, add,
                                                                          sums, meanwhile, row);
    };
    if constexpr (sizeof(E) == 1) for_bytes(kind_, of_kind);
    else of_kind(std::integral_constant<UnitOf, UnitOf::bfloat16>());
  }

  [[gnu::noinline]] static float value_of(E x) { return static_cast<float>(x); }
  // Where a line has numbers of which parts do not say all.
  [[gnu::noinline]] void multiply_unsplit(const Lines<E>& left, int64_t rows, const Lines<E>& right,
                                          int64_t columns, int64_t terms, float* sums) const {
    Buffer<float> a(rows * terms), b(columns * terms);
    auto widen = [terms](const Lines<E>& from, int64_t lines, float* to) {
      for (int64_t i = 0; i < lines; ++i)
        for (int64_t k = 0; k < terms; ++k)
          to[i * terms + k] = value_of(from.data[i * from.line + k * from.term]);
    };
    widen(left, rows, a.data());
    widen(right, columns, b.data());
    Problem<float> q = p_;
    q.m = rows, q.n = columns, q.k = terms, q.deepest = deepest_block(rows, columns);
    q.a = a.data(), q.a_row = terms, q.a_col = 1;
    q.b = b.data(), q.b_row = 1, q.b_col = terms;
    q.target = {sums, unit_side, 1, sums, unit_side, 1, 1, 0};
    q.count = 1, q.packed = nullptr, q.first = 0, q.last = max_numel;
    by_tiles(q);
  }

  static void put(float* sums, int64_t rows, int64_t columns, const Target<S>& to) {
    bool in_columns = to.rounded.data ? to.rounded.row < to.rounded.col : to.row < to.col;
    if (!in_columns) return put_rows(sums, rows, columns, to);
    alignas(64) float turned[unit_side * unit_side];
    constexpr int64_t bytes = sizeof(float), side = square_side<float>;
    for (int64_t i = 0; i < rows; i += side)
      for (int64_t j = 0; j < columns; j += side)
        transpose_square<float>(
            reinterpret_cast<const char*>(sums + i * unit_side + j), unit_side * bytes,
            reinterpret_cast<char*>(turned + j * unit_side + i), unit_side * bytes);
    put_rows(turned, columns, rows, to.transposed());
  }
  static void put_rows(float* sums, int64_t rows, int64_t columns, const Target<S>& to) {
    const UnitTarget<E, S> square(to);
    UnitSums plain;
    if (columns == unit_side && square.plain)
      square.set(plain, 0, 0, sums, rows), plain.put(0, rows);
    else put_tile(reinterpret_cast<S*>(sums), rows, unit_side, columns, to);
  }

  const Problem<S>& p_;
  const UnitPlan& plan_;
  const UnitOf kind_;
  Lines<E> right_{};
};

template <class E, class S> Lines<E> left_side(const Problem<S>& p) {
  return {reinterpret_cast<const E*>(p.a), p.a_row, p.a_col};
}
template <class E, class S> Lines<E> right_side(const Problem<S>& p) {
  return {reinterpret_cast<const E*>(p.b), p.b_col, p.b_row};
}

template <class E, class S>
void by_unit(const Problem<S>& p, const GemmProblem& of_all, UnitOf kind = UnitOf::bfloat16) {
  UnitPlan plan(terms_of<E>, unit_blocks(of_all, p.n));
  UnitProduct<E, S> product(p, plan, kind);
  Workspace scratch(product.right_bytes() + product.left_bytes());
  Lines<E> left = left_side<E>(p), right = right_side<E>(p);
  Target<S> target = p.target;
  UnitScope unit;
  for (int64_t i = 0; i < p.count; ++i) {
    product.run(left, right, target, scratch.as<char>());
    left.data += p.a_step, right.data += p.b_step;
    target.advance(p.c_step, p.added_step);
  }
}

// Rows [first, last) of b, which is one block, for calls that find it packed.
template <class E, class S>
void pack_for_unit(const Problem<S>& p, const GemmProblem& of_all, int64_t first, int64_t last,
                   void* packed) {
  UnitPlan plan(terms_of<E>, unit_blocks(of_all, p.n));
  pack_right_side(plan, right_side<E>(p), first, last, {static_cast<char*>(packed), p.n, p.k});
}

// f(element) of what floats and 16-bit floats are taken for.
template <class F> void for_factor(const GemmProblem& problem, F f) {
  if (problem.factors == DType::BFloat16) f(bfloat16());
  else if (problem.factors == DType::Float16) f(half());
  else if (problem.rounds_floats) f(FloatInOne());
  else f(float());
}

inline void multiply_on_unit(const GemmProblem& problem) {
  if (problem.dtype != DType::Int32)
    return for_factor(
        problem, [&](auto element) { by_unit<decltype(element)>(typed<float>(problem), problem); });
  bool a = problem.factors == DType::Int8, b = problem.right_factors == DType::Int8;
  UnitOf kind = a   ? b ? UnitOf::signed_signed : UnitOf::signed_unsigned
                : b ? UnitOf::unsigned_signed
                    : UnitOf::unsigned_unsigned;
  by_unit<uint8_t>(typed<int32_t>(problem), problem, kind);
}
inline void pack_on_unit(const GemmProblem& problem, int64_t first, int64_t last, void* packed) {
  if (problem.dtype == DType::Int32)
    return pack_for_unit<uint8_t>(typed<int32_t>(problem), problem, first, last, packed);
  for_factor(problem, [&](auto element) {
    pack_for_unit<decltype(element)>(typed<float>(problem), problem, first, last, packed);
  });
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
