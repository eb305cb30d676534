// The NaN trap: while the mode Trapped is set, the first op whose result is not finite raises, in
// forward and in backward, and tells where the first large value came from.
#pragma once
#include "autograd/node.h"
#include "dispatch/observe.h"

namespace rl::trap {

// `infinity`: infinities raise too, where no input holds one.
void start(bool infinity);
void stop();

// Raises if an op made NaN or infinity; else notes how large its results are.
void check_results(const char* op, GivenList given, const Tensor* results, size_t count,
                   uint64_t sequence);
// The same for the gradients that a node has computed, of the gradients at those addresses, which
// may be gone. `stay_finite`: they need not be looked at.
void check_gradients(const Node& node, const SmallVector<const void*, 2>& grads,
                     const Gradients& results, bool stay_finite);
// Whether what the node is going to make of the gradients can be told to be finite from these.
bool stays_finite(const Node& node, const Gradients& grads);
// Raises if a batch that a program has read, or whatever else `what` names, holds NaN.
void check_values(const char* what, const Tensor& values);

// What an error says of a tensor: "float32 [3, 4]: 2 nan, 1 inf; the others from -1 to 3, mean
// 0.5".
std::string describe_values(const Tensor& t);

}  // namespace rl::trap
