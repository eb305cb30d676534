// Random numbers: Philox4x32 with 10 rounds, a subsequence a thread.
#pragma once
#include "kernels/cuda/device/prelude.cuh"
#include "kernels/cuda/device/random.h"
#include "math/philox.h"

namespace rl::cuda {

class Philox {
 public:
  __device__ Philox(const PhiloxSeed& from, uint64_t subsequence) {
    uint64_t seed = from.replayed ? from.replayed[0] : from.seed;
    uint64_t offset = from.offset + (from.replayed ? from.replayed[1] : 0);
    key_[0] = static_cast<unsigned>(seed);
    key_[1] = static_cast<unsigned>(seed >> 32);
    counter_[2] = static_cast<unsigned>(subsequence);
    counter_[3] = static_cast<unsigned>(subsequence >> 32);
    counter_[0] = static_cast<unsigned>(offset / 4);
    counter_[1] = static_cast<unsigned>(offset / 4 >> 32);
    left_ = 0;
  }
  __device__ unsigned next() {
    if (!left_) {
      draw();
      left_ = 4;
    }
    return out_[4 - left_--];
  }
  __device__ uint64_t next64() {
    uint64_t low = next();
    return low | static_cast<uint64_t>(next()) << 32;
  }
  // In (0, 1].
  __device__ float uniform() { return static_cast<float>(next()) * 0x1p-32f + 0x1p-33f; }
  __device__ double uniform_double() {
    return static_cast<double>(next64() >> 11) * 0x1p-53 + 0x1p-54;
  }

 private:
  __device__ void draw() {
    for (int i = 0; i < 4; ++i) out_[i] = counter_[i];
    math::philox(out_, key_[0], key_[1]);
    if (++counter_[0] == 0) ++counter_[1];
  }
  unsigned key_[2], counter_[4], out_[4];
  int left_;
};

// Words of one counter and the next: those of pack `place`, whatever the grid.
template <int count> struct PhiloxWords {
  unsigned words[count];

  __device__ PhiloxWords(const PhiloxSeed& from, uint64_t place) {
    uint64_t seed = from.replayed ? from.replayed[0] : from.seed;
    uint64_t offset = (from.offset + (from.replayed ? from.replayed[1] : 0)) / 4;
#pragma unroll
    for (int k = 0; k < count; k += 4, ++offset) {
      unsigned drawn[4] = {static_cast<unsigned>(offset), static_cast<unsigned>(offset >> 32),
                           static_cast<unsigned>(place), static_cast<unsigned>(place >> 32)};
      math::philox(drawn, static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32));
      for (int j = 0; j < 4; ++j) words[k + j] = drawn[j];
    }
  }
  __device__ uint64_t wide(int i) const {
    return words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
  }
  // In (0, 1].
  template <class T> __device__ T uniform(int i) const {
    if constexpr (sizeof(T) == 8) return static_cast<double>(wide(i) >> 11) * 0x1p-53 + 0x1p-54;
    else return static_cast<float>(words[i]) * 0x1p-32f + 0x1p-33f;
  }
};

// An element of a distribution, of a uniform number in (0, 1].
template <class T, class S, int kind> __device__ T distribute(T u, const DrawArgs& given) {
  T a = static_cast<T>(given.a), b = static_cast<T>(given.b);
  if constexpr (kind == DrawUniform) {
    T value = a + (u == T(1) ? T(0) : u) * static_cast<T>(given.b - given.a);
    // Rounding to S must not reach the end.
    return static_cast<T>(static_cast<S>(value)) >= b && given.b > given.a ? a : value;
  } else if constexpr (kind == DrawBernoulli) {
    return T(u <= a);
  } else if constexpr (kind == DrawExponential) {
    return -math::log(u) / a;
  } else if constexpr (kind == DrawCauchy) {
    return a + b * math::tan(T(3.141592653589793) * (u - T(0.5)));
  } else {
    static_assert(kind == DrawGeometric);
    T value = math::ceil(math::log(u) / math::log1p(-a));
    return value < T(1) ? T(1) : value;
  }
}
// The cosine and sine of an angle in turns: one reduction for both, without a multiple of pi.
#ifdef RL_EMULATOR
template <class T> void circle(T turns, T& cosine, T& sine) {
  cosine = math::cos(T(6.283185307179586) * turns);
  sine = math::sin(T(6.283185307179586) * turns);
}
#else
__device__ inline void circle(float turns, float& cosine, float& sine) {
  sincospif(2 * turns, &sine, &cosine);
}
__device__ inline void circle(double turns, double& cosine, double& sine) {
  sincospi(2 * turns, &sine, &cosine);
}
#endif
// Two normal numbers, or their exponentials, of two uniform ones.
template <class T, int kind> __device__ void distribute_pair(T& u, T& v, const DrawArgs& given) {
  T a = static_cast<T>(given.a), b = static_cast<T>(given.b), cosine, sine;
  T radius = math::sqrt(T(-2) * math::log(u));
  circle(v, cosine, sine);
  u = a + b * (radius * cosine);
  v = a + b * (radius * sine);
  if constexpr (kind == DrawLogNormal) {
    u = math::exp(u);
    v = math::exp(v);
  }
}

// Packs of operands without strides, or single elements by theirs.
__device__ inline bool is_whole(const Strided& v, size_t bytes) {
  return v.ndim <= 1 && (v.ndim == 0 || v.strides[0] == 1) &&
         reinterpret_cast<uintptr_t>(v.data) % bytes == 0;
}
template <class S, int count>
__device__ Pack<S, count> load_pack(const Strided& v, int64_t pack, bool whole) {
  const S* from = static_cast<const S*>(v.data);
  if (whole && (pack + 1) * count <= v.numel)
    return reinterpret_cast<const Pack<S, count>*>(from)[pack];
  Pack<S, count> loaded;
  for (int j = 0; j < count; ++j)
    loaded.values[j] =
        pack * count + j < v.numel ? from[offset_of(v, pack * count + j)] : static_cast<S>(0);
  return loaded;
}
template <class S, int count>
__device__ void store_pack(const Strided& v, int64_t pack, bool whole,
                           const Pack<S, count>& values) {
  S* to = static_cast<S*>(v.data);
  if (whole && (pack + 1) * count <= v.numel) {
    reinterpret_cast<Pack<S, count>*>(to)[pack] = values;
    return;
  }
  for (int j = 0; j < count && pack * count + j < v.numel; ++j)
    to[offset_of(v, pack * count + j)] = values.values[j];
}

// T computes: float, or double for double and int64. A thread takes packs of four neighbours, in
// row-major order, each with random words of its own.
template <class T, class S, int kind> __global__ void draw(Strided out, Strided p, DrawArgs a) {
  constexpr int count = 4;
  bool whole = is_whole(out, count * sizeof(S));
  for (int64_t pack = thread_id(); pack * count < out.numel; pack += thread_count()) {
    PhiloxWords<kind == DrawInteger || sizeof(T) == 8 ? 2 * count : count> random(
        a.seed, static_cast<uint64_t>(pack));
    Pack<S, count> result;
    if constexpr (kind == DrawInteger) {
      bool wide = a.range > 0xffffffffull || a.range == 0;
      for (int j = 0; j < count; ++j) {
        uint64_t bits = wide ? random.wide(j) : random.words[j];
        result.values[j] = convert<S>(static_cast<int64_t>(
            static_cast<uint64_t>(a.low) + (a.range ? bits % a.range : bits)));
      }
    } else {
      T values[count];
      for (int j = 0; j < count; ++j) values[j] = random.template uniform<T>(j);
      if constexpr (kind == DrawNormal || kind == DrawLogNormal) {
        for (int j = 0; j < count; j += 2) distribute_pair<T, kind>(values[j], values[j + 1], a);
      } else if constexpr (kind == DrawBernoulliEach) {
        for (int j = 0; j < count && pack * count + j < out.numel; ++j) {
          int64_t i = pack * count + j;
          double chance = load_as<double>(p.data, p.dtype, offset_of(p, i));
          if (!(chance >= 0 && chance <= 1)) report(a.fault, InvalidProbability, i, 0, 0);
          values[j] = T(static_cast<double>(values[j]) <= chance);
        }
      } else {
        for (int j = 0; j < count; ++j) values[j] = distribute<T, S, kind>(values[j], a);
      }
      for (int j = 0; j < count; ++j) result.values[j] = convert<S>(values[j]);
    }
    store_pack(out, pack, whole, result);
  }
}

// ---- dropout

// The words are those of a Bernoulli draw of the same elements.
template <class T, class S>
__global__ void drop_elements(Strided x, Strided out, Strided kept, double chance,
                              PhiloxSeed seed) {
  constexpr int count = 4;
  bool x_whole = is_whole(x, count * sizeof(S)), out_whole = is_whole(out, count * sizeof(S)),
       kept_whole = is_whole(kept, count);
  T limit = static_cast<T>(chance), scale = static_cast<T>(1 / chance);
  for (int64_t pack = thread_id(); pack * count < out.numel; pack += thread_count()) {
    PhiloxWords<sizeof(T) == 8 ? 2 * count : count> random(seed, static_cast<uint64_t>(pack));
    Pack<S, count> values = load_pack<S, count>(x, pack, x_whole);
    Pack<bool, count> keeps;
    for (int j = 0; j < count; ++j) {
      keeps.values[j] = random.template uniform<T>(j) <= limit;
      values.values[j] =
          static_cast<S>(static_cast<T>(values.values[j]) * (keeps.values[j] ? scale : T(0)));
    }
    store_pack(out, pack, out_whole, values);
    store_pack(kept, pack, kept_whole, keeps);
  }
}
template <class S>
__global__ void scale_kept_elements(Strided grad, Strided out, Strided kept, double chance) {
  using T = compute_t<S>;
  constexpr int count = 4;
  bool grad_whole = is_whole(grad, count * sizeof(S)), out_whole = is_whole(out, count * sizeof(S)),
       kept_whole = is_whole(kept, count);
  T scale = static_cast<T>(1 / chance);
  for (int64_t pack = thread_id(); pack * count < out.numel; pack += thread_count()) {
    Pack<S, count> values = load_pack<S, count>(grad, pack, grad_whole);
    Pack<bool, count> keeps = load_pack<bool, count>(kept, pack, kept_whole);
    for (int j = 0; j < count; ++j)
      values.values[j] =
          static_cast<S>(static_cast<T>(values.values[j]) * (keeps.values[j] ? scale : T(0)));
    store_pack(out, pack, out_whole, values);
  }
}

// ---- samplers that draw until they accept; each element has a sequence of its own

// Hoermann's transformed rejection (PTRS, 1993) from rate 10 on; below, the number of uniforms
// whose product stays above exp(-rate).
__device__ inline double sample_poisson(double rate, Philox& engine) {
  if (rate == 0) return 0;
  if (rate < 10) {
    double limit = math::exp(-rate), product = 1;
    for (int k = 0;; ++k) {
      product *= engine.uniform_double();
      if (!(product > limit)) return k;
    }
  }
  double log_rate = math::log(rate), b = 0.931 + 2.53 * math::sqrt(rate);
  double a = -0.059 + 0.02483 * b, inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  double accepted = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    double u = engine.uniform_double() - 0.5, v = engine.uniform_double();
    double us = 0.5 - math::abs(u), k = math::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= accepted) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (math::log(v) + math::log(inverse_alpha) - math::log(a / (us * us) + b) <=
        -rate + k * log_rate - math::lgamma(k + 1))
      return k;
  }
}
// log(k!) less Stirling's approximation.
__device__ inline double stirling_rest(double k) {
  if (k < 10)
    return math::lgamma(k + 1) - (0.91893853320467274 + (k + 0.5) * math::log(k + 1) - (k + 1));
  double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}
// Sums of geometric waiting times where few are expected, else Hoermann's BTRS (1993).
__device__ inline double sample_rarer(double count, double p, Philox& engine) {
  if (count * p < 10) {
    double scale = math::log1p(-p), waited = 0;
    for (double k = 0;; k += 1) {
      waited += math::ceil(math::log(engine.uniform_double()) / scale);
      if (waited > count) return k;
    }
  }
  double deviation = math::sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  double a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5, accepted = 0.92 - 4.2 / b;
  double r = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation, m = math::floor((count + 1) * p);
  for (;;) {
    double u = engine.uniform_double() - 0.5, v = engine.uniform_double();
    double us = 0.5 - math::abs(u), k = math::floor((2 * a / us + b) * u + c);
    if (k < 0 || k > count) continue;
    if (us >= 0.07 && v <= accepted) return k;
    double bound = (m + 0.5) * math::log((m + 1) / (r * (count - m + 1))) +
                   (count + 1) * math::log((count - m + 1) / (count - k + 1)) +
                   (k + 0.5) * math::log(r * (count - k + 1) / (k + 1)) + stirling_rest(m) +
                   stirling_rest(count - m) - stirling_rest(k) - stirling_rest(count - k);
    if (math::log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}
__device__ inline double sample_binomial(double count, double p, Philox& engine) {
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (p != p || count != count) return math::quiet_nan<double>;
  return p <= 0.5 ? sample_rarer(count, p, engine) : count - sample_rarer(count, 1 - p, engine);
}
// Marsaglia and Tsang (2000); below 1, from the gamma of alpha + 1.
__device__ inline double sample_gamma(double alpha, Philox& engine) {
  double scale = 1;
  if (alpha < 1) {
    if (alpha == 0) return 0;
    scale = math::pow(engine.uniform_double(), 1 / alpha);
    alpha += 1;
  }
  double d = alpha - 1.0 / 3, c = 1 / math::sqrt(9 * d);
  for (;;) {
    double u = engine.uniform_double(), v = engine.uniform_double();
    double x = math::sqrt(-2 * math::log(u)) * math::cos(6.283185307179586 * v), y = 1 + c * x;
    if (y <= 0) continue;
    double cube = y * y * y, w = engine.uniform_double(), square = x * x;
    if (w < 1 - 0.0331 * square * square ||
        math::log(w) < 0.5 * square + d * (1 - cube + math::log(cube)))
      return scale * d * cube;
  }
}

template <class T, int kind>
__global__ void draw_rejecting(Strided out, Strided first, Strided second, RejectionArgs a) {
  for (int64_t i = thread_id(); i < out.numel; i += thread_count()) {
    Philox engine(a.seed, static_cast<uint64_t>(i));
    double x = load_as<double>(first.data, first.dtype, offset_of(first, i)), value;
    if constexpr (kind == RejectPoisson) {
      if (!(x >= 0)) report(a.fault, InvalidRate, 0, 0, 0);
      value = x >= 0 ? sample_poisson(x, engine) : 0;
    } else if constexpr (kind == RejectBinomial) {
      double p = load_as<double>(second.data, second.dtype, offset_of(second, i));
      value = sample_binomial(x, p, engine);
    } else {
      value = sample_gamma(x, engine);
      double least = std::numeric_limits<compute_t<T>>::min();
      if (value < least) value = least;
    }
    static_cast<T*>(out.data)[offset_of(out, i)] = static_cast<T>(value);
  }
}

// Rows become shares of their sums, off 0 and 1.
template <class T> __global__ void normalize_rows(const double* gammas, Strided out, int64_t length) {
  for (int64_t i = thread_id(); i < out.numel; i += thread_count()) {
    const double* row = gammas + i / length * length;
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) sum += row[k];
    T share = static_cast<T>(gammas[i] / sum), low = std::numeric_limits<T>::min();
    T high = T(1) - std::numeric_limits<T>::epsilon() / 2;
    static_cast<T*>(out.data)[offset_of(out, i)] = share < low ? low : share > high ? high : share;
  }
}

// ---- categories

// A row of probabilities is not negative, finite, and not all zero; its sums are those so far.
template <int unused>
__global__ void check_categories(const double* sums, const double* p, int64_t rows, int64_t count,
                                 FaultPlace fault) {
  for (int64_t i = thread_id(); i < rows * count; i += thread_count()) {
    bool right = p[i] >= 0 && p[i] < math::infinity<double>;
    if (i % count == count - 1) right = right && sums[i] > 0;
    if (!right) report(fault, InvalidProbability, 0, 0, 0);
  }
}
template <int unused>
__global__ void choose_categories(const double* sums, int64_t count, Strided out, int64_t each,
                                  RejectionArgs a) {
  for (int64_t i = thread_id(); i < out.numel; i += thread_count()) {
    const double* row = sums + i / each * count;
    Philox engine(a.seed, static_cast<uint64_t>(i));
    double wanted = engine.uniform_double() * row[count - 1];
    int64_t low = 0, high = count - 1;
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (row[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    static_cast<int64_t*>(out.data)[offset_of(out, i)] = low;
  }
}
// Exponential races: the largest of p / e are samples without replacement.
template <int unused>
__global__ void race_categories(double* p, int64_t total, RejectionArgs a) {
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    Philox engine(a.seed, static_cast<uint64_t>(i));
    double waited = -math::log(engine.uniform_double());
    p[i] = p[i] > 0 ? p[i] / (waited > 0 ? waited : 1e-300) : 0;
  }
}

template <class T>
__global__ void arange_elements(T* out, int64_t count, double start, double step) {
  for (int64_t i = thread_id(); i < count; i += thread_count())
    out[i] = static_cast<T>(static_cast<compute_t<T>>(start + step * static_cast<double>(i)));
}
template <class T>
__global__ void linspace_elements(T* out, int64_t count, double start, double end) {
  using C = compute_t<T>;
  C first = static_cast<C>(start), last = static_cast<C>(end);
  C step = count > 1 ? (last - first) / static_cast<C>(count - 1) : C(0);
  for (int64_t i = thread_id(); i < count; i += thread_count())
    out[i] = static_cast<T>(i < count / 2 || count == 1
                                ? math::plus_product(first, step, static_cast<C>(i))
                                : math::minus_product(last, step, static_cast<C>(count - 1 - i)));
}

}  // namespace rl::cuda
