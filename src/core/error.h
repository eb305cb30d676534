// Errors: one typed, variadic expression whose message is built only when it is thrown.
//   check_value(dim < ndim, "softmax: dim ", dim, " out of range for shape ", shape);
#pragma once
#include <exception>
#include <sstream>
#include <string>
#include <utility>

namespace rl {

// The Python class an error becomes.
enum class ErrorKind {
  Runtime,
  Value,
  Type,
  Index,
  NotImplemented,
  OutOfMemory,
  Overflow,
  LinAlg,
  Assertion
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  ErrorKind kind() const { return kind_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void fail(ErrorKind kind, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(kind, text.str());
}

template <class... Parts>
inline void check(bool condition, const Parts&... parts) {
  if (__builtin_expect(!condition, 0)) fail(ErrorKind::Runtime, parts...);
}
template <class... Parts>
inline void check_value(bool condition, const Parts&... parts) {
  if (__builtin_expect(!condition, 0)) fail(ErrorKind::Value, parts...);
}
template <class... Parts>
inline void check_type(bool condition, const Parts&... parts) {
  if (__builtin_expect(!condition, 0)) fail(ErrorKind::Type, parts...);
}
template <class... Parts>
inline void check_index(bool condition, const Parts&... parts) {
  if (__builtin_expect(!condition, 0)) fail(ErrorKind::Index, parts...);
}
template <class... Parts>
inline void check_implemented(bool condition, const Parts&... parts) {
  if (__builtin_expect(!condition, 0)) fail(ErrorKind::NotImplemented, parts...);
}

}  // namespace rl
