#include "kernels/cpu/attention_blocks.h"

#include "kernels/cpu/attention_mask.h"
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/transpose.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class T> constexpr T lowest = -std::numeric_limits<T>::infinity();

template <class T> struct Matrix {
  T* data;
  int64_t row, column;
  Matrix(T* data, int64_t row, int64_t column = 1) : data(data), row(row), column(column) {}
  Matrix(const AttentionMatrix& m) : data(static_cast<T*>(m.data)), row(m.row), column(m.column) {}
  Matrix from_row(int64_t i) const { return {data + i * row, row, column}; }
  Matrix transposed() const { return {data, column, row}; }
};

// c (m, n) = alpha * a (m, k) @ b (k, n) + beta * c
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, double alpha, Matrix<T> a, Matrix<T> b, double beta,
              Matrix<T> c) {
  gemm_tiles({dtype_of<T>, m, n, k, a.data, b.data, c.data, a.row, a.column, b.row, b.column, c.row,
              c.column, Scalar(alpha), Scalar(beta)});
}

template <class T> void pack_transposed(const AttentionMatrix& from, int64_t rows, int64_t columns,
                                        T* to) {
  constexpr int64_t size = sizeof(T);
  transpose(size, static_cast<const char*>(from.data), from.row * size, from.column * size,
            reinterpret_cast<char*>(to), rows * size, size, rows, columns, false);
}

template <class T> void clear(Matrix<T> m, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) m.data[i * m.row + j * m.column] = 0;
}

// The scores of a block of queries for the keys [from, from + columns), masked.
template <class T>
void score(const AttentionHead& h, T* scratch, int64_t first, int64_t count, int64_t from,
           int64_t columns, T* scores) {
  const Matrix<T> keys =
      h.packed ? Matrix<T>(scratch + from, h.keys) : Matrix<T>(h.key).from_row(from).transposed();
  multiply<T>(count, columns, h.width, h.scale, Matrix<T>(h.query).from_row(first), keys, 0,
              {scores, columns});
  for (int64_t i = 0; i < count; ++i) {
    T* row = scores + i * columns;
    int64_t at = (first + i) * h.mask.row + from * h.mask.column;
    if (h.mask.data && h.mask_is_bool)
      for_row<Bool>(h.mask, at, columns,
                    [row](int64_t j, bool allowed) { row[j] = if_allowed(row[j], allowed); });
    else if (h.mask.data)
      for_row<T>(h.mask, at, columns, [row](int64_t j, T bias) { row[j] += bias; });
    if (h.causal)
      for (int64_t j = first + i + 1 - from > 0 ? first + i + 1 - from : 0; j < columns; ++j)
        row[j] = lowest<T>;
  }
}

template <class T>
void forward(const AttentionHead& h, int64_t first, int64_t count, const AttentionMatrix& to,
             T* log_sum, T* scratch) {
  int64_t step = h.keys < attention_keys ? h.keys : attention_keys;
  T* scores = scratch + (h.width + h.value_width) * h.keys;
  T* sums = scores + 2 * attention_rows * step;
  T *high = sums + attention_rows * h.value_width, *total = high + attention_rows;
  for (int64_t i = 0; i < count; ++i) {
    high[i] = lowest<T>;
    total[i] = 0;
  }
  for (int64_t i = 0; i < count * h.value_width; ++i) sums[i] = 0;
  int64_t end = reach(h, first, count);
  for (int64_t from = 0; from < end; from += step) {
    int64_t columns = end - from < step ? end - from : step;
    score<T>(h, scratch, first, count, from, columns, scores);
    for (int64_t i = 0; i < count; ++i) {
      T* row = scores + i * columns;
      T top = Max::apply(high[i], fold<Max>(row, columns));
      if (top == lowest<T>) {  // nothing to attend to, so far
        for (int64_t j = 0; j < columns; ++j) row[j] = 0;
        continue;
      }
      T correction = exp_below(high[i] - top);
      T sum = sum_at<T>(columns, [row, top](auto at) {
        auto e = exp_below(at(row) - top);
        at.put(row, e);
        return e;
      });
      total[i] = mul_add(total[i], correction, sum);
      drop(h, first + i, from, columns, row);
      high[i] = top;
      if (from > 0)
        for (int64_t j = 0; j < h.value_width; ++j) sums[i * h.value_width + j] *= correction;
    }
    multiply<T>(count, h.value_width, columns, 1, {scores, columns},
                Matrix<T>(h.value).from_row(from), from > 0, {sums, h.value_width});
  }
  Matrix<T> out = Matrix<T>(to).from_row(first);
  for (int64_t i = 0; i < count; ++i) {
    T scale = total[i] == 0 ? T(0) : 1 / total[i];
    for (int64_t j = 0; j < h.value_width; ++j)
      out.data[i * out.row + j * out.column] = sums[i * h.value_width + j] * scale;
    log_sum[i] = total[i] == 0 ? lowest<T> : high[i] + math::log(total[i]);
  }
}

// With p the weights and g the gradient of the output: value gets p^T g, the scores
// p * (g value^T - sum(g * out)), and query and key theirs from those.
template <class T>
void backward(const AttentionHead& h, bool add, Matrix<T> grad, Matrix<T> out, const T* log_sum,
              Matrix<T> grad_query, Matrix<T> grad_key, Matrix<T> grad_value, T* scratch) {
  T* values = scratch + h.width * h.keys;
  int64_t step = h.keys < attention_keys ? h.keys : attention_keys;
  T* weights = values + h.value_width * h.keys;
  T *slopes = weights + attention_rows * step, *shift = slopes + attention_rows * step;
  if (!add) {
    clear(grad_key, h.keys, h.width);
    clear(grad_value, h.keys, h.value_width);
  }
  for (int64_t first = 0; first < h.queries; first += attention_rows) {
    int64_t count = h.queries - first < attention_rows ? h.queries - first : attention_rows;
    Matrix<T> g = grad.from_row(first), o = out.from_row(first);
    for (int64_t i = 0; i < count; ++i) {
      T sum = 0;
      for (int64_t j = 0; j < h.value_width; ++j)
        sum = mul_add(g.data[i * g.row + j * g.column], o.data[i * o.row + j * o.column], sum);
      shift[i] = sum;
    }
    int64_t end = reach(h, first, count);
    for (int64_t from = 0; from < end; from += step) {
      int64_t columns = end - from < step ? end - from : step;
      score<T>(h, scratch, first, count, from, columns, weights);
      multiply<T>(count, columns, h.value_width, 1, g, {values + from, h.keys}, 0,
                  {slopes, columns});
      for (int64_t i = 0; i < count; ++i) {
        T *w = weights + i * columns, *s = slopes + i * columns, base = log_sum[first + i];
        if (base == lowest<T>) {
          for (int64_t j = 0; j < columns; ++j) w[j] = s[j] = 0;
          continue;
        }
        drop(h, first + i, from, columns, s);
        T offset = shift[i];
        for_offsets<T>(columns, [=](auto at) {
          auto e = exp_below(at(w) - base);
          at.put(w, e);
          at.put(s, e * (at(s) - offset));
        });
        drop(h, first + i, from, columns, w);
      }
      Matrix<T> p(weights, columns), d(slopes, columns);
      multiply<T>(columns, h.value_width, count, 1, p.transposed(), g, 1,
                  grad_value.from_row(from));
      multiply<T>(count, h.width, columns, h.scale, d, Matrix<T>(h.key).from_row(from), from > 0,
                  grad_query.from_row(first));
      multiply<T>(columns, h.width, count, h.scale, d.transposed(),
                  Matrix<T>(h.query).from_row(first), 1, grad_key.from_row(from));
    }
  }
}

}  // namespace

void attention_pack(const AttentionHead& h, bool with_values, void* scratch) {
  visit<float, double>("attention", h.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = static_cast<T*>(scratch);
    pack_transposed<T>(h.key, h.keys, h.width, to);
    if (with_values) pack_transposed<T>(h.value, h.keys, h.value_width, to + h.width * h.keys);
  });
}

void attention_block(const AttentionHead& h, int64_t first, int64_t count,
                     const AttentionMatrix& out, void* log_sum, void* scratch) {
  visit<float, double>("attention", h.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    forward<T>(h, first, count, out, static_cast<T*>(log_sum), static_cast<T*>(scratch));
  });
}

void attention_head_backward(const AttentionHead& h, bool add, const AttentionMatrix& grad,
                             const AttentionMatrix& out, const void* log_sum,
                             const AttentionMatrix& grad_query, const AttentionMatrix& grad_key,
                             const AttentionMatrix& grad_value, void* scratch) {
  visit<float, double>("attention", h.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward<T>(h, add, grad, out, static_cast<const T*>(log_sum), grad_query, grad_key, grad_value,
                static_cast<T*>(scratch));
  });
}

}  // namespace rl::kernels::RL_ISA
