#include <utility>

#include "kernels/cpu/reduced_floats.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/units.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class From, class To>
void loop(const void* in, void* out, int64_t n) {
  const From* x = static_cast<const From*>(in);
  To* y = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
}

// The same for integers of 32 bits and less. Through 64 bits, as convert() goes, AVX2 has no
// vectors and AVX512 takes twice as many: blocks of numbers that fit into 32 take their 32 bits,
// but with AVX512 those that have 32 or 64 and become int32, whose check would take longer.
template <class From, class To>
void to_integers(const void* in, void* out, int64_t n) {
  constexpr int64_t block = 64;
  using Value = compute_t<From>;
  constexpr Value limit = Value(int64_t(1) << 31);
  using Flag = std::conditional_t<sizeof(Value) == 8, int64_t, int32_t>;
  const From* x = static_cast<const From*>(in);
  To* y = static_cast<To*>(out);
  constexpr bool same_width = sizeof(From) >= 4 && sizeof(To) == 4;
  if constexpr (vector_bytes < 64 || !same_width)
    for (; n >= block; n -= block, x += block, y += block) {
      Flag beyond = 0;
      for (int64_t i = 0; i < block; ++i) {
        const Value value = x[i];
        beyond |= !(value < limit && value > -limit);
      }
      if (beyond) loop<From, To>(x, y, block);
      else
        for (int64_t i = 0; i < block; ++i)
          y[i] = static_cast<To>(static_cast<int32_t>(static_cast<Value>(x[i])));
    }
  loop<From, To>(x, y, n);
}
template <class From, class To>
void to_narrow(const void* in, void* out, int64_t n) {
  if constexpr (std::is_floating_point_v<compute_t<From>>) to_integers<From, To>(in, out, n);
  else loop<From, To>(in, out, n);
}

// To float32, or to one of the integers of 32 bits and less.
template <class From>
void from_any_real(DType to, const void* in, void* out, int64_t n) {
  switch (to) {
    case DType::UInt8: return to_narrow<From, uint8_t>(in, out, n);
    case DType::Int8: return to_narrow<From, int8_t>(in, out, n);
    case DType::Int16: return to_narrow<From, int16_t>(in, out, n);
    case DType::Int32: return to_narrow<From, int32_t>(in, out, n);
    case DType::Float32: return loop<From, float>(in, out, n);
    default: return;
  }
}
template <class From>
void from_real(DType to, const void* in, void* out, int64_t n) {
  switch (to) {
    case DType::Bool: return loop<From, bool>(in, out, n);
    case DType::Int64: return loop<From, int64_t>(in, out, n);
    case DType::Float64: return loop<From, double>(in, out, n);
    default: return from_any_real<From>(to, in, out, n);
  }
}

// The first elements of n, by vectors of `bytes` and then by narrower ones, as far as the processor
// converts those; the number of elements done.
template <int bytes = vector_bytes>
int64_t widen_vectors(const half* x, float* y, int64_t n, int64_t i = 0) {
  if constexpr (least_half_bytes && bytes >= least_half_bytes) {
    constexpr int64_t lanes = Vector<float, bytes>::lanes;
    for (; i + lanes <= n; i += lanes) {
      vec<uint16_t, bytes / 2> bits;
      std::memcpy(&bits, x + i, sizeof bits);
      store(y + i, widened_halves<bytes>(bits));
    }
    return widen_vectors<bytes / 2>(x, y, n, i);
  }
  return i;
}
template <int bytes = vector_bytes>
int64_t narrow_vectors(const float* x, half* y, int64_t n, int64_t i = 0) {
  if constexpr (least_half_bytes && bytes >= least_half_bytes) {
    constexpr int64_t lanes = Vector<float, bytes>::lanes;
    for (; i + lanes <= n; i += lanes) {
      auto bits = narrowed_to_halves<bytes>(load<float, bytes>(x + i));
      std::memcpy(static_cast<void*>(y + i), &bits, sizeof bits);
    }
    return narrow_vectors<bytes / 2>(x, y, n, i);
  }
  return i;
}

void half_to_float(const void* in, void* out, int64_t n) {
  const half* x = static_cast<const half*>(in);
  float* y = static_cast<float*>(out);
  for (int64_t i = widen_vectors(x, y, n); i < n; ++i) y[i] = half::decode(x[i].bits);
}

void float_to_half(const void* in, void* out, int64_t n) {
  const float* x = static_cast<const float*>(in);
  half* y = static_cast<half*>(out);
  for (int64_t i = narrow_vectors(x, y, n); i < n; ++i) y[i].bits = half::encode(x[i]);
}

// Each second lane of two vectors, from the upper ones on.
template <int... k>
vec<uint16_t> upper_lanes(vec<uint16_t> a, vec<uint16_t> b, std::integer_sequence<int, k...>) {
  return shuffle<2 * k + 1 ...>(a, b);
}
void float_to_bfloat16(const void* in, void* out, int64_t n) {
  constexpr int64_t lanes = Vector<uint16_t>::lanes;
  const float* x = static_cast<const float*>(in);
  bfloat16* y = static_cast<bfloat16*>(out);
  const bool direct = has_bfloat16_conversions();
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if (direct && narrow_to_bfloat16(load(x + i), load(x + i + lanes / 2), &y[i].bits)) continue;
    vec<uint16_t> first = (vec<uint16_t>)rounded_to_upper_half(load(x + i));
    vec<uint16_t> second = (vec<uint16_t>)rounded_to_upper_half(load(x + i + lanes / 2));
    store(y + i, upper_lanes(first, second, std::make_integer_sequence<int, lanes>()));
  }
  for (; i < n; ++i) y[i].bits = bfloat16::encode(x[i]);
}

// Complex elements as pairs of reals.
template <class Real>
void real_parts(const void* in, void* out, int64_t n) {
  const Real* x = static_cast<const Real*>(in);
  Real* y = static_cast<Real*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = x[2 * i];
}
template <class Real>
void with_zero_imaginary(const void* in, void* out, int64_t n) {
  const Real* x = static_cast<const Real*>(in);
  Real* y = static_cast<Real*>(out);
  for (int64_t i = 0; i < n; ++i) {
    y[2 * i] = x[i];
    y[2 * i + 1] = 0;
  }
}
template <class Real>
void nonzero_pairs(const void* in, void* out, int64_t n) {
  const Real* x = static_cast<const Real*>(in);
  bool* y = static_cast<bool*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = x[2 * i] != 0 || x[2 * i + 1] != 0;
}

// In two vectorised steps: gcc makes no vectors of bytes compared with 0 and widened at once.
void from_bool(DType to, const void* in, void* out, int64_t n) {
  if (to == DType::Bool) return loop<uint8_t, bool>(in, out, n);
  constexpr int64_t piece = 1024;
  const uint8_t* x = static_cast<const uint8_t*>(in);
  alignas(64) uint8_t truth[piece];
  for (int64_t i = 0; i < n; i += piece) {
    int64_t m = n - i < piece ? n - i : piece;
    for (int64_t k = 0; k < m; ++k) truth[k] = x[i + k] != 0;
    from_real<uint8_t>(to, truth, static_cast<char*>(out) + i * itemsize(to), m);
  }
}

void from_float(DType to, const void* in, void* out, int64_t n) {
  if (to == DType::Float16) return float_to_half(in, out, n);
  if (to == DType::BFloat16) return float_to_bfloat16(in, out, n);
  if (to == DType::Complex64) return with_zero_imaginary<float>(in, out, n);
  from_real<float>(to, in, out, n);
}
void from_double(DType to, const void* in, void* out, int64_t n) {
  if (to == DType::Complex128) return with_zero_imaginary<double>(in, out, n);
  from_real<double>(to, in, out, n);
}
void from_complex64(DType to, const void* in, void* out, int64_t n) {
  if (to == DType::Bool) return nonzero_pairs<float>(in, out, n);
  if (to == DType::Complex128) return loop<float, double>(in, out, 2 * n);
  real_parts<float>(in, out, n);
}
void from_complex128(DType to, const void* in, void* out, int64_t n) {
  if (to == DType::Bool) return nonzero_pairs<double>(in, out, n);
  if (to == DType::Complex64) return loop<double, float>(in, out, 2 * n);
  real_parts<double>(in, out, n);
}

}  // namespace

void convert_direct(DType from, DType to, const void* in, void* out, int64_t n) {
  switch (from) {
    case DType::Bool: return from_bool(to, in, out, n);
    case DType::UInt8: return from_real<uint8_t>(to, in, out, n);
    case DType::Int8: return from_real<int8_t>(to, in, out, n);
    case DType::Int16: return from_real<int16_t>(to, in, out, n);
    case DType::Int32: return from_real<int32_t>(to, in, out, n);
    case DType::Int64: return from_real<int64_t>(to, in, out, n);
    case DType::Float16: return half_to_float(in, out, n);
    case DType::BFloat16: return from_any_real<bfloat16>(to, in, out, n);
    case DType::Float32: return from_float(to, in, out, n);
    case DType::Float64: return from_double(to, in, out, n);
    case DType::Complex64: return from_complex64(to, in, out, n);
    case DType::Complex128: return from_complex128(to, in, out, n);
  }
}

}  // namespace rl::kernels::RL_ISA
