// Random numbers: Philox4x32 with 10 rounds, a subsequence a thread.
#pragma once
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

class Philox {
 public:
  __device__ Philox(uint64_t seed, uint64_t subsequence, uint64_t offset) {
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
    unsigned c[4] = {counter_[0], counter_[1], counter_[2], counter_[3]};
    unsigned k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 10; ++round) {
      unsigned high0 = __umulhi(0xD2511F53u, c[0]), low0 = 0xD2511F53u * c[0];
      unsigned high1 = __umulhi(0xCD9E8D57u, c[2]), low1 = 0xCD9E8D57u * c[2];
      unsigned next[4] = {high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0};
      for (int i = 0; i < 4; ++i) c[i] = next[i];
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; ++i) out_[i] = c[i];
    if (++counter_[0] == 0) ++counter_[1];
  }
  unsigned key_[2], counter_[4], out_[4];
  int left_;
};

enum Distribution : int {
  DrawUniform,
  DrawNormal,
  DrawBernoulli,
  DrawExponential,
  DrawCauchy,
  DrawLogNormal,
  DrawGeometric,
  DrawInteger,
  DrawBernoulliEach
};
struct DrawArgs {
  int distribution;
  double a, b;
  int64_t low;
  uint64_t range;
  uint64_t seed, offset;
  FaultPlace fault;
};

// T computes: float, or double for double. Element i of the output, in row-major order, belongs to
// thread i of the grid and its strides.
template <class T, class S> __global__ void draw(Strided out, Strided p, DrawArgs a) {
  Philox engine(a.seed, static_cast<uint64_t>(thread_id()), a.offset);
  for (int64_t i = thread_id(); i < out.numel; i += thread_count()) {
    T u;
    if constexpr (sizeof(T) == 8) u = engine.uniform_double();
    else u = engine.uniform();
    T value = T(0);
    int64_t whole = 0;
    bool is_whole = false;
    switch (a.distribution) {
      case DrawUniform: {
        T one = u == T(1) ? T(0) : u;  // [0, 1)
        value = static_cast<T>(a.a) + one * static_cast<T>(a.b - a.a);
        // Rounding to S must not reach the end.
        if (static_cast<T>(static_cast<S>(value)) >= static_cast<T>(a.b) && a.b > a.a)
          value = static_cast<T>(a.a);
        break;
      }
      case DrawNormal:
      case DrawLogNormal: {
        T v;
        if constexpr (sizeof(T) == 8) v = engine.uniform_double();
        else v = engine.uniform();
        T normal = math::sqrt(T(-2) * math::log(u)) * math::cos(T(6.283185307179586) * v);
        value = static_cast<T>(a.a) + static_cast<T>(a.b) * normal;
        if (a.distribution == DrawLogNormal) value = math::exp(value);
        break;
      }
      case DrawBernoulli: value = T(u <= static_cast<T>(a.a)); break;
      case DrawBernoulliEach: {
        double chance = load_as<double>(p.data, p.dtype, offset_of(p, i));
        if (!(chance >= 0 && chance <= 1)) report(a.fault, InvalidProbability, i, 0, 0);
        value = T(static_cast<double>(u) <= chance);
        break;
      }
      case DrawExponential: value = -math::log(u) / static_cast<T>(a.a); break;
      case DrawCauchy:
        value = static_cast<T>(a.a) +
                static_cast<T>(a.b) * math::tan(T(3.141592653589793) * (u - T(0.5)));
        break;
      case DrawGeometric:
        value = math::ceil(math::log(u) / math::log1p(static_cast<T>(-a.a)));
        if (value < T(1)) value = T(1);
        break;
      default: {
        uint64_t bits = a.range > 0xffffffffull || a.range == 0 ? engine.next64() : engine.next();
        whole = static_cast<int64_t>(static_cast<uint64_t>(a.low) +
                                     (a.range ? bits % a.range : bits));
        is_whole = true;
      }
    }
    int64_t at = offset_of(out, i);
    static_cast<S*>(out.data)[at] = is_whole ? convert<S>(whole) : convert<S>(value);
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
