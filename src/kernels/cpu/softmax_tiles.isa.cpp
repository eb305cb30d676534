#include "kernels/cpu/softmax_tiles.h"

#include "kernels/cpu/lanes.h"
#include "math/math.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class T>
void softmax_line(const T* x, T* y, int64_t n) {
  T high = fold<Fmax>(x, n), sum = 0;
  for (int64_t i = 0; i < n; i += exponential_piece) {
    T* to = y + i;
    int64_t m = n - i < exponential_piece ? n - i : exponential_piece;
    sum += sum_exponentials(x + i, high, m, n, [to](auto at, auto e) { at.put(to, e); });
  }
  T scale = T(1) / sum;
  for_offsets<T>(n, [=](auto at) { at.put(y, at(y) * scale); });
}

template <class T>
void log_softmax_line(const T* x, T* y, int64_t n) {
  T high, shift = math::log(sum_exponentials_of_row(x, n, &high));
  for_offsets<T>(n, [=](auto at) { at.put(y, at(x) - high - shift); });
}

template <class T>
void largest_of_block(const T* x, int64_t stride, int64_t n, int64_t m, T* high) {
  for (int64_t j = 0; j < m; ++j) high[j] = x[j];
  for (int64_t i = 1; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) high[j] = Max::apply(high[j], x[i * stride + j]);
}

// `log` is known to the loops: asked for each element, it kept gcc from vectors of logarithms.
template <bool log, class T>
void softmax_block(const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t n, int64_t m) {
  T high[softmax_columns], sum[softmax_columns] = {};
  largest_of_block(x, x_stride, n, m, high);
  for (int64_t i = 0; i < n; ++i) {
    RL_INDEPENDENT
    for (int64_t j = 0; j < m; ++j) {
      T e = exp_below(x[i * x_stride + j] - high[j]);
      if constexpr (!log) y[i * y_stride + j] = e;
      sum[j] += e;
    }
  }
  for (int64_t j = 0; j < m; ++j) sum[j] = log ? math::log(sum[j]) : T(1) / sum[j];
  for (int64_t i = 0; i < n; ++i) {
    RL_INDEPENDENT
    for (int64_t j = 0; j < m; ++j) {
      T& out = y[i * y_stride + j];
      out = log ? x[i * x_stride + j] - high[j] - sum[j] : out * sum[j];
    }
  }
}

template <class T>
void forward(bool log, const SoftmaxTile& t, const void* in, int64_t x_stride, void* out,
             int64_t y_stride) {
  const T* x = static_cast<const T*>(in);
  T* y = static_cast<T*>(out);
  if (t.across) {
    auto block = log ? softmax_block<true, T> : softmax_block<false, T>;
    return block(x, x_stride, y, y_stride, t.n, t.width);
  }
  for (int64_t j = 0; j < t.width; ++j, x += x_stride, y += y_stride)
    if (log) log_softmax_line(x, y, t.n);
    else softmax_line(x, y, t.n);
}

// softmax: (g - sum(g y)) y; log_softmax: g - exp(y) sum(g).
template <class T>
void gradient_line(bool log, const T* g, const T* y, T* gx, int64_t n) {
  if (log) {
    const vec<T> sum = fold<Add>(g, n) - vec<T>{};
    for_offsets<T>(n, [=](auto at) { at.put(gx, mul_add(-exp_below(at(y)), sum, at(g))); });
  } else {
    const T sum = sum_at<T>(n, [=](auto at) { return at(g) * at(y); });
    for_offsets<T>(n, [=](auto at) { at.put(gx, (at(g) - sum) * at(y)); });
  }
}

template <class T>
void gradient_block(bool log, const T* g, int64_t g_stride, const T* y, int64_t y_stride, T* gx,
                    int64_t gx_stride, int64_t n, int64_t m) {
  T sum[softmax_columns] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      sum[j] += g[i * g_stride + j] * (log ? T(1) : y[i * y_stride + j]);
  for (int64_t i = 0; i < n; ++i) {
    const T *g_row = g + i * g_stride, *y_row = y + i * y_stride;
    T* out = gx + i * gx_stride;
    if (log) {
      RL_INDEPENDENT
      for (int64_t j = 0; j < m; ++j) out[j] = mul_add(-exp_below(y_row[j]), sum[j], g_row[j]);
    } else {
      RL_INDEPENDENT
      for (int64_t j = 0; j < m; ++j) out[j] = (g_row[j] - sum[j]) * y_row[j];
    }
  }
}

template <class T>
void gradient(bool log, const SoftmaxTile& t, const void* grad, int64_t g_stride,
              const void* output, int64_t y_stride, void* grad_x, int64_t gx_stride) {
  const T *g = static_cast<const T*>(grad), *y = static_cast<const T*>(output);
  T* gx = static_cast<T*>(grad_x);
  if (t.across) return gradient_block(log, g, g_stride, y, y_stride, gx, gx_stride, t.n, t.width);
  for (int64_t j = 0; j < t.width; ++j, g += g_stride, y += y_stride, gx += gx_stride)
    gradient_line(log, g, y, gx, t.n);
}

template <class T>
void sums(const SoftmaxTile& t, const void* in, int64_t stride, const void* weights, void* largest,
          void* sums_out, void* logs, void* weighted_out) {
  const T *x = static_cast<const T*>(in), *w = static_cast<const T*>(weights);
  T *high = static_cast<T*>(largest), *sum = static_cast<T*>(sums_out);
  T *log_sum = static_cast<T*>(logs), *weighted = static_cast<T*>(weighted_out);
  if (!t.across) {
    for (int64_t j = 0; j < t.width; ++j, x += stride) {
      sum[j] = sum_exponentials_of_row(x, t.n, high + j);
      log_sum[j] = math::log(sum[j]);
      T top = high[j];
      if (w) weighted[j] = sum_at<T>(t.n, [x, w, top](auto at) { return at(w) * (at(x) - top); });
    }
    return;
  }
  largest_of_block(x, stride, t.n, t.width, high);
  for (int64_t j = 0; j < t.width; ++j) sum[j] = weighted[j] = 0;
  for (int64_t i = 0; i < t.n; ++i, x += stride) {
    for (int64_t j = 0; j < t.width; ++j) sum[j] += exp_below(x[j] - high[j]);
    if (w)
      for (int64_t j = 0; j < t.width; ++j)
        weighted[j] = mul_add(w[i], x[j] - high[j], weighted[j]);
  }
  for (int64_t j = 0; j < t.width; ++j) log_sum[j] = math::log(sum[j]);
}

template <class T>
void slopes(const SoftmaxTile& t, const void* in, int64_t x_stride, const void* weights,
            const void* largest, const void* scales, const void* shares, void* out,
            int64_t out_stride) {
  const T *x = static_cast<const T*>(in), *w = static_cast<const T*>(weights);
  const T *high = static_cast<const T*>(largest), *scale = static_cast<const T*>(scales);
  const T* share = static_cast<const T*>(shares);
  T* gx = static_cast<T*>(out);
  if (!t.across) {
    for (int64_t j = 0; j < t.width; ++j, x += x_stride, gx += out_stride) {
      const T top = high[j];
      const vec<T> factor = scale[j] - vec<T>{};
      const T part = share[j];
      if (w)
        for_offsets<T>(t.n, [=](auto at) {
          at.put(gx, mul_add(factor, exp_below(at(x) - top), -(at(w) * part)));
        });
      else for_offsets<T>(t.n, [=](auto at) { at.put(gx, factor * exp_below(at(x) - top)); });
    }
    return;
  }
  for (int64_t i = 0; i < t.n; ++i, x += x_stride, gx += out_stride) {
    T weight = w ? w[i] : T(0);
    RL_INDEPENDENT
    for (int64_t j = 0; j < t.width; ++j)
      gx[j] = mul_add(scale[j], exp_below(x[j] - high[j]), -(weight * share[j]));
  }
}

}  // namespace

void softmax_forward(bool log, const SoftmaxTile& tile, const void* x, int64_t x_stride, void* y,
                     int64_t y_stride) {
  auto typed = tile.element == DType::Float64 ? forward<double> : forward<float>;
  typed(log, tile, x, x_stride, y, y_stride);
}

void softmax_gradient(bool log, const SoftmaxTile& tile, const void* grad, int64_t grad_stride,
                      const void* y, int64_t y_stride, void* grad_x, int64_t grad_x_stride) {
  auto typed = tile.element == DType::Float64 ? gradient<double> : gradient<float>;
  typed(log, tile, grad, grad_stride, y, y_stride, grad_x, grad_x_stride);
}

void softmax_sums(const SoftmaxTile& tile, const void* x, int64_t x_stride, const void* weights,
                  void* largest, void* sums_out, void* logs, void* weighted) {
  auto typed = tile.element == DType::Float64 ? sums<double> : sums<float>;
  typed(tile, x, x_stride, weights, largest, sums_out, logs, weighted);
}

void softmax_slopes(const SoftmaxTile& tile, const void* x, int64_t x_stride, const void* weights,
                    const void* largest, const void* scale, const void* share, void* grad_x,
                    int64_t grad_x_stride) {
  auto typed = tile.element == DType::Float64 ? slopes<double> : slopes<float>;
  typed(tile, x, x_stride, weights, largest, scale, share, grad_x, grad_x_stride);
}

}  // namespace rl::kernels::RL_ISA
