// Elementwise loops over any strides, dtypes and broadcasts.
//
// A generated loop sees contiguous runs of one compute type. The driver cuts the index space into
// strips that stay in the first-level cache and brings every operand that is strided, broadcast or
// of another dtype into a buffer first: one compiled loop per op and type serves all layouts.
#pragma once
#include "core/scalar.h"
#include "core/view.h"
#include "kernels/isa.h"

namespace rl::kernels {

// operands[0] is the result, then the inputs; numbers are the op's non-tensor arguments.
using StripFunction = void (*)(int64_t n, void* const* operands, const Scalar* numbers);

// The compiled loops of one formula.
struct Loop {
  const char* name;
  int numbers;                     // how many the strips read
  const StripFunction* strips[3];  // per instruction set, by DType; nullptr where it makes no sense
};

// What dtype a loop's result has, from the one it computes in.
enum class LoopResult : uint8_t { Same, Bool, Real };

inline constexpr int max_loop_inputs = 7;

// NotImplementedError naming the op if it has no loop for this type.
StripFunction find_strip(const Loop& loop, DType compute);
inline DType loop_result_dtype(LoopResult result, DType compute) {
  return result == LoopResult::Same   ? compute
         : result == LoopResult::Bool ? DType::Bool
                                      : to_real(compute);
}

// out and inputs have equal sizes (inputs broadcast by stride 0). No input may overlap `out` unless
// it is element for element the same memory.
void run_loop(const Loop& loop, DType compute, LoopResult result, const View& out,
              const View* inputs, int count, const Scalar* numbers);

// Declares the loop `id_loop` from its compiled parts.
#ifdef RL_ISA_ONLY
#define RL_LOOP(id, shown, numbers)                    \
  namespace RL_ISA_ONLY {                              \
  extern const StripFunction id##_strips[dtype_count]; \
  }                                                    \
  constexpr Loop id{                                   \
      shown,                                           \
      numbers,                                         \
      {RL_ISA_ONLY::id##_strips, RL_ISA_ONLY::id##_strips, RL_ISA_ONLY::id##_strips}};
#else
#define RL_LOOP(id, shown, numbers)                    \
  namespace sse42 {                                    \
  extern const StripFunction id##_strips[dtype_count]; \
  }                                                    \
  namespace avx2 {                                     \
  extern const StripFunction id##_strips[dtype_count]; \
  }                                                    \
  namespace avx512 {                                   \
  extern const StripFunction id##_strips[dtype_count]; \
  }                                                    \
  constexpr Loop id{shown, numbers, {sse42::id##_strips, avx2::id##_strips, avx512::id##_strips}};
#endif

}  // namespace rl::kernels
