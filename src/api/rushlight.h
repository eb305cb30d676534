// The C++ library: tensors, all operations of the table with their default arguments, gradients,
// layers (nn.h), optimizers (optim.h) and programs in files (program/model.h).
//
//   namespace torch = rushlight;
//   torch::Tensor w = torch::randn({3, 2});
//   torch::set_requires_grad(w);
//   torch::backward(torch::sum(torch::tanh(torch::matmul(x, w))));
//   torch::Tensor g = torch::grad(w);
//
// Errors are rushlight::Error, a std::exception.
#pragma once
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/thread_state.h"
#include "dispatch/operators.h"
#include "ops.h"
#include "tensor/tensor.h"

#ifndef RUSHLIGHT_VERSION
#define RUSHLIGHT_VERSION "unknown"
#endif

namespace rushlight {

using namespace rl::ops;
using rl::Device;
using rl::Dims;
using rl::DType;
using rl::Error;
using rl::NoGradGuard;
using rl::Scalar;
using rl::Tensor;
using rl::TensorList;
using rl::operator+;
using rl::operator-;
using rl::operator*;
using rl::operator/;

inline constexpr DType kBool = DType::Bool;
inline constexpr DType kUInt8 = DType::UInt8;
inline constexpr DType kInt32 = DType::Int32;
inline constexpr DType kInt64 = DType::Int64;
inline constexpr DType kFloat32 = DType::Float32;
inline constexpr DType kFloat64 = DType::Float64;

// Makes the library ready; the functions below call it, and so does each Module. Programs that use
// operations alone call it first.
void initialize();
void manual_seed(uint64_t seed);

// A tensor with a copy of the elements.
template <class T> Tensor tensor(const T* data, const Dims& sizes) {
  initialize();
  Tensor t = rl::empty(sizes, {rl::dtype_of<T>, Device{}});
  if (t.numel()) std::memcpy(t.view().data, data, t.numel() * sizeof(T));
  return t;
}
template <class T> Tensor tensor(const std::vector<T>& data, const Dims& sizes) {
  Tensor t = tensor(data.data(), Dims{static_cast<int64_t>(data.size())});
  return rl::ops::reshape(t, sizes);
}
template <class T> T item(const Tensor& t) { return rl::item<T>(t); }

// ---- gradients

Tensor& set_requires_grad(Tensor& t, bool value = true);
const Tensor& set_requires_grad(const Tensor& t, bool value = true);
// Adds the gradients of a tensor of one element, or of `root` weighted by `gradient`, to the
// leaves.
void backward(const Tensor& root, const Tensor& gradient = Tensor(), bool retain_graph = false);
Tensor grad(const Tensor& leaf);  // what backward has added; undefined for none
void set_grad(const Tensor& leaf, const Tensor& value);
void zero_grad(const Tensor& leaf);  // there is none afterwards

// ---- files

// Tensors by name in safetensors' layout.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
void save(const NamedTensors& tensors, const std::string& path);
NamedTensors load(const std::string& path);

}  // namespace rushlight
