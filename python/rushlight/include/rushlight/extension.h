// Operators of your own in C++: rushlight.utils.cpp_extension.load and load_inline.
//
//   #include <rushlight/extension.h>
//   using rushlight::Tensor;
//
//   Tensor cube(const Tensor& x) {
//     Tensor y = rushlight::empty_like(x);
//     for (int64_t i = 0; i < x.numel(); ++i) y.data<float>()[i] = std::pow(x.data<float>()[i], 3);
//     return y;
//   }
//   // Takes the gradients of the results, then all arguments; returns those of the tensors among them.
//   Tensor cube_backward(const Tensor& grad, const Tensor& x);
//
// Arguments: const Tensor&, int64_t, double, bool, std::string. Results: Tensor, or
// std::vector<Tensor> with RUSHLIGHT_FUNCTION_OF(function, count). Tensors come with their elements
// in C order. Exceptions become RuntimeErrors. The header stands alone: nothing is linked.
#pragma once
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define RUSHLIGHT_EXTENSION_ABI 1

namespace rushlight {

enum class DType : int32_t {
  Bool, UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64, Complex64, Complex128
};

// What crosses the border, in both directions.
struct RawTensor {
  void* data;
  int64_t handle;  // of the host, which keeps the memory for the time of the call
  int64_t ndim;
  int64_t sizes[16];
  int32_t dtype;
};
struct RawValue {
  RawTensor tensor;
  int64_t integer;
  double real;
  const char* text;
};
struct Host {
  int32_t abi;
  int32_t (*empty)(int32_t dtype, int64_t ndim, const int64_t* sizes, RawTensor* result);
};
inline Host& host() {
  static Host instance{};
  return instance;
}

template <class T> struct DTypeOf;
#define RUSHLIGHT_DTYPE(type, name) \
  template <> struct DTypeOf<type> { \
    static constexpr DType value = DType::name; \
  }
RUSHLIGHT_DTYPE(bool, Bool);
RUSHLIGHT_DTYPE(uint8_t, UInt8);
RUSHLIGHT_DTYPE(int8_t, Int8);
RUSHLIGHT_DTYPE(int16_t, Int16);
RUSHLIGHT_DTYPE(int32_t, Int32);
RUSHLIGHT_DTYPE(int64_t, Int64);
RUSHLIGHT_DTYPE(float, Float32);
RUSHLIGHT_DTYPE(double, Float64);
RUSHLIGHT_DTYPE(std::complex<float>, Complex64);
RUSHLIGHT_DTYPE(std::complex<double>, Complex128);
#undef RUSHLIGHT_DTYPE

class Tensor {
 public:
  explicit Tensor(const RawTensor& raw) : raw_(raw) {}
  int64_t dim() const { return raw_.ndim; }
  int64_t size(int64_t d) const {
    const int64_t at = d < 0 ? d + raw_.ndim : d;
    if (at < 0 || at >= raw_.ndim) throw std::out_of_range("size: no dim " + std::to_string(d));
    return raw_.sizes[at];
  }
  std::vector<int64_t> sizes() const { return {raw_.sizes, raw_.sizes + raw_.ndim}; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t d = 0; d < raw_.ndim; ++d) n *= raw_.sizes[d];
    return n;
  }
  DType dtype() const { return static_cast<DType>(raw_.dtype); }
  template <class T> T* data() const {
    if (dtype() != DTypeOf<T>::value) throw std::invalid_argument("data: a tensor of another dtype");
    return static_cast<T*>(raw_.data);
  }
  const RawTensor& raw() const { return raw_; }

 private:
  RawTensor raw_;
};

// Of undefined elements.
inline Tensor empty(const std::vector<int64_t>& sizes, DType dtype = DType::Float32) {
  RawTensor raw{};
  if (sizes.size() > 16) throw std::invalid_argument("empty: more than 16 dims");
  if (host().empty(static_cast<int32_t>(dtype), static_cast<int64_t>(sizes.size()), sizes.data(),
                   &raw) != 0)
    throw std::runtime_error("empty: no memory, or bad sizes");
  return Tensor(raw);
}
inline Tensor empty_like(const Tensor& t) { return empty(t.sizes(), t.dtype()); }
inline void check(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument(message);
}

// ---- how functions are called

namespace detail {

template <class T> struct Argument;
template <> struct Argument<Tensor> {
  static constexpr const char* name = "Tensor";
  static Tensor get(const RawValue& v) { return Tensor(v.tensor); }
};
template <> struct Argument<int64_t> {
  static constexpr const char* name = "int";
  static int64_t get(const RawValue& v) { return v.integer; }
};
template <> struct Argument<int> {
  static constexpr const char* name = "int";
  static int get(const RawValue& v) { return static_cast<int>(v.integer); }
};
template <> struct Argument<bool> {
  static constexpr const char* name = "bool";
  static bool get(const RawValue& v) { return v.integer != 0; }
};
template <> struct Argument<double> {
  static constexpr const char* name = "float";
  static double get(const RawValue& v) { return v.real; }
};
template <> struct Argument<std::string> {
  static constexpr const char* name = "str";
  static std::string get(const RawValue& v) { return v.text; }
};

inline void put(const Tensor& t, RawTensor* results, int64_t) { results[0] = t.raw(); }
inline void put(const std::vector<Tensor>& found, RawTensor* results, int64_t count) {
  if (static_cast<int64_t>(found.size()) != count)
    throw std::runtime_error("returned " + std::to_string(found.size()) + " tensors instead of " +
                             std::to_string(count));
  for (size_t i = 0; i < found.size(); ++i) results[i] = found[i].raw();
}

inline std::string& message() {
  static thread_local std::string text;
  return text;
}

template <class Result, class... Arguments, size_t... places>
int call(Result (*function)(Arguments...), const RawValue* values, RawTensor* results, int64_t count,
         std::index_sequence<places...>) {
  (void)values;
  try {
    put(function(Argument<std::decay_t<Arguments>>::get(values[places])...), results, count);
    return 0;
  } catch (const std::exception& error) {
    message() = error.what();
  } catch (...) {
    message() = "an unknown exception";
  }
  return -1;
}
template <class Result, class... Arguments>
int call(Result (*function)(Arguments...), const RawValue* values, RawTensor* results,
         int64_t count) {
  return call(function, values, results, count, std::index_sequence_for<Arguments...>());
}
// "Tensor,float"
template <class Result, class... Arguments> const char* signature(Result (*)(Arguments...)) {
  static const std::string text = [] {
    std::string listed;
    ((listed += (listed.empty() ? "" : ","), listed += Argument<std::decay_t<Arguments>>::name), ...);
    return listed;
  }();
  return text.c_str();
}

}  // namespace detail
}  // namespace rushlight

// Makes a function callable; of several results say how many.
#define RUSHLIGHT_FUNCTION(function) RUSHLIGHT_FUNCTION_OF(function, 1)
#define RUSHLIGHT_FUNCTION_OF(function, count)                                                  \
  extern "C" __attribute__((visibility("default"))) int rushlight_call_##function(              \
      const rushlight::RawValue* values, rushlight::RawTensor* results) {                       \
    return rushlight::detail::call(function, values, results, count);                           \
  }                                                                                             \
  extern "C" __attribute__((visibility("default"))) const char* rushlight_signature_##function() { \
    return rushlight::detail::signature(function);                                              \
  }                                                                                             \
  extern "C" __attribute__((visibility("default"))) int64_t rushlight_results_##function() {    \
    return count;                                                                               \
  }

// Once in each extension; load and load_inline add it.
#define RUSHLIGHT_EXTENSION()                                                                   \
  extern "C" __attribute__((visibility("default"))) int32_t rushlight_extension_abi_version() { \
    return RUSHLIGHT_EXTENSION_ABI;                                                             \
  }                                                                                             \
  extern "C" __attribute__((visibility("default"))) void rushlight_extension_open(              \
      const rushlight::Host* given) {                                                           \
    rushlight::host() = *given;                                                                 \
  }                                                                                             \
  extern "C" __attribute__((visibility("default"))) const char* rushlight_extension_error() {   \
    return rushlight::detail::message().c_str();                                                \
  }
