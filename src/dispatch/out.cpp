#include "dispatch/out.h"

#include <cstring>

#include "core/text_stream.h"
#include "core/warning.h"
#include "dispatch/generated.h"
#include "dispatch/result_memory.h"
#include "ops_create.h"
#include "ops_shape.h"
#include "tensor/lazy_view.h"
#include "tensor/output_layout.h"

namespace rl {

ResultMemory::ResultMemory(const Tensor& out) : before_(thread_state().result_memory) {
  if (!out.defined()) return;
  const TensorImpl* impl = out.impl();
  const bool plain = impl->data && !impl->lazy && impl->device.is_cpu() &&
                     !has_internal_overlap(impl->sizes, impl->strides);
  thread_state().result_memory = plain ? &out : nullptr;
}

ResultMemory::ResultMemory(const char* op, const Tensor& out, const TensorList& inputs)
    : ResultMemory(out) {
  bool apart = !records(out) && !records(inputs);
  for (const Tensor& input : inputs)
    apart = apart && !(input.defined() && memory_overlap(out, input) != Overlap::None);
  if (!apart) thread_state().result_memory = nullptr;
  if (thread_state().result_memory) check_in_place(out, op);
}

ResultMemory::~ResultMemory() { thread_state().result_memory = before_; }

Tensor ResultMemory::take_offered(const Dims& sizes, DType dtype, Device device) {
  const auto& out = *static_cast<const Tensor*>(thread_state().result_memory);
  if (out.dtype() != dtype || out.sizes() != sizes || !device.is_cpu()) return {};
  thread_state().result_memory = nullptr;
  copy_on_write(out);
  return out;
}

void check_out(const char* op, const Tensor& out, DType dtype, Device device, bool recorded,
               OutDType exactness) {
  check(!recorded && !records(out), op,
        ": functions with out=... arguments don't support automatic differentiation, but one "
        "of the arguments requires grad.");
  if (exactness == OutDType::Castable)
    check(can_cast(dtype, out.dtype()), op, ": result type ", dtype,
          " can't be cast to the desired output type ", out.dtype());
  else if (exactness == OutDType::Truth)
    check(out.dtype() == DType::Bool || out.dtype() == DType::UInt8, op, ": ", op,
          " only supports bool tensor for result, got: ", out.dtype());
  else
    check(out.dtype() == dtype, op, ": Expected out tensor to have dtype ", dtype, ", but got ",
          out.dtype(), " instead");
  check(is_same_device(out.device(), device), op, ": Expected out tensor to have device ", device,
        ", but got ", out.device());
  check(!has_internal_overlap(out.sizes(), out.strides()), op,
        ": unsupported operation: more than one element of the written-to tensor "
        "refers to a single memory location. Please clone() the tensor before performing the "
        "operation.");
}

void check_apart(const char* op, const Tensor& out, const Tensor& input, bool resized) {
  Overlap overlap = memory_overlap(out, input);
  bool exact = is_dense(out.sizes(), out.strides()) && is_dense(input.sizes(), input.strides());
  check(overlap == Overlap::None || (!resized && (overlap == Overlap::Same || !exact)), op,
        ": unsupported operation: some elements of the input tensor and the written-to tensor ",
        resized ? "of another shape than the result " : "", "refer to a single memory location. ",
        "Please clone() the tensor before performing the operation.");
}

namespace {

bool check_prepared(const char* op, const Tensor& out, const OutputSpec& spec, Device device,
                    bool recorded, OutDType exactness, const TensorList& inputs) {
  check_out(op, out, spec.dtype, device, recorded, exactness);
  check_in_place(out, op);
  bool resized = out.sizes() != spec.sizes;
  for (const Tensor& input : inputs)
    if (input.defined()) check_apart(op, out, input, resized);
  return resized;
}

// Several tensors to write, before any of them is.
void check_several(const char* op, const TensorList& out, size_t count) {
  check_type(out.size() == count, op, ": out expects ", count, " tensors, got ", out.size());
  for (size_t i = 0; i < count; ++i)
    for (size_t k = 0; k < i; ++k)
      check(memory_overlap(out[i], out[k]) == Overlap::None, op,
            ": unsupported operation: tensors of out share memory");
}

}  // namespace

void prepare_out(const char* op, const Tensor& out, const OutputSpec& spec, Device device,
                 bool recorded, OutDType exactness, const TensorList& inputs) {
  if (check_prepared(op, out, spec, device, recorded, exactness, inputs))
    resize_out(out, spec.sizes, spec.strides);
}

void prepare_outs(const char* op, const TensorList& out, const OutputSpec* specs, size_t count,
                  Device device, bool recorded, OutDType exactness, const TensorList& inputs) {
  check_several(op, out, count);
  for (size_t i = 0; i < count; ++i)
    check_prepared(op, out[i], specs[i], device, recorded, exactness, inputs);
  for (size_t i = 0; i < count; ++i)
    if (out[i].sizes() != specs[i].sizes) resize_out(out[i], specs[i].sizes, specs[i].strides);
}

void resize_out(const Tensor& out, const Dims& sizes, const Dims& strides) {
  if (out.numel() > 0) {
    TextStream text;
    text << "An output with one or more elements was resized since it had shape " << out.sizes()
         << ", which does not match the required output shape " << sizes
         << "; give as out a tensor of that shape, or one without elements (t.resize_(0))";
    warn(text.str().c_str());
  }
  ops::resize_(out, sizes);
  if (!strides.empty() && !has_standard_strides(sizes, strides) && is_dense(sizes, strides)) {
    out.impl()->strides = strides;
    out.impl()->refresh();
  }
  if (out.impl()->lazy) begin_lazy_write(out);
}

namespace {

void check_result(const char* op, const Tensor& out, const Tensor& result, const TensorList& inputs,
                  OutDType exactness) {
  check_out(op, out, result.dtype(), result.device(), records(result), exactness);
  // Elements of what is joined move: none of them may be overwritten before.
  bool moves = out.sizes() != result.sizes() || !std::strcmp(op, "cat");
  for (const Tensor& input : inputs)
    if (input.defined()) check_apart(op, out, input, moves);
}

void write(const char* op, const Tensor& out, const Tensor& result) {
  if (result.is_same(out)) return bump_version(out, op);
  NoGradGuard guard;
  if (out.sizes() != result.sizes()) resize_out(out, result.sizes(), result.strides());
  ops::copy_(out, result);
}

}  // namespace

Tensor in_shape_of(const Tensor& out, const Tensor& line) {
  return out.numel() == line.numel() ? ops::reshape(line, out.sizes()) : line;
}

const Tensor& write_out(const char* op, const Tensor& out, const Tensor& result,
                        const TensorList& inputs, OutDType exactness) {
  check_result(op, out, result, inputs, exactness);
  write(op, out, result);
  return out;
}

void write_out(const char* op, const TensorList& out, const Tensor* results, size_t count,
               const TensorList& inputs, OutDType exactness) {
  check_several(op, out, count);
  for (size_t i = 0; i < count; ++i) check_result(op, out[i], results[i], inputs, exactness);
  for (size_t i = 0; i < count; ++i) write(op, out[i], results[i]);
}

}  // namespace rl
