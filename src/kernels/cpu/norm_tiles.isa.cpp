#include "kernels/cpu/norm_tiles.h"

#include <algorithm>

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

// Sums of more elements than a block has are sums of its blocks' in double: float32's own sum of
// millions of elements has only four digits.
constexpr int64_t block = 8192;

template <class T, class... F> T sum_of_row(const T* x, int64_t n, F... f) {
  if (n <= block) return fold<Add>(x, n, f...);
  double total = 0;
  for (int64_t i = 0; i < n; i += block) total += fold<Add>(x + i, std::min(block, n - i), f...);
  return static_cast<T>(total);
}

RL_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
RL_INLINE double square_root(double x) { return __builtin_sqrt(x); }

// The loops of a row of layer and RMS norm, whose channels are elements, and of group norm, whose
// channels are runs of n.
template <class T> struct Layer {
  static void forward(const NormRows& rows, const T* x, T mean, T rstd, T* y) {
    const T *w = static_cast<const T*>(rows.weight), *b = static_cast<const T*>(rows.bias);
    for_offsets<T>(rows.parts,
                   [=](auto at) { at.put(y, mul_add((at(x) - mean) * rstd, at(w), at(b))); });
  }
  // The sums of a = g * weight and of a * (x - mean).
  static void sums(const NormRows& rows, const T* g, const T* x, T mean, T rstd, T* grad_weight,
                   T* grad_bias, T* sum, T* dot) {
    const T* w = static_cast<const T*>(rows.weight);
    double total = 0, product = 0;
    for (int64_t left = rows.parts; left > 0; left -= block) {
      Sum<T> all, products;
      for_offsets<T>(std::min(block, left), [&](auto at) {
        auto slope = at(g), distance = at(x) - mean, weighted = slope * at(w);
        at.put(grad_weight, mul_add(slope * distance, rstd, at(grad_weight)));
        at.put(grad_bias, at(grad_bias) + slope);
        all.add(at, weighted);
        products.add(at, weighted * distance);
      });
      total += all.total();
      product += products.total();
      g += block, x += block, w += block, grad_weight += block, grad_bias += block;
    }
    *sum = static_cast<T>(total);
    *dot = static_cast<T>(product);
  }
  static void backward(const NormRows& rows, const T* g, const T* x, T mean, T rstd, T average,
                       T slope, T* grad_x) {
    const T* w = static_cast<const T*>(rows.weight);
    for_offsets<T>(rows.parts, [=](auto at) {
      auto rest = mul_add(at(g), at(w), -average);
      at.put(grad_x, rstd * mul_add(mean - at(x), slope, rest));
    });
  }
};

template <class T> struct Group {
  static void forward(const NormRows& rows, const T* x, T mean, T rstd, T* y) {
    const T *w = static_cast<const T*>(rows.weight), *b = static_cast<const T*>(rows.bias);
    for (int64_t c = 0; c < rows.parts; ++c, x += rows.n, y += rows.n) {
      T scale = rstd * w[c], shift = b[c];
      for_offsets<T>(rows.n, [=](auto at) { at.put(y, mul_add(at(x) - mean, scale, shift)); });
    }
  }
  static void sums(const NormRows& rows, const T* g, const T* x, T mean, T rstd, T* grad_weight,
                   T* grad_bias, T* sum, T* dot) {
    const T* w = static_cast<const T*>(rows.weight);
    *sum = *dot = 0;
    for (int64_t c = 0; c < rows.parts; ++c) {
      double total = 0, product = 0;
      for (int64_t left = rows.n, n; left > 0; left -= n, g += n, x += n) {
        n = std::min(block, left);
        Sum<T> all, products;
        for_offsets<T>(n, [&](auto at) {
          auto slope = at(g);
          all.add(at, slope);
          products.add(at, slope * (at(x) - mean));
        });
        total += all.total();
        product += products.total();
      }
      T whole = static_cast<T>(total), dots = static_cast<T>(product);
      grad_weight[c] += dots * rstd;
      grad_bias[c] += whole;
      *sum += whole * w[c];
      *dot += dots * w[c];
    }
  }
  static void backward(const NormRows& rows, const T* g, const T* x, T mean, T rstd, T average,
                       T slope, T* grad_x) {
    const T* w = static_cast<const T*>(rows.weight);
    for (int64_t c = 0; c < rows.parts; ++c, g += rows.n, x += rows.n, grad_x += rows.n) {
      T scale = w[c];
      for_offsets<T>(rows.n, [=](auto at) {
        auto rest = mul_add(at(g), scale, -average);
        at.put(grad_x, rstd * mul_add(mean - at(x), slope, rest));
      });
    }
  }
};

template <class T, class Row>
void forward(const NormRows& rows, const T* x, double eps, T* y, T* means, T* rstds) {
  int64_t n = rows.parts * rows.n;
  for (int64_t r = 0; r < rows.count; ++r, x += n, y += n) {
    T mean = 0;
    if (rows.centred) means[r] = mean = sum_of_row(x, n) / static_cast<T>(n);
    T squares = sum_of_row(x, n, [mean](auto v) { return (v - mean) * (v - mean); });
    rstds[r] = T(1) / square_root(squares / static_cast<T>(n) + static_cast<T>(eps));
    Row::forward(rows, x, mean, rstds[r], y);
  }
}

// With h = (x - mean) * rstd and a = g * weight:
//   grad_x = rstd * (a - average(a) - h * average(a * h)),
// the first average only if centred.
template <class T, class Row>
void gradient(const NormRows& rows, const T* g, const T* x, const T* means, const T* rstds,
              T* grad_x, T* grad_weight, T* grad_bias) {
  int64_t n = rows.parts * rows.n;
  for (int64_t r = 0; r < rows.count; ++r, g += n, x += n) {
    T mean = rows.centred ? means[r] : T(0), rstd = rstds[r], sum, dot;
    Row::sums(rows, g, x, mean, rstd, grad_weight, grad_bias, &sum, &dot);
    if (!grad_x) continue;
    T average = rows.centred ? sum / static_cast<T>(n) : T(0);
    T slope = dot * rstd * rstd / static_cast<T>(n);
    Row::backward(rows, g, x, mean, rstd, average, slope, grad_x + r * n);
  }
}

// f(element, struct of the row's loops)
template <class F> void typed(const NormRows& rows, F f) {
  if (rows.element == DType::Float64)
    return rows.n == 1 ? f(double(), Layer<double>()) : f(double(), Group<double>());
  rows.n == 1 ? f(float(), Layer<float>()) : f(float(), Group<float>());
}

}  // namespace

void norm_forward(const NormRows& rows, const void* x, double eps, void* y, void* mean,
                  void* rstd) {
  typed(rows, [&](auto element, auto row) {
    using T = decltype(element);
    forward<T, decltype(row)>(rows, static_cast<const T*>(x), eps, static_cast<T*>(y),
                              static_cast<T*>(mean), static_cast<T*>(rstd));
  });
}

void norm_gradient(const NormRows& rows, const void* grad, const void* x, const void* mean,
                   const void* rstd, void* grad_x, void* grad_weight, void* grad_bias) {
  typed(rows, [&](auto element, auto row) {
    using T = decltype(element);
    gradient<T, decltype(row)>(rows, static_cast<const T*>(grad), static_cast<const T*>(x),
                               static_cast<const T*>(mean), static_cast<const T*>(rstd),
                               static_cast<T*>(grad_x), static_cast<T*>(grad_weight),
                               static_cast<T*>(grad_bias));
  });
}

}  // namespace rl::kernels::RL_ISA
