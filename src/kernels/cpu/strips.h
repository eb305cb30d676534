// The compiled loops of a formula, one for each instruction set and dtype.
#pragma once
#include "kernels/cpu/isa.h"
#include "kernels/elementwise.h"

namespace rl::kernels {

struct HostStrips {
  const StripFunction* by_isa[3];  // by DType; nullptr where the formula makes no sense
};

// Defines the Loop `id` from its compiled parts.
#ifdef RL_ISA_ONLY
#define RL_LOOP(id, shown, operands, numbers, dtypes)                                  \
  namespace RL_ISA_ONLY {                                                              \
  extern const StripFunction id##_strips[dtype_count];                                 \
  }                                                                                    \
  static constexpr HostStrips id##_host{                                               \
      {RL_ISA_ONLY::id##_strips, RL_ISA_ONLY::id##_strips, RL_ISA_ONLY::id##_strips}}; \
  extern const Loop id;                                                                \
  const Loop id{shown, operands, numbers, dtypes, &id##_host};
#else
#define RL_LOOP(id, shown, operands, numbers, dtypes)                \
  namespace sse42 {                                                  \
  extern const StripFunction id##_strips[dtype_count];               \
  }                                                                  \
  namespace avx2 {                                                   \
  extern const StripFunction id##_strips[dtype_count];               \
  }                                                                  \
  namespace avx512 {                                                 \
  extern const StripFunction id##_strips[dtype_count];               \
  }                                                                  \
  static constexpr HostStrips id##_host{                             \
      {sse42::id##_strips, avx2::id##_strips, avx512::id##_strips}}; \
  extern const Loop id;                                              \
  const Loop id{shown, operands, numbers, dtypes, &id##_host};
#endif

}  // namespace rl::kernels
