// Scalar: a Python number (bool, int, float or complex) on its way into an op.
#pragma once
#include <limits>

#include "core/dtype.h"

namespace rl {

class Scalar {
 public:
  Scalar() : Scalar(int64_t(0)) {}
  Scalar(bool v) : kind_(DType::Bool), integer_(v) {}
  Scalar(int v) : Scalar(static_cast<int64_t>(v)) {}
  Scalar(int64_t v) : kind_(DType::Int64), integer_(v) {}
  Scalar(double v) : kind_(DType::Float64), real_(v) {}
  Scalar(complex128 v) : kind_(DType::Complex128), real_(v.real()), imag_(v.imag()) {}

  // Bool, Int64, Float64 or Complex128.
  DType kind() const { return kind_; }
  bool is_integral() const { return kind_ == DType::Int64; }
  bool is_bool() const { return kind_ == DType::Bool; }
  bool is_complex() const { return kind_ == DType::Complex128; }
  bool is_floating() const { return kind_ == DType::Float64; }

  template <class T> T to() const {
    if (kind_ <= DType::Int64) return convert<T>(integer_);
    if (kind_ == DType::Float64) return convert<T>(real_);
    return convert<T>(complex128(real_, imag_));
  }
  double real() const { return to<double>(); }
  bool equals(double v) const { return to<complex128>() == complex128(v, 0); }

 private:
  DType kind_;
  union {
    int64_t integer_;
    double real_;
  };
  double imag_ = 0;
};

// Can an element of dtype `t` hold this number? As in torch a negative integer may wrap into an
// unsigned type, anything has a truth, and infinities and NaN are held where the dtype has them.
bool fits(const Scalar& value, DType t);
void check_fits(const char* op, const Scalar& value, DType t);

Scalar load_scalar(const void* p, DType t);  // an element as a number

// The dtype a tensor made of this number has, given the default float dtype.
DType default_dtype();
void set_default_dtype(DType t);
inline DType tensor_dtype(const Scalar& s) {
  if (s.kind() <= DType::Int64) return s.kind();
  return s.kind() == DType::Float64 ? default_dtype() : to_complex(default_dtype());
}
inline Scalar operator-(const Scalar& s) {
  if (s.is_complex()) return Scalar(-s.to<complex128>());
  constexpr int64_t least = std::numeric_limits<int64_t>::min();  // has no negative
  if (s.is_floating() || s.to<int64_t>() == least) return Scalar(-s.to<double>());
  return Scalar(-s.to<int64_t>());
}
std::ostream& operator<<(std::ostream& out, const Scalar& s);

}  // namespace rl
