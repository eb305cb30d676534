// Number and comparison slots of Tensor: +, -, ==, int(), ...
#include <atomic>

#include "autograd/inplace.h"
#include "bind/collector.h"
#include "bind/convert.h"
#include "bind/factory.h"
#include "bind/tensor_type.h"
#include "bind/torch_function.h"
#include "bind_operators.h"
#include "core/warning.h"
#include "ops_basic.h"

namespace rl::bind {

namespace {

// ---- binary operators --------------------------------------------------------------------------

bool is_operand(const Binary& op, PyObject* o) {
  return is_tensor(o) || (op.numbers && is_number(o));
}

// A number beside a float tensor has that tensor's dtype in the end: made so at once, the op need
// not promote (a + 1: 281 to 110 ns). Everything else takes part in promotion; so do all numbers
// under saved_tensors_hooks, which are not to see what was a number.
Tensor number_beside(PyObject* number, PyObject* other) {
  Scalar value = to_scalar(number);
  if (!is_tensor(other) || value.is_complex() || (mode() & SavedHooks)) return wrap_number(value);
  DType dtype = tensor_of(other).dtype();
  if (dtype != DType::Float32 && dtype != DType::Float64) return wrap_number(value);
  Tensor t = empty({nullptr, 0}, {dtype, {}});
  if (dtype == DType::Float32) *t.data<float>() = value.to<float>();
  else *t.data<double>() = value.to<double>();
  return t;
}

// Is a number the first or the second operand's reason for another node? Then the op has to know it
// for one: 2 - x, 2 ** x, x % 2.
bool names_node(const Binary& op, bool first) {
  return &op == &slots::nb_power || &op == &slots::nb_remainder ||
         (first && &op == &slots::nb_subtract);
}

Tensor operand(PyObject* o, PyObject* other, bool tells) {
  if (is_tensor(o)) return tensor_of(o);
  if (tells && is_tensor(other) && records(tensor_of(other))) return wrap_number(to_scalar(o));
  return number_beside(o, other);
}

// A TypeError leaves the operator to the other operand's type, as the operators of torch do: an
// implementation of __torch_function__ may decline what __radd__ of the other type can do.
template <class F>
PyObject* or_not_implemented(F&& f) {
  PyObject* result = guarded(f);
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  PyErr_Clear();
  Py_RETURN_NOTIMPLEMENTED;
}

[[gnu::noinline]] PyObject* binary_slow(const Binary& op, PyObject* a, PyObject* b) {
  return or_not_implemented([&]() -> PyObject* {
    if (may_override(a) || may_override(b)) {
      PyObject* result = nullptr;
      bool taken = is_tensor(a) ? overrides_method(op.method, {a, b}, result)
                                : overrides_method(op.reflected, {b, a}, result);
      if (taken) return result;
    }
    if (!is_operand(op, a) || !is_operand(op, b)) Py_RETURN_NOTIMPLEMENTED;
    // 2 * b is b * 2, whose node has b's first.
    bool commutes = &op == &slots::nb_add || &op == &slots::nb_multiply;
    if (commutes && !is_tensor(a)) std::swap(a, b);
    return wrap(op.call(operand(a, b, names_node(op, true)), operand(b, a, names_node(op, false))));
  });
}

template <const Binary& op>
PyObject* binary(PyObject* a, PyObject* b) {
  if (is_exact_tensor(a) && !calls_are_watched()) {
    if (is_exact_tensor(b))
      return guarded([&] { return wrap(op.call(tensor_of(a), tensor_of(b))); });
    if (op.numbers && is_number(b))
      return guarded(
          [&] { return wrap(op.call(tensor_of(a), operand(b, a, names_node(op, false)))); });
  }
  return binary_slow(op, a, b);
}

// A number as exponent has an op of its own: x ** 2 is x * x.
PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  if (!is_tensor(a) || !is_number(b)) return binary<slots::nb_power>(a, b);
  if (is_exact_tensor(a) && !calls_are_watched())
    return guarded([&] { return wrap(ops::pow(tensor_of(a), to_scalar(b))); });
  return or_not_implemented([&]() -> PyObject* {
    PyObject* result = nullptr;
    if (may_override(a) && overrides_method(slots::nb_power.method, {a, b}, result)) return result;
    return wrap(ops::pow(tensor_of(a), to_scalar(b)));
  });
}

// ---- in place
// ------------------------------------------------------------------------------------

template <const InPlace& op>
PyObject* in_place(PyObject* self, PyObject* other) {
  return or_not_implemented([&]() -> PyObject* {
    if (may_override(self) || may_override(other)) {
      PyObject* result = nullptr;
      if (overrides_method(op.method, {self, other}, result)) return result;
    }
    if (!is_tensor(other) && !is_number(other)) Py_RETURN_NOTIMPLEMENTED;
    check_not_captured(tensor_of(self), op.method);
    op.call(tensor_of(self), operand(other, self, false));
    track_history(self);
    return Object::share(self).release();
  });
}

PyObject* power_in_place(PyObject* self, PyObject* other, PyObject*) {
  if (!is_number(other)) return in_place<slots::nb_inplace_power>(self, other);
  return or_not_implemented([&]() -> PyObject* {
    PyObject* result = nullptr;
    if (may_override(self) &&
        overrides_method(slots::nb_inplace_power.method, {self, other}, result))
      return result;
    check_not_captured(tensor_of(self), slots::nb_inplace_power.method);
    ops::pow_(tensor_of(self), to_scalar(other));
    return Object::share(self).release();
  });
}

// ---- comparisons
// ---------------------------------------------------------------------------------

constexpr const Binary* comparisons[6] = {&slots::Py_LT_, &slots::Py_LE_, &slots::Py_EQ_,
                                          &slots::Py_NE_, &slots::Py_GT_, &slots::Py_GE_};
static_assert(Py_LT == 0 && Py_LE == 1 && Py_EQ == 2 && Py_NE == 3 && Py_GT == 4 && Py_GE == 5);

PyObject* compare(PyObject* a, PyObject* b, int op) {
  if (is_exact_tensor(a) && is_exact_tensor(b) && !calls_are_watched())
    return guarded([&] { return wrap(comparisons[op]->call(tensor_of(a), tensor_of(b))); });
  // NumPy leaves == to us, and Python would answer it by identity.
  if ((op == Py_EQ || op == Py_NE) && !is_tensor(b) && !is_number(b) && b != Py_None && is_array(b))
    return guarded([&]() -> PyObject* {
      Object shared = checked(wrap(from_array(b, ArrayUse::Read)));
      return binary_slow(*comparisons[op], a, shared.get());
    });
  return binary_slow(*comparisons[op], a, b);
}

// ---- unary operators and conversions
// ---------------------------------------------------------------

template <class F>
PyObject* unary(PyObject* self, const char* method, F&& f) {
  return guarded([&]() -> PyObject* {
    PyObject* result = nullptr;
    if (may_override(self) && overrides_method(method, {self}, result)) return result;
    return f(tensor_of(self));
  });
}

template <const Unary& op>
PyObject* unary_operator(PyObject* self) {
  return unary(self, op.method, [](const Tensor& t) { return wrap(op.call(t)); });
}
PyObject* positive(PyObject* self) {
  return unary(self, "positive", [](const Tensor& t) {
    check(t.dtype() != DType::Bool, "The `+` operator, on a bool tensor is not supported.");
    return wrap(t);
  });
}

Object only_element(const Tensor& t) {
  check_value(t.numel() == 1, "only one element tensors can be converted to Python scalars");
  return checked(wrap(item(t)));
}
double real_part(const char* function, PyObject* complex) {
  Py_complex number = PyComplex_AsCComplex(complex);
  check(number.imag == 0, function, ": the complex number has the imaginary part ", number.imag,
        "; take its real part");
  return number.real;
}
PyObject* to_int(PyObject* self) {
  return unary(self, "__int__", [](const Tensor& t) {
    Object value = only_element(t);
    if (t.is_complex()) value = checked(PyFloat_FromDouble(real_part("int", value.get())));
    return PyNumber_Long(value.get());
  });
}
PyObject* to_float(PyObject* self) {
  return unary(self, "__float__", [](const Tensor& t) {
    warn_of_lost_gradient(t);
    Object value = only_element(t);
    if (!t.is_complex()) return PyNumber_Float(value.get());
    return PyFloat_FromDouble(real_part("float", value.get()));
  });
}
PyObject* to_index(PyObject* self) {
  return unary(self, "__index__", [](const Tensor& t) {
    check_type(t.numel() == 1 && rl::is_integral_or_bool(t.dtype()),
               "only integer tensors of a single element can be converted to an index");
    return wrap(item(t).to<int64_t>());
  });
}

int truth(PyObject* self) {
  Object result(unary(self, "__bool__", [](const Tensor& t) {
    check(t.numel() != 0, "Boolean value of Tensor with no values is ambiguous");
    check(t.numel() == 1, "Boolean value of Tensor with more than one value is ambiguous");
    return wrap(item(t).to<bool>());
  }));
  return result ? PyObject_IsTrue(result.get()) : -1;
}

Py_hash_t hash(PyObject* self) {
  return reinterpret_cast<Py_hash_t>(self);  // id(self), as in torch
}

}  // namespace

void warn_of_lost_gradient(const Tensor& t) {
  static std::atomic<bool> told{false};
  if (!requires_grad(t) || told.exchange(true)) return;
  warn(
      "a tensor that requires grad becomes a Python number, which has no gradient; "
      "detach() or item() says that this is meant");
}

void add_number_slots(PyTypeObject& type) {
  static PyNumberMethods number{};
#define RL_SET(slot, function) number.slot = function<slots::slot>;
  RL_FOR_EACH_OPERATOR(RL_SET)
#undef RL_SET
  number.nb_power = power;
  number.nb_inplace_power = power_in_place;
  number.nb_positive = positive;
  number.nb_bool = truth;
  number.nb_int = to_int;
  number.nb_float = to_float;
  number.nb_index = to_index;
  type.tp_as_number = &number;
  type.tp_richcompare = compare;
  // Tensors compare element by element but hash by identity, which Python would refuse to inherit.
  type.tp_hash = hash;
}

}  // namespace rl::bind
