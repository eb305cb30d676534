// The compiled loops of a formula, one for each instruction set and dtype.
#pragma once
#include "kernels/cpu/isa.h"
#include "kernels/elementwise.h"

namespace rl::kernels {

struct HostStrips {
  const StripFunction* by_isa[isa_count];      // by DType; nullptr where the formula makes no sense
  const ConstantStrips* constants[isa_count];  // or nullptr
};

// Defines the Loop `id` from its compiled parts.
#define RL_DECLARE_STRIPS(set, id)                     \
  namespace set {                                      \
  extern const StripFunction id##_strips[dtype_count]; \
  }
#define RL_STRIPS_OF(set, id) set::id##_strips,
#define RL_LOOP(id, shown, operands, numbers, dtypes)                         \
  RL_EACH_ISA(RL_DECLARE_STRIPS, id)                                          \
  static constexpr HostStrips id##_host{{RL_EACH_ISA(RL_STRIPS_OF, id)}, {}}; \
  extern const Loop id;                                                       \
  const Loop id{shown, operands, numbers, dtypes, &id##_host};

#define RL_DECLARE_CONSTANTS(set, id)         \
  namespace set {                             \
  extern const ConstantStrips id##_constants; \
  }
#define RL_CONSTANTS_OF(set, id) &set::id##_constants,
#define RL_LOOP_OF_CONSTANTS(id, shown, operands, numbers, dtypes)           \
  RL_EACH_ISA(RL_DECLARE_STRIPS, id)                                         \
  RL_EACH_ISA(RL_DECLARE_CONSTANTS, id)                                      \
  static constexpr HostStrips id##_host{{RL_EACH_ISA(RL_STRIPS_OF, id)},     \
                                        {RL_EACH_ISA(RL_CONSTANTS_OF, id)}}; \
  extern const Loop id;                                                      \
  const Loop id{shown, operands, numbers, dtypes, &id##_host};

}  // namespace rl::kernels
