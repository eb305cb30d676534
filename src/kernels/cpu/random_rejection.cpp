// Samplers that draw until they accept: Poisson, binomial, gamma, and Dirichlet from gammas.
#include <cmath>
#include <vector>

#include "kernels/cpu/random_fill.h"
#include "kernels/random.h"

namespace rl::kernels {

namespace {

double log_gamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// Hoermann's transformed rejection (PTRS, 1993) from rate 10 on; below, the number of uniforms
// whose product stays above exp(-rate).
int64_t draw_poisson(double rate, Generator& generator) {
  check(rate >= 0, "poisson: rates must not be negative, got ", rate);
  if (rate == 0) return 0;
  if (rate < 10) {
    double limit = std::exp(-rate), product = 1;
    for (int64_t k = 0;; ++k) {
      product *= fraction53(generator);
      if (!(product > limit)) return k;
    }
  }
  double log_rate = std::log(rate);
  double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    double u = fraction53(generator) - 0.5, v = fraction53(generator);
    double us = 0.5 - std::fabs(u);
    int64_t k = static_cast<int64_t>(std::floor((2 * a / us + b) * u + rate + 0.43));
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    double x = static_cast<double>(k);
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -rate + x * log_rate - log_gamma(x + 1))
      return k;
  }
}

// log(k!) less Stirling's approximation, exact to the precision of Hoermann's test.
double stirling_tail(double k) {
  static constexpr double table[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983,
                                     0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
                                     0.0118967099458917,  0.0104112652619720, 0.00925546218271273,
                                     0.00833056343336287};
  if (k < 10) return table[static_cast<int>(k)];
  double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// Sums geometric waiting times.
template <class T> T binomial_by_waiting(T count, T prob, Generator& generator) {
  double scale = std::log1p(-prob), waited = 0;
  for (T k = 0;; k = k + 1) {
    waited += std::ceil(std::log(fraction53(generator)) / scale);
    if (waited > count) return k;
  }
}

// Hoermann's BTRS (1993). The products of T are rounded in T, as PyTorch's are.
template <class T> T binomial_by_rejection(T count, T prob, Generator& generator) {
  const double deviation = std::sqrt(count * prob * (1 - prob));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * prob;
  const double c = count * prob + 0.5, v_r = 0.92 - 4.2 / b, r = prob / (1 - prob);
  const double alpha = (2.83 + 5.1 / b) * deviation, m = std::floor((count + 1) * prob);
  for (;;) {
    double u = fraction53(generator) - 0.5, v = fraction53(generator);
    double us = 0.5 - std::fabs(u);
    T k = static_cast<T>(std::floor((2 * a / us + b) * u + c));
    if (k < 0 || k > count) continue;
    if (us >= 0.07 && v <= v_r) return k;
    v = std::log(v * alpha / (a / (us * us) + b));
    double bound = (m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) +
                   (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                   (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                   stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
    if (v <= bound) return k;
  }
}

template <class T> T draw_binomial(T count, T prob, Generator& generator) {
  if (count <= 0 || prob <= 0) return 0;
  if (prob >= 1) return count;
  if (std::isnan(prob) || std::isnan(count)) return std::numeric_limits<T>::quiet_NaN();
  T rarer = prob <= T(0.5) ? prob : static_cast<T>(1.0 - prob);
  T k = count * rarer >= 10 ? binomial_by_rejection(count, rarer, generator)
                            : binomial_by_waiting(count, rarer, generator);
  return prob <= T(0.5) ? k : count - k;
}

// Marsaglia and Tsang (2000); below 1, from the gamma of alpha + 1. `alpha` and what is derived
// from it alone is rounded as T.
template <class T> T draw_gamma(T alpha, Generator& generator) {
  double scale = 1;
  if (alpha < 1) {
    if (alpha == 0) return 0;
    scale = std::pow(1 - fraction53(generator), T(1) / alpha);
    alpha += T(1);
  }
  const double d = alpha - T(1.0f / 3.0f), c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x, y;
    do {
      x = scalar_normal(generator, 0, 1);
      y = 1 + c * x;
    } while (y <= 0);
    double v = y * y * y, u = 1 - fraction53(generator), xx = x * x;
    if (u < 1 - double(0.0331f) * xx * xx || std::log(u) < 0.5 * xx + d * (1 - v + std::log(v)))
      return static_cast<T>(scale * d * v);
  }
}

}  // namespace

void poisson(const View& rate, const View& out, Generator& generator) {
  visit_floating("poisson", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_serially<T, T>(out, rate, generator, [&](T r) {
      return convert<T>(draw_poisson(convert<double>(r), generator));
    });
  });
}

void binomial(const View& count, const View& prob, const View& out, Generator& generator) {
  visit<float, double>("binomial", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    zip_serially<T>(out, count, prob, generator,
                    [&](T n, T p) { return draw_binomial(n, p, generator); });
  });
}

void standard_gamma(const View& alpha, const View& out, Generator& generator) {
  visit<float, double>("_standard_gamma", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_serially<T, T>(out, alpha, generator, [&](T a) {
      return std::max(std::numeric_limits<T>::min(), draw_gamma(a, generator));
    });
  });
}

// Gammas in double, normalised, and kept off 0 and 1.
void dirichlet(const View& alpha, const View& out, Generator& generator) {
  if (out.numel == 0) return;
  visit<float, double>("_sample_dirichlet", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Dims strides = contiguous_strides(out.shape());
    std::vector<double> gammas(static_cast<size_t>(out.numel));
    View gamma = out;
    gamma.data = gammas.data();
    gamma.strides = strides.data();
    gamma.dtype = DType::Float64;
    {
      GeneratorLock lock(generator);
      for_each_run<2>({&gamma, &alpha}, [&](auto data, auto step, int64_t n) {
        double* to = reinterpret_cast<double*>(data[0]);
        const T* a = reinterpret_cast<const T*>(data[1]);
        for (int64_t i = 0; i < n; ++i)
          to[i * step[0]] = draw_gamma(static_cast<double>(a[i * step[1]]), generator);
      });
    }
    int64_t length = out.sizes[out.ndim - 1];
    for (int64_t row = 0; row < out.numel; row += length) {
      double sum = 0;
      for (int64_t i = 0; i < length; ++i) sum += gammas[static_cast<size_t>(row + i)];
      for (int64_t i = 0; i < length; ++i) gammas[static_cast<size_t>(row + i)] /= sum;
    }
    for_each_run<2>({&gamma, &out}, [&](auto data, auto step, int64_t n) {
      const double* from = reinterpret_cast<const double*>(data[0]);
      T* to = reinterpret_cast<T*>(data[1]);
      const T low = std::numeric_limits<T>::min(), high = std::nextafter(T(1), T(0));
      for (int64_t i = 0; i < n; ++i)
        to[i * step[1]] = std::min(high, std::max(low, static_cast<T>(from[i * step[0]])));
    });
  });
}

}  // namespace rl::kernels
