// Errors: one typed, variadic expression whose message is built only when it is thrown.
//   check_value(dim < ndim, "softmax: dim ", dim, " out of range for shape ", shape);
#pragma once
#include <exception>
#include <initializer_list>
#include <sstream>
#include <string>
#include <type_traits>
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

// A value in a message, and how it is written.
struct MessagePart {
  const void* value;
  void (*write)(std::ostream& text, const void* value);
};
#ifndef __cpp_exceptions
[[gnu::error("this file is compiled without exceptions")]]
#endif
[[noreturn, gnu::cold]] void throw_error(ErrorKind kind, std::initializer_list<MessagePart> parts);

// As `fail` passes it on: literals of all lengths are one type, and small values need no address.
template <class T>
using Passed = std::conditional_t<
    std::is_array_v<T>, const char*,
    std::conditional_t<std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(void*), T, const T&>>;

template <class T> MessagePart message_part(const T& value) {
  return {&value,
          [](std::ostream& text, const void* part) { text << *static_cast<const T*>(part); }};
}

// A call of it is all that the failing side of a check takes.
template <class... Values>
[[noreturn, gnu::noinline, gnu::cold]] void fail_with(ErrorKind kind, Values... parts) {
  throw_error(kind, {message_part(parts)...});
}

template <class... Parts> [[noreturn]] inline void fail(ErrorKind kind, const Parts&... parts) {
  fail_with<Passed<Parts>...>(kind, parts...);
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
