// Element types: their sizes, names, categories, promotion, and static dispatch over them.
#pragma once
#include <cstdint>
#include <ostream>
#include <type_traits>

#include "core/error.h"
#include "core/number.h"

namespace rl {

enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128
};
inline constexpr int dtype_count = 12;

struct DTypeInfo {
  const char* name;   // "float32"
  const char* alias;  // "float", or nullptr
  uint8_t itemsize;
};
inline constexpr DTypeInfo dtype_infos[dtype_count] = {
    {"bool", nullptr, 1},     {"uint8", nullptr, 1},      {"int8", nullptr, 1},
    {"int16", "short", 2},    {"int32", "int", 4},        {"int64", "long", 8},
    {"float16", "half", 2},   {"bfloat16", nullptr, 2},   {"float32", "float", 4},
    {"float64", "double", 8}, {"complex64", "cfloat", 8}, {"complex128", "cdouble", 16}};

inline const char* name(DType t) { return dtype_infos[static_cast<int>(t)].name; }
inline int64_t itemsize(DType t) { return dtype_infos[static_cast<int>(t)].itemsize; }
inline std::ostream& operator<<(std::ostream& out, DType t) {
  return out << "torch." << name(t);  // as str(dtype)
}

inline bool is_complex(DType t) { return t >= DType::Complex64; }
inline bool is_floating(DType t) { return t >= DType::Float16 && t <= DType::Float64; }
inline bool is_integral(DType t) { return t >= DType::UInt8 && t <= DType::Int64; }  // without bool
inline bool is_integral_or_bool(DType t) { return t <= DType::Int64; }
inline bool is_differentiable(DType t) { return t >= DType::Float16; }
inline bool is_reduced(DType t) { return t == DType::Float16 || t == DType::BFloat16; }
// The dtype arithmetic happens in: float32 for the 16-bit floats.
inline DType compute_dtype(DType t) { return is_reduced(t) ? DType::Float32 : t; }
inline DType to_real(DType t) {
  return t == DType::Complex64 ? DType::Float32 : t == DType::Complex128 ? DType::Float64 : t;
}
inline DType to_complex(DType t) {
  return t == DType::Float64 || t == DType::Complex128 ? DType::Complex128 : DType::Complex64;
}

DType promote(DType a, DType b);      // the common dtype of two tensors of equal priority
bool can_cast(DType from, DType to);  // may a result of `from` be written into `to`

// Defined for element types alone: that of dtype bool is Bool.
template <class T> extern const DType dtype_of;
template <> inline constexpr DType dtype_of<Bool> = DType::Bool;
template <> inline constexpr DType dtype_of<uint8_t> = DType::UInt8;
template <> inline constexpr DType dtype_of<int8_t> = DType::Int8;
template <> inline constexpr DType dtype_of<int16_t> = DType::Int16;
template <> inline constexpr DType dtype_of<int32_t> = DType::Int32;
template <> inline constexpr DType dtype_of<int64_t> = DType::Int64;
template <> inline constexpr DType dtype_of<half> = DType::Float16;
template <> inline constexpr DType dtype_of<bfloat16> = DType::BFloat16;
template <> inline constexpr DType dtype_of<float> = DType::Float32;
template <> inline constexpr DType dtype_of<double> = DType::Float64;
template <> inline constexpr DType dtype_of<complex64> = DType::Complex64;
template <> inline constexpr DType dtype_of<complex128> = DType::Complex128;

template <class T> struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) for the element type T of `t`, if T is one of Ts; otherwise a
// NotImplementedError that names the op:
//   visit<float, double>("logdet", view.dtype, [&](auto tag) { using T = typename
//   decltype(tag)::type; ... });
template <class... Ts, class F>
void visit(const char* op, DType t, F&& f) {
  bool found = ((t == dtype_of<Ts> ? (f(TypeTag<Ts>{}), true) : false) || ...);
  if (__builtin_expect(!found, 0))
    fail(ErrorKind::NotImplemented, op, ": not implemented for dtype ", t);
}
template <class F> void visit_all(const char* op, DType t, F&& f) {
  visit<float, double, int64_t, Bool, int32_t, half, bfloat16, uint8_t, int8_t, int16_t, complex64,
        complex128>(op, t, f);
}
template <class F> void visit_real(const char* op, DType t, F&& f) {
  visit<float, double, int64_t, Bool, int32_t, half, bfloat16, uint8_t, int8_t, int16_t>(op, t, f);
}
template <class F> void visit_floating(const char* op, DType t, F&& f) {
  visit<float, double, half, bfloat16>(op, t, f);
}
template <class F> void visit_integral_bool(const char* op, DType t, F&& f) {
  visit<int64_t, Bool, int32_t, uint8_t, int8_t, int16_t>(op, t, f);
}
// By size alone, for kernels that only move elements: uint8_t, uint16_t, uint32_t, uint64_t,
// complex128.
template <class F> void visit_size(DType t, F&& f) {
  switch (itemsize(t)) {
    case 1: return f(TypeTag<uint8_t>{});
    case 2: return f(TypeTag<uint16_t>{});
    case 4: return f(TypeTag<uint32_t>{});
    case 8: return f(TypeTag<uint64_t>{});
    default: return f(TypeTag<complex128>{});
  }
}

}  // namespace rl
