#include "kernels/cpu/norm_tiles.h"

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

RL_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
RL_INLINE double square_root(double x) { return __builtin_sqrt(x); }

template <class T>
void statistics(const NormRow& row, const void* in, double eps, void* mean_out, void* rstd_out) {
  const T* x = static_cast<const T*>(in);
  int64_t n = row.parts * row.n;
  T mean = row.centred ? fold<Add>(x, n) / static_cast<T>(n) : T(0);
  T squares = fold<Add>(x, n, [mean](auto v) { return (v - mean) * (v - mean); });
  *static_cast<T*>(mean_out) = mean;
  *static_cast<T*>(rstd_out) =
      T(1) / square_root(squares / static_cast<T>(n) + static_cast<T>(eps));
}

template <class T>
void forward(const NormRow& row, const void* in, const void* mean_in, const void* rstd_in,
             void* out) {
  const T *x = static_cast<const T*>(in), *w = static_cast<const T*>(row.weight);
  const T* b = static_cast<const T*>(row.bias);
  T mean = *static_cast<const T*>(mean_in), rstd = *static_cast<const T*>(rstd_in);
  T* y = static_cast<T*>(out);
  if (row.n == 1) {
    if (w && b)
      for (int64_t i = 0; i < row.parts; ++i) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
    else if (w)
      for (int64_t i = 0; i < row.parts; ++i) y[i] = (x[i] - mean) * rstd * w[i];
    else
      for (int64_t i = 0; i < row.parts; ++i) y[i] = (x[i] - mean) * rstd + (b ? b[i] : T(0));
    return;
  }
  for (int64_t c = 0; c < row.parts; ++c, x += row.n, y += row.n) {
    T scale = w ? rstd * w[c] : rstd, shift = b ? b[c] : T(0);
    for (int64_t i = 0; i < row.n; ++i) y[i] = (x[i] - mean) * scale + shift;
  }
}

// With h = (x - mean) * rstd and a = g * weight:
//   grad_x = rstd * (a - average(a) - h * average(a * h)),
// the first average only if centred.
template <class T>
void layer_gradient(const NormRow& row, const T* g, const T* x, T mean, T rstd, T* __restrict gx,
                    T* __restrict gw, T* __restrict gb) {
  const T* w = static_cast<const T*>(row.weight);
  int64_t n = row.parts;
  if (gw && gb)
    for (int64_t i = 0; i < n; ++i) {
      gw[i] += g[i] * (x[i] - mean) * rstd;
      gb[i] += g[i];
    }
  else if (gw)
    for (int64_t i = 0; i < n; ++i) gw[i] += g[i] * (x[i] - mean) * rstd;
  else if (gb)
    for (int64_t i = 0; i < n; ++i) gb[i] += g[i];
  if (!gx) return;
  T sum = 0, dot;
  if (w) {
    if (row.centred) sum = sum_of<T>(n, [g, w](int64_t i) { return g[i] * w[i]; });
    dot = sum_of<T>(n, [g, w, x, mean](int64_t i) { return g[i] * w[i] * (x[i] - mean); });
  } else {
    if (row.centred) sum = fold<Add>(g, n);
    dot = sum_of<T>(n, [g, x, mean](int64_t i) { return g[i] * (x[i] - mean); });
  }
  T average = sum / static_cast<T>(n), slope = dot * rstd * rstd / static_cast<T>(n);
  if (w)
    for (int64_t i = 0; i < n; ++i) gx[i] = rstd * (g[i] * w[i] - average - (x[i] - mean) * slope);
  else
    for (int64_t i = 0; i < n; ++i) gx[i] = rstd * (g[i] - average - (x[i] - mean) * slope);
}

template <class T>
void group_gradient(const NormRow& row, const T* g, const T* x, T mean, T rstd, T* gx, T* gw,
                    T* gb) {
  const T* w = static_cast<const T*>(row.weight);
  int64_t n = row.n;
  T sum = 0, dot = 0;
  for (int64_t c = 0; c < row.parts; ++c) {
    const T *gc = g + c * n, *xc = x + c * n;
    T total = fold<Add>(gc, n);
    T product = sum_of<T>(n, [gc, xc, mean](int64_t i) { return gc[i] * (xc[i] - mean); });
    if (gw) gw[c] += product * rstd;
    if (gb) gb[c] += total;
    sum += w ? total * w[c] : total;
    dot += w ? product * w[c] : product;
  }
  if (!gx) return;
  T count = static_cast<T>(row.parts * n), average = sum / count, slope = dot * rstd * rstd / count;
  for (int64_t c = 0; c < row.parts; ++c, g += n, x += n, gx += n) {
    T scale = w ? w[c] : T(1);
    for (int64_t i = 0; i < n; ++i) gx[i] = rstd * (g[i] * scale - average - (x[i] - mean) * slope);
  }
}

template <class T>
void gradient(const NormRow& row, const void* grad, const void* in, const void* mean,
              const void* rstd, void* grad_x, void* grad_weight, void* grad_bias) {
  auto typed = row.n == 1 ? layer_gradient<T> : group_gradient<T>;
  typed(row, static_cast<const T*>(grad), static_cast<const T*>(in), *static_cast<const T*>(mean),
        *static_cast<const T*>(rstd), static_cast<T*>(grad_x), static_cast<T*>(grad_weight),
        static_cast<T*>(grad_bias));
}

}  // namespace

void norm_statistics(const NormRow& row, const void* x, double eps, void* mean, void* rstd) {
  auto typed = row.element == DType::Float64 ? statistics<double> : statistics<float>;
  typed(row, x, eps, mean, rstd);
}
void norm_forward(const NormRow& row, const void* x, const void* mean, const void* rstd, void* y) {
  auto typed = row.element == DType::Float64 ? forward<double> : forward<float>;
  typed(row, x, mean, rstd, y);
}
void norm_gradient(const NormRow& row, const void* grad, const void* x, const void* mean,
                   const void* rstd, void* grad_x, void* grad_weight, void* grad_bias) {
  auto typed = row.element == DType::Float64 ? gradient<double> : gradient<float>;
  typed(row, grad, x, mean, rstd, grad_x, grad_weight, grad_bias);
}

}  // namespace rl::kernels::RL_ISA
