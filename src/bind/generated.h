// What the generated binding files stand on.
#pragma once
#include "bind/args.h"
#include "bind/registry.h"
#include "ops.h"

namespace rl::bind {

// Whether out= may be of another dtype that the result can be cast to.
enum class OutDType : bool { Exact, Castable };

// out=, the argument at `place`: refuses what the call cannot write, resizes the tensor if it must
// and copies the result into it. Nothing is written if any of several tensors is refused.
Tensor write_out(const char* op, const Arguments& a, int place, const Tensor& result,
                 OutDType dtype);
void write_out(const char* op, const Arguments& a, int place, Tensor* results, size_t count,
               OutDType dtype);
template <size_t N>
void write_out(const char* op, const Arguments& a, int place, std::array<Tensor, N>& results,
               OutDType dtype) {
  write_out(op, a, place, results.data(), N, dtype);
}

}  // namespace rl::bind
