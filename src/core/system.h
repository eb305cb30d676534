// What the core asks of the operating system, for each that has a way of its own.
#pragma once
#include <unistd.h>

#include <cstdint>
#ifndef __EMSCRIPTEN__
#include <sched.h>
#endif

namespace rl {

// Whether parts of a mapping can be given back, and mappings be on huge pages. WebAssembly has one
// growing block of memory, which malloc shares out.
#ifdef __EMSCRIPTEN__
inline constexpr bool has_virtual_memory = false;
#else
inline constexpr bool has_virtual_memory = true;
#endif

// The processors that this process may use.
inline int usable_processors() {
#ifdef __EMSCRIPTEN__
  return 1;
#else
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
#endif
}

// Bytes of the second cache, or 0 where the system does not say.
inline int64_t level2_cache_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  return sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
  return 0;
#endif
}

}  // namespace rl
