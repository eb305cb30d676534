// Elementwise loops over any strides, dtypes and broadcasts.
//
// A generated loop sees contiguous runs of one compute type. The driver cuts the index space into
// strips that stay in the first-level cache and brings every operand that is strided, broadcast or
// of another dtype into a buffer first: one compiled loop per op and type serves all layouts.
#pragma once
#include "core/scalar.h"
#include "core/view.h"

namespace rl::kernels {

// operands[0] is the result, then the inputs; numbers are the op's non-tensor arguments.
using StripFunction = void (*)(int64_t n, void* const* operands, const Scalar* numbers);

// Rows of two operands, of which one is the same element all along each row; from row to row each
// operand goes a step, in bytes.
using ConstantStripFunction = void (*)(int64_t rows, int64_t n, void* const* operands,
                                       const int64_t* steps, const Scalar* numbers);

// Those of which the first or the second is that element, by DType.
struct ConstantStrips {
  ConstantStripFunction of[2][dtype_count];
};

struct HostStrips;  // what the host has compiled of it

// The loops of one formula.
struct Loop {
  const char* name;
  const char* operands;  // the names of the tensors that it reads: "input other"
  int numbers;           // how many the strips read
  uint32_t dtypes;       // that the formula is compiled for: a bit each, by DType
  const HostStrips* strips;
};

// What dtype a loop's result has, from the one it computes in.
enum class LoopResult : uint8_t { Same, Bool, Real };

inline constexpr int max_loop_inputs = 7;

// NotImplementedError naming the op if the formula has no loop of this type.
void check_dtype(const Loop& loop, DType compute);
// The host's loop of that type; the same error.
StripFunction find_strip(const Loop& loop, DType compute);
inline DType loop_result_dtype(LoopResult result, DType compute) {
  return result == LoopResult::Same   ? compute
         : result == LoopResult::Bool ? DType::Bool
                                      : to_real(compute);
}

// out and inputs have equal sizes (inputs broadcast by stride 0). No input may overlap `out` unless
// it is element for element the same memory.
void run_loop(const Loop& loop, DType compute, LoopResult result, const View& out, Views inputs,
              const Scalar* numbers);

}  // namespace rl::kernels
