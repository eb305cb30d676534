// Results that pass by the caches: streaming stores spare the reading of the lines they overwrite,
// 1.25x for sums of 4 MB and 1.5x for 64 MB, where a copy of 1 MB would take 1.2x as long. A result
// larger than the second-level cache is no longer there when it is read, streamed or not: add and
// sum together take the same time either way from 2 to 16 MB (2 MB of that cache).
#pragma once
#include <cstdint>

namespace rl::kernels {

// Computing and streaming overlap in short strips alone: from 16 MB on (and 2 MB of cache), exp
// gains too.
enum class Pass { Copy, Compute };

// Whether a result of so many bytes, written by all threads, is larger than what their caches keep.
bool worth_streaming(int64_t bytes, Pass pass);

// After the streaming stores of a thread: nobody sees what is written next before them.
[[gnu::always_inline]] inline void end_streaming() {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

}  // namespace rl::kernels
