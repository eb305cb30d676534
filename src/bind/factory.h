// Tensors made of Python data: torch.tensor, as_tensor, from_numpy, frombuffer, DLPack.
#pragma once
#include <optional>

#include "bind/python.h"
#include "bind/registry.h"

namespace rl::bind {

// What becomes of an array's memory.
enum class ArrayUse {
  Share,        // or refuse
  ShareOrCopy,  // as its memory allows
  Read          // for the caller to copy
};

// A copy of nested sequences, numbers, arrays or tensors; without a dtype it is inferred as torch
// does.
Tensor tensor_from(PyObject* data, std::optional<DType> dtype, std::optional<Device> device);
// The same, but sharing memory where dtype and device allow.
Tensor as_tensor_from(PyObject* data, std::optional<DType> dtype, std::optional<Device> device,
                      ArrayUse use = ArrayUse::ShareOrCopy);

// Exchange with other libraries; src/bind/exchange.cpp.
bool is_array(PyObject* o);           // has __array_interface__: a NumPy array
bool is_unsigned_array(PyObject* o);  // of an array: of 16 bits or more
Tensor from_array(PyObject* o, ArrayUse use);
bool is_cuda_array(PyObject* o);  // has __cuda_array_interface__
Tensor from_cuda_array(PyObject* o, ArrayUse use);
bool has_dlpack(PyObject* o);  // of another library: not a tensor
Tensor from_dlpack(PyObject* o);
Tensor share_buffer(PyObject* o, DType dtype, int64_t count, int64_t offset);

void register_factory(Registry& registry);
void register_exchange(Registry& registry);
void add_buffer_slots(PyTypeObject& type);
void init_exchange(PyObject* module);

}  // namespace rl::bind
