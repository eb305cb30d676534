#include "program/operation.h"

#include <algorithm>
#include <cstring>

#include "dispatch/op_types.h"

namespace rl::program {

// ---- values

const char* Value::type_name() const {
  static const char* const names[] = {"None",   "Tensor",        "bool", "int",
                                      "float",  "complex",       "str",  "dtype",
                                      "device", "memory_format", "list"};
  return names[v.index()];
}

const Tensor& Value::tensor(const char* what) const {
  const Tensor* t = get<Tensor>();
  check_type(t, what, ": expected a Tensor, got ", type_name());
  return *t;
}
int64_t Value::integer(const char* what) const {
  if (const int64_t* i = get<int64_t>()) return *i;
  if (const bool* b = get<bool>()) return *b;
  fail(ErrorKind::Type, what, ": expected an int, got ", type_name());
}
double Value::real(const char* what) const {
  if (const double* d = get<double>()) return *d;
  return static_cast<double>(integer(what));
}
bool Value::boolean(const char* what) const {
  if (const bool* b = get<bool>()) return *b;
  if (const Tensor* t = get<Tensor>()) {
    check(t->numel() == 1, what, ": a tensor of ", t->numel(), " elements as a condition");
    return rl::item(*t).to<bool>();
  }
  if (const double* d = get<double>()) return *d != 0;
  return integer(what) != 0;
}
const ValueList& Value::list(const char* what) const {
  const ValueList* list = get<ValueList>();
  check_type(list, what, ": expected a list, got ", type_name());
  return *list;
}

// ---- arguments

const Value& Arguments::need(int i) const {
  if (values_[i]) return *values_[i];
  fail(ErrorKind::Type, operation_.key, ": argument '", operation_.parameters[i].name,
       "' is missing");
}

void Arguments::refuse(int i, const char* expected) const {
  fail(ErrorKind::Type, operation_.key, ": argument '", operation_.parameters[i].name, "' must be ",
       expected, ", got ", need(i).type_name());
}

template <class T> const T& Arguments::as(int i, const char* expected) const {
  if (const T* found = need(i).get<T>()) return *found;
  refuse(i, expected);
}

namespace {

const Tensor undefined;

bool to_scalar(const Value& value, Scalar& s) {
  if (const bool* b = value.get<bool>()) return s = Scalar(*b), true;
  if (const int64_t* n = value.get<int64_t>()) return s = Scalar(*n), true;
  if (const double* d = value.get<double>()) return s = Scalar(*d), true;
  if (const complex128* c = value.get<complex128>()) return s = Scalar(*c), true;
  const Tensor* t = value.get<Tensor>();
  if (t && t->dim() == 0) return s = item(*t), true;
  return false;
}

}  // namespace

const Tensor& Arguments::tensor(int i) const { return as<Tensor>(i, "a Tensor"); }
const Tensor& Arguments::tensor_or_none(int i) const { return given(i) ? tensor(i) : undefined; }
Tensor Arguments::tensor_or_number(int i) const {
  if (const Tensor* t = need(i).get<Tensor>()) return *t;
  return wrap_number(scalar(i));
}
TensorList Arguments::tensors(int i) const {
  TensorList found;
  for (const Value& one : as<ValueList>(i, "a list of Tensors")) {
    if (!one.is_tensor()) refuse(i, "a list of Tensors");
    found.push_back(*one.get<Tensor>());
  }
  return found;
}
TensorList Arguments::tensors_or_none(int i) const {
  TensorList found;
  for (const Value& one : as<ValueList>(i, "a list of Tensors and None")) {
    if (one.is_none()) found.emplace_back();
    else if (one.is_tensor()) found.push_back(*one.get<Tensor>());
    else refuse(i, "a list of Tensors and None");
  }
  return found;
}
Scalar Arguments::scalar(int i) const {
  Scalar s;
  if (!to_scalar(need(i), s)) refuse(i, "a number");
  return s;
}
std::optional<Scalar> Arguments::scalar_or_none(int i) const {
  return given(i) ? std::optional(scalar(i)) : std::nullopt;
}
int64_t Arguments::integer(int i) const {
  if (const int64_t* n = need(i).get<int64_t>()) return *n;
  refuse(i, "an int");
}
std::optional<int64_t> Arguments::integer_or_none(int i) const {
  return given(i) ? std::optional(integer(i)) : std::nullopt;
}
double Arguments::real(int i) const {
  Scalar s;
  if (!to_scalar(need(i), s) || s.is_complex()) refuse(i, "a float");
  return s.to<double>();
}
std::optional<double> Arguments::real_or_none(int i) const {
  return given(i) ? std::optional(real(i)) : std::nullopt;
}
bool Arguments::boolean(int i) const { return as<bool>(i, "a bool"); }
std::optional<bool> Arguments::boolean_or_none(int i) const {
  return given(i) ? std::optional(boolean(i)) : std::nullopt;
}
Dims Arguments::integers(int i) const {
  Dims found;
  if (const int64_t* n = need(i).get<int64_t>()) {  // one number for all places, see `length`
    const int length = std::max(operation_.parameters[i].length, 1);
    for (int k = 0; k < length; ++k) found.push_back(*n);
    return found;
  }
  for (const Value& one : as<ValueList>(i, "a list of ints")) {
    const int64_t* n = one.get<int64_t>();
    if (!n) refuse(i, "a list of ints");
    found.push_back(*n);
  }
  return found;
}
std::optional<Dims> Arguments::integers_or_none(int i) const {
  return given(i) ? std::optional(integers(i)) : std::nullopt;
}
std::vector<double> Arguments::reals(int i) const {
  if (!need(i).get<ValueList>()) {
    const int length = std::max(operation_.parameters[i].length, 1);
    return std::vector<double>(length, real(i));
  }
  std::vector<double> found;
  for (const Value& one : as<ValueList>(i, "a list of floats")) {
    Scalar s;
    if (!to_scalar(one, s) || s.is_complex()) refuse(i, "a list of floats");
    found.push_back(s.to<double>());
  }
  return found;
}
std::optional<std::vector<double>> Arguments::reals_or_none(int i) const {
  return given(i) ? std::optional(reals(i)) : std::nullopt;
}
std::string Arguments::text(int i) const { return as<std::string>(i, "a str"); }
std::optional<std::string> Arguments::text_or_none(int i) const {
  return given(i) ? std::optional(text(i)) : std::nullopt;
}
std::optional<DType> Arguments::dtype_or_none(int i) const {
  return given(i) ? std::optional(as<DType>(i, "a dtype")) : std::nullopt;
}
std::optional<Device> Arguments::device_or_none(int i) const {
  if (!given(i)) return std::nullopt;
  Device device = as<Device>(i, "a device");
  check_available(device);
  return device;
}
std::optional<MemoryFormat> Arguments::memory_format_or_none(int i) const {
  return given(i) ? std::optional(as<MemoryFormat>(i, "a memory_format")) : std::nullopt;
}
Generator* Arguments::generator_or_none(int i) const {
  if (given(i)) refuse(i, "None: programs use the default generator");
  return nullptr;
}
LayoutArgument Arguments::layout(int i) const {
  if (given(i)) refuse(i, "None: programs make strided tensors");
  return {};
}

// ---- operations

int Operation::find_parameter(const std::string& name) const {
  for (int i = 0; i < count; ++i)
    if (name == parameters[i].name) return i;
  return -1;
}

Value Operation::call(const ValueList& positional,
                      const std::vector<std::pair<std::string, Value>>& named) const {
  check_type(static_cast<int>(positional.size()) <= count, key, ": takes ", count,
             " arguments, got ", positional.size());
  std::vector<const Value*> values(count, nullptr);
  for (size_t i = 0; i < positional.size(); ++i) values[i] = &positional[i];
  for (const auto& [name, value] : named) {
    int i = find_parameter(name);
    check_type(i >= 0, key, ": has no argument '", name, "'");
    check_type(!values[i], key, ": argument '", name, "' is given twice");
    values[i] = &value;
  }
  for (int i = 0; i < count; ++i)
    check_type(values[i] || parameters[i].has_default, key, ": argument '", parameters[i].name,
               "' is missing");
  return function(Arguments(*this, values.data()));
}

const Operation* find_operation(const std::string& key) {
  const Operation* end = operations_end();
  const Operation* found = std::lower_bound(
      operations_begin(), end, key,
      [](const Operation& o, const std::string& k) { return std::strcmp(o.key, k.c_str()) < 0; });
  return found != end && key == found->key ? found : nullptr;
}

}  // namespace rl::program
