#include "core/mersenne_twister.h"
#include "kernels/cpu/random_loops.h"
#include "math/arithmetic.h"

namespace rl::kernels::RL_ISA {

using math::bit_cast;
using math::where;

namespace {

// The logarithm and the sine and cosine of the Cephes library in single precision (S. Moshier),
// with fused multiply-adds wherever a product is added: PyTorch's exact arithmetic. Every fma is
// spelled out and no other product is added to anything, so compilers cannot round differently.
RL_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// x in (0, 1].
RL_INLINE float cephes_log(float x) {
  int32_t bits = bit_cast<int32_t>(x);
  float e = static_cast<float>((bits >> 23) - 126);
  float m = bit_cast<float>((bits & 0x007fffff) | 0x3f000000);  // in [1/2, 1)
  bool low = m < 0.707106781186547524f;
  e = where(low, e - 1.0f, e);
  m = where(low, (m - 1.0f) + m, m - 1.0f);
  float z = m * m;
  float y = 7.0376836292e-2f;
  y = fma(y, m, -1.1514610310e-1f);
  y = fma(y, m, 1.1676998740e-1f);
  y = fma(y, m, -1.2420140846e-1f);
  y = fma(y, m, 1.4249322787e-1f);
  y = fma(y, m, -1.6668057665e-1f);
  y = fma(y, m, 2.0000714765e-1f);
  y = fma(y, m, -2.4999993993e-1f);
  y = fma(y, m, 3.3333331174e-1f);
  y = fma(y * m, z, e * -2.12194440e-4f);
  y = fma(z, -0.5f, y);
  return fma(e, 0.693359375f, m + y);
}

struct SineCosine {
  float sine, cosine;
};
// x in [0, 2 pi).
RL_INLINE SineCosine cephes_sincos(float x) {
  int32_t octant = (static_cast<int32_t>(x * 1.27323954473516f) + 1) & ~1;
  float j = static_cast<float>(octant);
  x = fma(j, -0.78515625f, x);
  x = fma(j, -2.4187564849853515625e-4f, x);
  x = fma(j, -3.77489497744594108e-8f, x);
  float z = x * x;
  float c = 2.443315711809948e-5f;
  c = fma(c, z, -1.388731625493765e-3f);
  c = fma(c, z, 4.166664568298827e-2f);
  c = fma(c * z, z, z * -0.5f) + 1.0f;
  float s = -1.9515295891e-4f;
  s = fma(s, z, 8.3321608736e-3f);
  s = fma(s, z, -1.6666654611e-1f);
  s = fma(s * z, x, x);
  bool swap = (octant & 2) != 0;
  uint32_t quarter = static_cast<uint32_t>(octant);
  uint32_t sine_sign = (quarter & 4) << 29, cosine_sign = ((quarter + 2) & 4) << 29;
  return {bit_cast<float>(bit_cast<uint32_t>(where(swap, c, s)) ^ sine_sign),
          bit_cast<float>(bit_cast<uint32_t>(where(swap, s, c)) ^ cosine_sign)};
}

// Of two words, the upper first.
RL_INLINE int64_t bits53(const uint32_t* words) {
  return static_cast<int64_t>(words[0] & 0x1fffffu) << 32 | words[1];
}

}  // namespace

void twist_words(uint32_t* state) { twist(state); }

void temper_words(const uint32_t* words, uint32_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = temper(words[i]);
}

void below_threshold(const uint32_t* words, uint8_t* out, int64_t n, int64_t threshold) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = bits53(words + 2 * i) < threshold;
  }
}

void uniform_floats(const uint32_t* words, float* out, int64_t n, float low, float span) {
  for (int64_t i = 0; i < n; ++i) {
    int32_t bits = static_cast<int32_t>(words[i] & 0xffffffu);
    out[i] = fma(static_cast<float>(bits) * 0x1p-24f, span, low);
  }
}

void uniform_doubles(const uint32_t* words, double* out, int64_t n, double low, double span) {
  for (int64_t i = 0; i < n; ++i) {
    double fraction = static_cast<double>(bits53(words + 2 * i)) * 0x1p-53;
    out[i] = __builtin_fma(fraction, span, low);
  }
}

void normal_blocks(float* data, int64_t blocks, float mean, float std) {
  constexpr int64_t together = 8;  // blocks, so that the widest vectors are full
  float radius[8 * together], angle[8 * together];
  for (int64_t block = 0; block < blocks; block += together) {
    float* x = data + 16 * block;
    int64_t count = blocks - block < together ? blocks - block : together;
    for (int64_t b = 0; b < count; ++b)
      for (int i = 0; i < 8; ++i) {
        radius[8 * b + i] = x[16 * b + i];
        angle[8 * b + i] = x[16 * b + 8 + i];
      }
    for (int64_t i = 0; i < 8 * count; ++i) {
      float r = __builtin_sqrtf(-2.0f * cephes_log(1.0f - radius[i]));
      SineCosine direction = cephes_sincos(6.28318530717958647693f * angle[i]);
      radius[i] = fma(r * direction.cosine, std, mean);
      angle[i] = fma(r * direction.sine, std, mean);
    }
    for (int64_t b = 0; b < count; ++b)
      for (int i = 0; i < 8; ++i) {
        x[16 * b + i] = radius[8 * b + i];
        x[16 * b + 8 + i] = angle[8 * b + i];
      }
  }
}

}  // namespace rl::kernels::RL_ISA
