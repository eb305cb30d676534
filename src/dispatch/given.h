// The arguments of an op, for whoever watches or replaces its function.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/scalar.h"
#include "tensor/tensor.h"

namespace rl {

// An argument of an op, by its name.
struct Given {
  enum Kind : uint8_t { None, OneTensor, Tensors, Integer, Real, Flag, Integers, Other };
  enum Type : uint8_t { Number, Text, ElementType, Place, Reals };  // of an Other
  const char* name;
  Kind kind = None;
  Type type = Number;
  union {
    const void* at;
    int64_t integer = 0;
    double real;
  };

  template <class T> Given(const char* name, const T&) : name(name) {}
  Given(const char* name, const Tensor& t) : name(name), kind(OneTensor) { at = &t; }
  Given(const char* name, const TensorList& t) : name(name), kind(Tensors) { at = &t; }
  Given(const char* name, const Dims& d) : name(name), kind(Integers) { at = &d; }
  Given(const char* name, bool v) : name(name), kind(Flag) { integer = v; }
  Given(const char* name, int64_t v) : name(name), kind(Integer) { integer = v; }
  Given(const char* name, double v) : name(name), kind(Real) { real = v; }
  Given(const char* name, const Scalar& v) : name(name) {
    if (v.is_bool() || v.is_integral()) {
      kind = v.is_bool() ? Flag : Integer;
      integer = v.to<int64_t>();
    } else if (!v.is_complex()) {
      kind = Real;
      real = v.real();
    } else {
      be(Number, v);
    }
  }
  Given(const char* name, const std::string& v) : name(name) { be(Text, v); }
  Given(const char* name, const DType& v) : name(name) { be(ElementType, v); }
  Given(const char* name, const Device& v) : name(name) { be(Place, v); }
  Given(const char* name, const std::vector<double>& v) : name(name) { be(Reals, v); }
  template <class T> Given(const char* name, const std::optional<T>& v) : name(name) {
    if (v) *this = Given(name, *v);
  }

 private:
  template <class T> void be(Type t, const T& v) {
    kind = Other;
    type = t;
    at = &v;
  }
};
using GivenList = std::initializer_list<Given>;

}  // namespace rl
