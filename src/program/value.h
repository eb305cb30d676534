// What a program computes with: tensors, numbers, text, lists of these.
#pragma once
#include <array>
#include <complex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/memory_format.h"
#include "core/scalar.h"
#include "tensor/tensor.h"

namespace rl::program {

struct Value;
using ValueList = std::vector<Value>;

struct Value {
  using Storage = std::variant<std::monostate, Tensor, bool, int64_t, double, complex128,
                               std::string, DType, Device, MemoryFormat, ValueList>;
  Storage v;

  Value() = default;  // None
  Value(Tensor t) : v(std::move(t)) {}
  Value(bool b) : v(b) {}
  Value(int64_t i) : v(i) {}
  Value(double d) : v(d) {}
  Value(complex128 c) : v(c) {}
  Value(std::string s) : v(std::move(s)) {}
  Value(DType t) : v(t) {}
  Value(Device d) : v(d) {}
  Value(MemoryFormat f) : v(f) {}
  Value(ValueList list) : v(std::move(list)) {}
  Value(const char*) = delete;  // it would become a bool

  template <class T> const T* get() const { return std::get_if<T>(&v); }
  bool is_none() const { return v.index() == 0; }
  bool is_tensor() const { return get<Tensor>() != nullptr; }
  const char* type_name() const;

  // The value as what is asked for, or a TypeError that begins with `what`.
  const Tensor& tensor(const char* what) const;
  int64_t integer(const char* what) const;
  double real(const char* what) const;
  bool boolean(const char* what) const;
  const ValueList& list(const char* what) const;
};

// Results of operations as values. An undefined tensor is None.
inline Value box(Tensor t) { return t.defined() ? Value(std::move(t)) : Value(); }
inline Value box(bool b) { return Value(b); }
inline Value box(DType t) { return Value(t); }
inline Value box(const TensorList& tensors) {
  ValueList list;
  for (const Tensor& t : tensors) list.push_back(box(t));
  return Value(std::move(list));
}
template <size_t N> Value box(const std::array<Tensor, N>& tensors) {
  ValueList list;
  for (const Tensor& t : tensors) list.push_back(box(t));
  return Value(std::move(list));
}

}  // namespace rl::program
