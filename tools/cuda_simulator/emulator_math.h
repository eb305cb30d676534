// The mathematical functions of a device, by the compiler's, for kernels that run in the emulator.
#pragma once

#define RL_FUNCTIONS_OF_ONE(X)                                                                     \
  X(exp)                                                                                           \
  X(exp2) X(expm1) X(log) X(log1p) X(log2) X(log10) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan)   \
      X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(sqrt) X(cbrt) X(floor) X(ceil) X(trunc) \
          X(rint) X(fabs) X(erf) X(erfc) X(lgamma) X(tgamma) X(j0) X(j1) X(y0) X(y1)
#define RL_FUNCTIONS_OF_TWO(X) \
  X(pow) X(atan2) X(fmod) X(hypot) X(copysign) X(nextafter) X(fmin) X(fmax) X(remainder)

#define RL_ONE(name)                                               \
  inline float name##f(float x) { return __builtin_##name##f(x); } \
  inline float name(float x) { return __builtin_##name##f(x); }    \
  inline double name(double x) { return __builtin_##name(x); }
RL_FUNCTIONS_OF_ONE(RL_ONE)
#undef RL_ONE
#define RL_TWO(name)                                                           \
  inline float name##f(float x, float y) { return __builtin_##name##f(x, y); } \
  inline float name(float x, float y) { return __builtin_##name##f(x, y); }    \
  inline double name(double x, double y) { return __builtin_##name(x, y); }
RL_FUNCTIONS_OF_TWO(RL_TWO)
#undef RL_TWO
inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline void* memcpy(void* to, const void* from, size_t n) { return __builtin_memcpy(to, from, n); }
