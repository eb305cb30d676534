#include "kernels/cpu/attention_unit.h"

#include "kernels/cpu/attention_mask.h"
#include "kernels/cpu/short_exp2.h"
#include "kernels/cpu/tile_unit.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr float lowest_score = -std::numeric_limits<float>::infinity();

template <class E> Lines<E> lines_of(const AttentionMatrix& m, int64_t line, int64_t term) {
  return {static_cast<const E*>(m.data), line, term};
}
template <class E> Lines<E> turned(const Lines<E>& m) { return {m.data, m.term, m.line}; }

// Tiles of 32 lines, of one step of 32 terms.
template <class E> constexpr int64_t step_bytes = 2 * parts_of<E> * tile_bytes;

// 32 lines after the other, of each the steps, two tiles each for every part.
template <bool right, class E>
void pack_lines(const Lines<E>& from, int64_t lines, int64_t terms, char* to) {
  Magnitudes ignored[tile_side];  // they have been looked at
  for (int64_t line = 0; line < lines; line += unit_side)
    for (int64_t term = 0; term < terms; term += tile_terms, to += step_bytes<E>)
      for (int64_t t = 0; t < 2; ++t)
        pack_tile_of<right>(from.from(line + t * tile_side, term), lines - line - t * tile_side,
                            terms - term, to + t * tile_bytes, 2 * tile_bytes, ignored);
}

// sums = or += `rows` rows of the left side by 32 columns of the right one, of so many steps.
template <class E> void multiply(int64_t rows, const UnitSide& left, const char* right,
                                 int64_t steps, bool add, float* sums, int64_t step) {
  static constexpr UnitMeanwhile nothing = {};
  unit_product_for<parts_of<E>>(rows, unit_side)(
      left, {right, 64, tile_bytes, 2 * tile_bytes, step_bytes<E>}, steps, add, sums, nothing,
      step);
}
// Packed lines, from the group of 32 on that has this number.
template <class E> UnitSide packed(const char* tiles, int64_t group, int64_t steps) {
  return {tiles + group * steps * step_bytes<E>, 64, tile_bytes, 2 * tile_bytes, step_bytes<E>};
}
// Packed lines `group` of the right side, from a step of them on.
template <class E>
const char* right_side(const char* tiles, int64_t group, int64_t steps, int64_t from = 0) {
  return tiles + (group * steps + from) * step_bytes<E>;
}

// A block's weights, or their slopes: computed as floats in `row`, and kept as rows of bfloat16 in
// memory of their own, or where they are.
template <class E> E* kept_in(float* row, char* narrow) {
  if constexpr (std::is_same_v<E, float>) return row;
  else return reinterpret_cast<E*>(narrow);
}
// They as a left side, from row 0 on: bfloat16 as they lie in memory, floats in tiles in `narrow`.
template <class E>
void make_left_side(const float* rows, int64_t stride, int64_t count, int64_t steps, char* narrow) {
  if constexpr (std::is_same_v<E, float>)
    pack_lines<false>(Lines<float>{rows, stride, 1}, count, steps * tile_terms, narrow);
}
template <class E>
UnitSide left_side(const char* narrow, int64_t stride, int64_t row, int64_t steps) {
  if constexpr (std::is_same_v<E, float>) return packed<float>(narrow, row / unit_side, steps);
  else return {narrow + row * stride * 2, stride * 2, tile_side * stride * 2, 0, 64};
}

// Floats that are 0 or normal numbers, or NaN, as E.
RL_INLINE void put(bfloat16* to, vec<float> v) {
  HalfBits bits = narrowed_to_bfloat16(v);
  std::memcpy(static_cast<void*>(to), &bits, sizeof bits);
}
RL_INLINE void put(float* to, vec<float> v) { store(to, v); }
template <class E> void put_row(const float* from, int64_t count, E* to) {
  if constexpr (!std::is_same_v<E, float>)
    for (int64_t j = 0; j < count; j += Vector<float>::lanes) put(to + j, load(from + j));
}

// e to the power of x * scale - top, as exact as E.
template <class E> RL_INLINE vec<float> weight_of(vec<float> x, float scale, float top) {
  if constexpr (std::is_same_v<E, float>) return exp_below(mul_add(x, scale, vec<float>{} - top));
  else return short_exp2(mul_add(x, scale * log2_of_e, -top * log2_of_e));
}

// The next multiple of the vectors that loops below take at a time.
int64_t in_pairs(int64_t columns) {
  constexpr int64_t pair = 2 * Vector<float>::lanes;
  return (columns + pair - 1) / pair * pair;
}
template <class E> void clear(E* from, const E* end) {
  std::memset(static_cast<void*>(from), 0, static_cast<size_t>(end - from) * sizeof(E));
}

// How many of the keys from `from` on a query sees.
int64_t seen(const AttentionHead& h, int64_t query, int64_t from, int64_t columns) {
  int64_t most = h.causal ? query + 1 - from : columns;
  return most < 0 ? 0 : most < columns ? most : columns;
}

// A row of products becomes scores: scaled, masked, with what the mask adds.
void add_mask(const AttentionHead& h, int64_t query, int64_t from, int64_t columns, float* row) {
  float scale = static_cast<float>(h.scale);
  int64_t at = query * h.mask.row + from * h.mask.column;
  if (h.mask.data && h.mask_is_bool)
    for_row<Bool>(h.mask, at, columns, [row, scale](int64_t j, bool allowed) {
      row[j] = if_allowed(row[j] * scale, allowed);
    });
  else if (h.mask.data)
    for_row<float>(h.mask, at, columns,
                   [row, scale](int64_t j, float bias) { row[j] = mul_add(row[j], scale, bias); });
  else
    for (int64_t j = 0; j < columns; ++j) row[j] *= scale;
}

// The factor of a row of products that have become scores but for that.
float scores_of(const AttentionHead& h, int64_t query, int64_t from, int64_t columns, float* row) {
  if (!h.mask.data && h.scale > 0) return static_cast<float>(h.scale);
  add_mask(h, query, from, columns, row);
  return 1;
}

// A query's state while blocks of keys pass: its largest score, the total of its weights, and the
// sums of weighted values.
struct Query {
  float &high, &total;
  float* sums;
  int64_t width;
};

// One query's products with `columns` keys become weights, zeros behind them up to `padded`, a
// multiple of 32; and what was summed so far is corrected.
template <class E>
void soften(const AttentionHead& h, int64_t at, int64_t from, int64_t columns, int64_t padded,
            float* row, E* weights, const Query& query) {
  columns = seen(h, at, from, columns);
  if (columns == 0) return clear(weights, weights + padded);
  float scale = scores_of(h, at, from, columns, row);
  float top = Fmax::apply(query.high, fold<Fmax>(row, columns) * scale);
  if (top == lowest_score) {  // nothing to attend to, so far, or NaN among the infinite ones
    query.total += fold<Max>(row, columns) == lowest_score ? 0 : math::quiet_nan<float>;
    return clear(weights, weights + padded);
  }
  const int64_t end = in_pairs(columns);
  for (int64_t j = columns; j < end; ++j) row[j] = lowest_score;
  clear(weights + end, weights + padded);
  constexpr int64_t lanes = Vector<float>::lanes;
  const bool drops = h.kept.data;
  vec<float> sums[2] = {};
  for (int64_t j = 0; j < end; j += 2 * lanes)
    for (int64_t i = 0; i < 2; ++i) {
      vec<float> weight = weight_of<E>(load(row + j + i * lanes), scale, top);
      sums[i] += weight;
      if (drops) store(row + j + i * lanes, weight);
      else put(weights + j + i * lanes, weight);
    }
  float sum;
  fold_lanes<Add>(sums[0] + sums[1], &sum);
  if (from > 0 && top != query.high) {
    float correction = exp_below(query.high - top);
    query.total *= correction;
    for (int64_t j = 0; j < query.width; ++j) query.sums[j] *= correction;
  }
  query.total += sum;
  query.high = top;
  if (!drops) return;
  drop(h, at, from, columns, row);
  put_row(row, end, weights);
}

// A row = sums * factor.
template <class E>
void write_row(E* to, int64_t step, int64_t count, const float* sums, float factor) {
  int64_t j = 0;
  if (step == 1)
    for (; j + Vector<float>::lanes <= count; j += Vector<float>::lanes) {
      vec<float> out = load(sums + j) * factor;
      if constexpr (std::is_same_v<E, float>) store(to + j, out);
      else store_narrow(to + j, out);
    }
  for (; j < count; ++j) to[j * step] = E(sums[j] * factor);
}

template <class E>
void forward(const AttentionHead& h, int64_t first, int64_t count, const AttentionMatrix& to,
             float* log_sum, const AttentionUnitScratch& s) {
  const int64_t wide = s.value_steps * unit_side;
  pack_lines<false>(lines_of<E>(h.query, h.query.row, h.query.column).from(first, 0), count,
                    h.width, s.queries);
  for (int64_t i = 0; i < count; ++i) {
    s.high[i] = lowest_score;
    s.total[i] = 0;
  }
  UnitScope scope;
  int64_t end = reach(h, first, count);
  for (int64_t from = 0; from < end; from += s.columns) {
    int64_t columns = end - from < s.columns ? end - from : s.columns;
    int64_t steps = (columns + tile_terms - 1) / tile_terms;
    for (int64_t row = 0; row < count; row += unit_side)
      for (int64_t j = 0; j < steps; ++j)
        multiply<E>(count - row, packed<E>(s.queries, row / unit_side, s.width_steps),
                    right_side<E>(s.keys, from / unit_side + j, s.width_steps), s.width_steps,
                    false, s.scores + row * s.stride + j * unit_side, s.stride);
    for (int64_t i = 0; i < count; ++i)
      soften(h, first + i, from, columns, steps * tile_terms, s.scores + i * s.stride,
             kept_in<E>(s.scores, s.weights) + i * s.stride,
             {s.high[i], s.total[i], s.sums + i * wide, wide});
    make_left_side<E>(s.scores, s.stride, count, steps, s.weights);
    for (int64_t row = 0; row < count; row += unit_side)
      for (int64_t j = 0; j < s.value_steps; ++j)
        multiply<E>(count - row, left_side<E>(s.weights, s.stride, row, steps),
                    right_side<E>(s.values, j, s.key_steps, from / tile_terms), steps, from > 0,
                    s.sums + row * wide + j * unit_side, wide);
  }
  E* out = static_cast<E*>(to.data) + first * to.row;
  for (int64_t i = 0; i < count; ++i, out += to.row) {
    float scale = s.total[i] == 0 ? 0 : 1 / s.total[i];
    write_row(out, to.column, h.value_width, s.sums + i * wide, scale);
  }
  for (int64_t i = 0; i < count; ++i) {
    float total = math::log(s.total[i]);
    log_sum[i] = s.total[i] == 0 ? lowest_score : s.high[i] + total;
  }
}

// The sum of products of two rows.
template <class E>
float dot(const E* a, int64_t a_step, const E* b, int64_t b_step, int64_t n) {
  float sum = 0;
  int64_t j = 0;
  if (a_step == 1 && b_step == 1) {
    vec<float> sums{};
    for (; j + Vector<float>::lanes <= n; j += Vector<float>::lanes)
      sums = mul_add(load_as_float(a + j), load_as_float(b + j), sums);
    fold_lanes<Add>(sums, &sum);
  }
  for (; j < n; ++j)
    sum = mul_add(static_cast<float>(a[j * a_step]), static_cast<float>(b[j * b_step]), sum);
  return sum;
}

// One query's products become weights, and the slopes of those, less their mean `shift`, theirs.
// What has no weight has no slope.
template <class E>
void differentiate(const AttentionHead& h, int64_t query, int64_t from, int64_t columns,
                   int64_t padded, float log_sum, float shift, const AttentionUnitGradients& s,
                   int64_t row) {
  float *products = s.products + row * s.stride, *slopes = s.slopes + row * s.stride;
  E* weights = kept_in<E>(s.products, s.weights) + row * s.stride;
  E* kept_slopes = kept_in<E>(s.slopes, s.narrow_slopes) + row * s.stride;
  columns = log_sum == lowest_score ? 0 : seen(h, query, from, columns);
  float scale = scores_of(h, query, from, columns, products);
  const int64_t end = in_pairs(columns);
  for (int64_t j = columns; j < end; ++j) products[j] = lowest_score;
  clear(weights + end, weights + padded);
  clear(kept_slopes + end, kept_slopes + padded);
  const bool drops = h.kept.data;
  drop(h, query, from, columns, slopes);
  for (int64_t j = 0; j < end; j += Vector<float>::lanes) {
    vec<float> weight = weight_of<E>(load(products + j), scale, log_sum);
    vec<float> slope = weight * (load(slopes + j) - shift);
    put(kept_slopes + j, weight == 0.0f ? weight : slope);
    if (drops) store(products + j, weight);
    else put(weights + j, weight);
  }
  if (!drops) return;
  drop(h, query, from, columns, products);
  put_row(products, end, weights);
}

// to (rows, columns) = sums * factor.
template <class E>
void write(const AttentionMatrix& to, int64_t first, int64_t rows, int64_t columns,
           const float* sums, int64_t step, float factor) {
  E* out = static_cast<E*>(to.data) + first * to.row;
  for (int64_t i = 0; i < rows; ++i, out += to.row, sums += step)
    write_row(out, to.column, columns, sums, factor);
}

// sums += the transpose of rows (count, columns) by packed lines of `groups` times 32 columns.
template <class E>
void add_turned(const E* rows, int64_t step, int64_t count, int64_t columns, char* turned,
                const char* right, int64_t groups, float* sums) {
  int64_t steps = (count + tile_terms - 1) / tile_terms, wide = groups * unit_side;
  pack_lines<false>(Lines<E>{rows, 1, step}, columns, count, turned);
  for (int64_t key = 0; key < columns; key += unit_side)
    for (int64_t j = 0; j < groups; ++j)
      multiply<E>(columns - key, packed<E>(turned, key / unit_side, steps),
                  right_side<E>(right, j, steps), steps, true, sums + key * wide + j * unit_side,
                  wide);
}

// A block of queries with all keys.
template <class E>
void differentiate_block(const AttentionHead& h, int64_t first, int64_t count,
                         const AttentionMatrix& grad, const AttentionMatrix& out,
                         const float* log_sum, const AttentionUnitGradients& s) {
  Lines<E> queries = lines_of<E>(h.query, h.query.row, h.query.column).from(first, 0);
  Lines<E> grads = lines_of<E>(grad, grad.row, grad.column).from(first, 0);
  Lines<E> outs = lines_of<E>(out, out.row, out.column).from(first, 0);
  pack_lines<false>(queries, count, h.width, s.queries);
  pack_lines<false>(grads, count, h.value_width, s.grads);
  pack_lines<true>(turned(queries), h.width, count, s.queries_by_column);
  pack_lines<true>(turned(grads), h.value_width, count, s.grads_by_column);
  float shift[attention_rows];
  for (int64_t i = 0; i < count; ++i)
    shift[i] = dot(grads.data + i * grads.line, grads.term, outs.data + i * outs.line, outs.term,
                   h.value_width);
  const int64_t wide = s.width_steps * unit_side, value_wide = s.value_steps * unit_side;
  int64_t end = reach(h, first, count);
  for (int64_t from = 0; from < end; from += s.columns) {
    int64_t columns = end - from < s.columns ? end - from : s.columns;
    int64_t steps = (columns + tile_terms - 1) / tile_terms;
    for (int64_t row = 0; row < count; row += unit_side)
      for (int64_t j = 0; j < steps; ++j) {
        int64_t at = row * s.stride + j * unit_side, group = from / unit_side + j;
        multiply<E>(count - row, packed<E>(s.queries, row / unit_side, s.width_steps),
                    right_side<E>(s.keys, group, s.width_steps), s.width_steps, false,
                    s.products + at, s.stride);
        multiply<E>(count - row, packed<E>(s.grads, row / unit_side, s.value_steps),
                    right_side<E>(s.values, group, s.value_steps), s.value_steps, false,
                    s.slopes + at, s.stride);
      }
    for (int64_t i = 0; i < count; ++i)
      differentiate<E>(h, first + i, from, columns, steps * tile_terms, log_sum[first + i],
                       shift[i], s, i);
    add_turned(kept_in<E>(s.products, s.weights), s.stride, count, columns, s.turned,
               s.grads_by_column, s.value_steps, s.value_sums + from * value_wide);
    make_left_side<E>(s.slopes, s.stride, count, steps, s.narrow_slopes);
    add_turned(kept_in<E>(s.slopes, s.narrow_slopes), s.stride, count, columns, s.turned,
               s.queries_by_column, s.width_steps, s.key_sums + from * wide);
    for (int64_t row = 0; row < count; row += unit_side)
      for (int64_t j = 0; j < s.width_steps; ++j)
        multiply<E>(count - row, left_side<E>(s.narrow_slopes, s.stride, row, steps),
                    right_side<E>(s.keys_by_column, j, s.key_steps, from / tile_terms), steps,
                    from > 0, s.query_sums + row * wide + j * unit_side, wide);
  }
}

template <class E>
void backward(const AttentionHead& h, bool first, bool last, const AttentionMatrix& grad,
              const AttentionMatrix& out, const float* log_sum, const AttentionMatrix& grad_query,
              const AttentionMatrix& grad_key, const AttentionMatrix& grad_value,
              const AttentionUnitGradients& s) {
  const int64_t wide = s.width_steps * unit_side, value_wide = s.value_steps * unit_side;
  const float scale = static_cast<float>(h.scale);
  if (first) {
    Lines<E> keys = lines_of<E>(h.key, h.key.row, h.key.column);
    pack_lines<true>(keys, h.keys, h.width, s.keys);
    pack_lines<true>(turned(keys), h.width, h.keys, s.keys_by_column);
    pack_lines<true>(lines_of<E>(h.value, h.value.row, h.value.column), h.keys, h.value_width,
                     s.values);
    std::memset(s.key_sums, 0, static_cast<size_t>(s.key_steps * unit_side * wide * 4));
    std::memset(s.value_sums, 0, static_cast<size_t>(s.key_steps * unit_side * value_wide * 4));
  }
  UnitScope scope;
  for (int64_t at = 0; at < h.queries; at += attention_rows) {
    int64_t count = h.queries - at < attention_rows ? h.queries - at : attention_rows;
    differentiate_block<E>(h, at, count, grad, out, log_sum, s);
    write<E>(grad_query, at, count, h.width, s.query_sums, wide, scale);
  }
  if (!last) return;
  write<E>(grad_key, 0, h.keys, h.width, s.key_sums, wide, scale);
  write<E>(grad_value, 0, h.keys, h.value_width, s.value_sums, value_wide, 1);
}

AttentionUnitSizes sizes_of(const AttentionHead& h) {
  return {h.dtype, h.keys, h.width, h.value_width};
}
// f(element) of a head.
template <class F> void for_element(const AttentionHead& h, F f) {
  if constexpr (may_have_unit) h.dtype == DType::Float32 ? f(float()) : f(bfloat16());
}

}  // namespace

void attention_unit_tells(const AttentionMatrix& m, int64_t rows, int64_t columns, bool* all) {
  constexpr int64_t lanes = Vector<float>::lanes;
  Lines<float> lines = lines_of<float>(m, m.row, m.column);
  if (m.column != 1 && m.row == 1) lines = turned(lines), std::swap(rows, columns);
  auto magnitudes = [&](int64_t i, int64_t j) {
    const float* from = lines.data + i * lines.line + j * lines.term;
    int64_t n = columns - j < lanes ? columns - j : lanes;
    vec<float> x{};
    if (lines.term != 1)
      for (int64_t k = 0; k < n; ++k) x[k] = from[k * lines.term];
    else x = n == lanes ? load(from) : load_part(from, n);
    return magnitude_bits(x);
  };
  *all = true;
  for (int64_t j = 0; j < columns && *all; j += lanes) {
    Magnitudes down{};
    for (int64_t i = 0; i < rows; ++i) down = larger_bits(down, magnitudes(i, j));
    *all = can_be_split(down);
  }
  for (int64_t i = 0; i < rows && *all; ++i) {
    Magnitudes across{};
    for (int64_t j = 0; j < columns; j += lanes) across = larger_bits(across, magnitudes(i, j));
    *all = line_can_be_split(across);
  }
}

void attention_unit_pack(const AttentionHead& h, void* scratch) {
  for_element(h, [&](auto element) {
    using E = decltype(element);
    AttentionUnitScratch s(sizes_of(h), scratch);
    pack_lines<true>(lines_of<E>(h.key, h.key.row, h.key.column), h.keys, h.width, s.keys);
    pack_lines<true>(lines_of<E>(h.value, h.value.column, h.value.row), h.value_width, h.keys,
                     s.values);
  });
}

void attention_unit_block(const AttentionHead& h, int64_t first, int64_t count,
                          const AttentionMatrix& out, float* log_sum, void* scratch) {
  for_element(h, [&](auto element) {
    forward<decltype(element)>(h, first, count, out, log_sum,
                               AttentionUnitScratch(sizes_of(h), scratch));
  });
}

void attention_unit_backward(const AttentionHead& h, bool first, bool last,
                             const AttentionMatrix& grad, const AttentionMatrix& out,
                             const float* log_sum, const AttentionMatrix& grad_query,
                             const AttentionMatrix& grad_key, const AttentionMatrix& grad_value,
                             void* scratch) {
  for_element(h, [&](auto element) {
    backward<decltype(element)>(h, first, last, grad, out, log_sum, grad_query, grad_key,
                                grad_value, AttentionUnitGradients(sizes_of(h), scratch));
  });
}

}  // namespace rl::kernels::RL_ISA
