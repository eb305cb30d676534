// How a thread computes with numbers below the normal range (denormals).
#pragma once
#include <cstdint>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace rl {

// The bits of the control register by which results and operands below the normal range are taken
// for zero; 0 where the processor has no such register. Each thread has its own.
#if defined(__x86_64__)
inline constexpr unsigned flush_denormals = 0x8040;
inline unsigned floating_point_control() { return _mm_getcsr(); }
inline void set_floating_point_control(unsigned bits) { _mm_setcsr(bits); }
#elif defined(__aarch64__)
inline constexpr unsigned flush_denormals = 1u << 24;
inline unsigned floating_point_control() {
  uint64_t bits;
  __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
  return static_cast<unsigned>(bits);
}
inline void set_floating_point_control(unsigned bits) {
  __asm__ volatile("msr fpcr, %0" : : "r"(uint64_t(bits)));
}
#else
inline constexpr unsigned flush_denormals = 0;
inline unsigned floating_point_control() { return 0; }
inline void set_floating_point_control(unsigned) {}
#endif

inline unsigned denormal_mode() { return floating_point_control() & flush_denormals; }
inline void set_denormal_mode(unsigned mode) {
  set_floating_point_control((floating_point_control() & ~flush_denormals) | mode);
}

}  // namespace rl
