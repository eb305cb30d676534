// Results that are written to tensors of the caller's: `out=` in Python, `add_out(out, ...)` in
// C++.
#pragma once
#include "dispatch/shape_rules.h"

namespace rl {

// Which dtypes an out may have: the result's, any that it can be cast to, or those of truth values.
enum class OutDType : uint8_t { Exact, Castable, Truth };

// Errors where the op would be recorded, or `out` cannot take a result of that dtype and device.
void check_out(const char* op, const Tensor& out, DType dtype, Device device, bool recorded,
               OutDType exactness);
// An error where `out` lies over `input`, unless element for element, as torch has it. `resized`:
// it has another shape than the result.
void check_apart(const char* op, const Tensor& out, const Tensor& input, bool resized);

void prepare_outs(const char* op, const TensorList& out, const OutputSpec* specs, size_t count,
                  Device device, bool recorded, OutDType exactness, const TensorList& inputs);

// All of that, of a tensor that the op is about to write, and that it has the result's shape.
void prepare_out(const char* op, const Tensor& out, const OutputSpec& spec, Device device,
                 bool recorded, OutDType exactness, const TensorList& inputs);
// The same of several, none of which changes if any is refused.
template <size_t N>
void prepare_out(const char* op, const TensorList& out, const std::array<OutputSpec, N>& specs,
                 Device device, bool recorded, OutDType exactness, const TensorList& inputs) {
  prepare_outs(op, out, specs.data(), N, device, recorded, exactness, inputs);
}

// Where one of several results is to be written: undefined for a new tensor.
inline Tensor target_of(const TensorList& targets, size_t i) {
  return targets.empty() ? Tensor() : targets[i];
}

// Gives `out` the sizes of a result, and its strides where these are dense but not row-major.
void resize_out(const Tensor& out, const Dims& sizes, const Dims& strides);

// Copies results that exist into `out`, each of which is resized to its result's shape if it has
// another. Nothing is written if any of several is refused. Return what was given as out.
const Tensor& write_out(const char* op, const Tensor& out, const Tensor& result,
                        const TensorList& inputs, OutDType exactness);
// What fills a line also fills a tensor of as many elements, which keeps its shape.
Tensor in_shape_of(const Tensor& out, const Tensor& line);
void write_out(const char* op, const TensorList& out, const Tensor* results, size_t count,
               const TensorList& inputs, OutDType exactness);

}  // namespace rl
