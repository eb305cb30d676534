// What the core asks of the processor itself, for each kind that has a way of its own.
#pragma once
#ifndef __x86_64__
#include <ctime>
#endif
#include <cstdint>

namespace rl {

// A counter that advances by about two in a nanosecond, for a fraction of what a clock costs where
// the processor has one.
inline uint64_t ticks() {
#ifdef __x86_64__
  return __builtin_ia32_rdtsc();
#else
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec)) * 2;
#endif
}

// In a loop that waits for another thread.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // yield does nothing on most processors; this takes some 40 cycles
#endif
}

}  // namespace rl
