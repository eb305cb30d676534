#include "kernels/cpu/softmax_tiles.h"

#include "kernels/cpu/lanes.h"
#include "math/math.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int64_t block = 64;  // columns that keep their maxima and sums in L1

template <class T>
void softmax_line(bool log, const T* x, T* y, int64_t n) {
  T high = fold<Larger>(x, n);
  if (log) {
    T sum = sum_of<T>(n, [x, high](int64_t i) { return math::exp(x[i] - high); });
    T shift = math::log(sum);
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] - high - shift;
    return;
  }
  constexpr int64_t piece = 512;
  T sum = 0;
  for (int64_t i = 0; i < n; i += piece) {
    int64_t m = n - i < piece ? n - i : piece;
    for (int64_t k = i; k < i + m; ++k) y[k] = math::exp(x[k] - high);
    sum += fold<Add>(y + i, m);
  }
  T scale = T(1) / sum;
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

template <class T>
void softmax_block(bool log, const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t n,
                   int64_t m) {
  T high[block], sum[block] = {};
  for (int64_t j = 0; j < m; ++j) high[j] = x[j];
  for (int64_t i = 1; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) high[j] = Larger::apply(high[j], x[i * x_stride + j]);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) {
      T e = math::exp(x[i * x_stride + j] - high[j]);
      if (!log) y[i * y_stride + j] = e;
      sum[j] += e;
    }
  for (int64_t j = 0; j < m; ++j) sum[j] = log ? math::log(sum[j]) : T(1) / sum[j];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) {
      T& out = y[i * y_stride + j];
      out = log ? x[i * x_stride + j] - high[j] - sum[j] : out * sum[j];
    }
}

template <class T>
void forward(const SoftmaxTile& t, const void* in, int64_t x_stride, void* out, int64_t y_stride) {
  const T* x = static_cast<const T*>(in);
  T* y = static_cast<T*>(out);
  if (t.width == 1) return softmax_line(t.log, x, y, t.n);
  for (int64_t j = 0; j < t.width; j += block) {
    int64_t m = t.width - j < block ? t.width - j : block;
    softmax_block(t.log, x + j, x_stride, y + j, y_stride, t.n, m);
  }
}

// softmax: (g - sum(g y)) y; log_softmax: g - exp(y) sum(g).
template <class T>
void gradient_line(bool log, const T* g, const T* y, T* gx, int64_t n) {
  T sum = log ? fold<Add>(g, n) : sum_of<T>(n, [g, y](int64_t i) { return g[i] * y[i]; });
  if (log)
    for (int64_t i = 0; i < n; ++i) gx[i] = g[i] - math::exp(y[i]) * sum;
  else
    for (int64_t i = 0; i < n; ++i) gx[i] = (g[i] - sum) * y[i];
}

template <class T>
void gradient_block(bool log, const T* g, int64_t g_stride, const T* y, int64_t y_stride, T* gx,
                    int64_t gx_stride, int64_t n, int64_t m) {
  T sum[block] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      sum[j] += g[i * g_stride + j] * (log ? T(1) : y[i * y_stride + j]);
  for (int64_t i = 0; i < n; ++i) {
    const T *g_row = g + i * g_stride, *y_row = y + i * y_stride;
    T* out = gx + i * gx_stride;
    if (log)
      for (int64_t j = 0; j < m; ++j) out[j] = g_row[j] - math::exp(y_row[j]) * sum[j];
    else
      for (int64_t j = 0; j < m; ++j) out[j] = (g_row[j] - sum[j]) * y_row[j];
  }
}

template <class T>
void gradient(const SoftmaxTile& t, const void* grad, int64_t g_stride, const void* output,
              int64_t y_stride, void* grad_x, int64_t gx_stride) {
  const T *g = static_cast<const T*>(grad), *y = static_cast<const T*>(output);
  T* gx = static_cast<T*>(grad_x);
  if (t.width == 1) return gradient_line(t.log, g, y, gx, t.n);
  for (int64_t j = 0; j < t.width; j += block) {
    int64_t m = t.width - j < block ? t.width - j : block;
    gradient_block(t.log, g + j, g_stride, y + j, y_stride, gx + j, gx_stride, t.n, m);
  }
}

}  // namespace

void softmax_forward(const SoftmaxTile& tile, const void* x, int64_t x_stride, void* y,
                     int64_t y_stride) {
  auto typed = tile.element == DType::Float64 ? forward<double> : forward<float>;
  typed(tile, x, x_stride, y, y_stride);
}

void softmax_gradient(const SoftmaxTile& tile, const void* grad, int64_t grad_stride, const void* y,
                      int64_t y_stride, void* grad_x, int64_t grad_x_stride) {
  auto typed = tile.element == DType::Float64 ? gradient<double> : gradient<float>;
  typed(tile, grad, grad_stride, y, y_stride, grad_x, grad_x_stride);
}

}  // namespace rl::kernels::RL_ISA
