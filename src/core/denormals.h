// How a thread computes with numbers below the normal range (denormals).
#pragma once
#include <xmmintrin.h>

namespace rl {

// The two bits of the control register by which results and operands below the normal range are
// taken for zero. Each thread has its own register.
inline constexpr unsigned flush_denormals = 0x8040;

inline unsigned denormal_mode() { return _mm_getcsr() & flush_denormals; }
inline void set_denormal_mode(unsigned mode) {
  _mm_setcsr((_mm_getcsr() & ~flush_denormals) | mode);
}

}  // namespace rl
