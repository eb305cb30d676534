// What the generated binding files stand on.
#pragma once
#include "bind/args.h"
#include "bind/registry.h"
#include "ops.h"

namespace rl::bind {

// out=: resizes `out` if it must, copies the result into it and returns it.
Tensor write_out(const char* op, const Tensor& out, const Tensor& result);
template <size_t N>
void write_out(const char* op, const TensorList& out, std::array<Tensor, N>& results) {
  check_type(out.size() == N, op, ": out expects ", N, " tensors, got ", out.size());
  for (size_t i = 0; i < N; ++i) results[i] = write_out(op, out[i], results[i]);
}

}  // namespace rl::bind
