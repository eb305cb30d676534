// Properties of Tensor.
#include "autograd/engine.h"
#include "autograd/inplace.h"
#include "autograd/meta.h"
#include "bind/collector.h"
#include "bind/convert.h"
#include "bind/graph.h"
#include "bind/tensor_type.h"
#include "bind/torch_function.h"
#include "bind/types.h"
#include "bind/volatile.h"
#include "core/warning.h"
#include "ops_create.h"
#include "ops_shape.h"
#include "tensor/sparse.h"

namespace rl::bind {

namespace {

struct Attribute {
  const char* name;
  PyObject* (*get)(const Tensor& t);
  void (*set)(const Tensor& t, PyObject* value) = nullptr;
};

PyObject* get_attribute(PyObject* self, void* closure) {
  return guarded([&]() -> PyObject* {
    auto* attribute = static_cast<const Attribute*>(closure);
    PyObject* result = nullptr;
    if (may_override(self) &&
        overrides_attribute(self, attribute->name, "__get__", nullptr, result))
      return result;
    return attribute->get(tensor_of(self));
  });
}

int set_attribute(PyObject* self, PyObject* value, void* closure) {
  Object done(guarded([&]() -> PyObject* {
    auto* attribute = static_cast<const Attribute*>(closure);
    PyObject* result = nullptr;
    if (may_override(self) && overrides_attribute(self, attribute->name, "__set__", value, result))
      return result;
    attribute->set(tensor_of(self), value ? value : Py_None);
    Py_RETURN_NONE;
  }));
  return done ? 0 : -1;
}

// ---- the graph
// ---------------------------------------------------------------------------------------

PyObject* get_grad(const Tensor& t) {
  Tensor grad = grad_of(t);
  if (!grad.defined() && grad_fn(t) && !t.impl()->retains_grad)
    warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed: "
        "backward() keeps gradients of leaves alone. Call .retain_grad() on this tensor before "
        "to have its own.");
  return wrap(std::move(grad));
}

void set_grad_attribute(const Tensor& t, PyObject* value) {
  if (value == Py_None) return set_grad(t, {});
  check_type(is_tensor(value),
             "assigned grad expected to be a Tensor or None but got grad of type ",
             type_name(value));
  const Tensor& grad = tensor_of(value);
  check(!grad.is_same(t), "can't assign Variable as its own grad");
  std::optional<DType> wanted = grad_fn(t) ? t.dtype() : grad_dtype(t);
  check(!wanted || grad.dtype() == *wanted, "attempting to assign a gradient with dtype '",
        grad.dtype(), "' to a tensor with grad_dtype '", wanted.value_or(t.dtype()),
        "'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). Set "
        "grad_dtype to that dtype, or to None to allow any");
  check(grad.device() == t.device(), "attempting to assign a gradient with device '", grad.device(),
        "' to a tensor with device '", t.device(),
        "'. Please ensure that the gradient and the tensor are on the same device");
  check(grad.sizes() == t.sizes(), "attempting to assign a gradient of size '", grad.sizes(),
        "' to a tensor of size '", t.sizes(),
        "'. Please ensure that the gradient and the tensor are the same size");
  note_gradient(Object(wrap(t)).get(), t.impl()->retains_grad || grad.impl()->grad_fn);
  set_grad(t, grad);
}

PyObject* get_grad_dtype(const Tensor& t) {
  check(!grad_fn(t), "grad_dtype can only be accessed on leaf tensors.");
  std::optional<DType> dtype = grad_dtype(t);
  if (!dtype) Py_RETURN_NONE;
  return wrap(*dtype);
}

void set_grad_dtype_attribute(const Tensor& t, PyObject* value) {
  check(!grad_fn(t), "grad_dtype can only be set on leaf tensors.");
  check(value == Py_None || is_dtype(value), "grad_dtype must be a torch.dtype or None, but got ",
        type_name(value));
  std::optional<DType> dtype;
  if (value != Py_None) dtype = to_dtype(value);
  Tensor grad = grad_of(t);
  check(!dtype || !grad.defined() || grad.dtype() == *dtype, "Cannot set grad_dtype to '",
        dtype.value_or(t.dtype()), "' because there is already a gradient with dtype '",
        grad.defined() ? grad.dtype() : t.dtype(),
        "'. Please clear the gradient (.grad = None) before changing grad_dtype, or ensure the "
        "new grad_dtype matches the existing gradient's dtype.");
  set_grad_dtype(t, dtype);
}

void set_requires_grad_attribute(const Tensor& t, PyObject* value) {
  check(PyBool_Check(value), "requires_grad must be a bool");
  change_requires_grad(t, value == Py_True);
}

PyObject* get_grad_fn(const Tensor& t) {
  Node* node = grad_fn(t);
  // Whoever sees the node may give it something that leads back to the tensor.
  if (node) track_history_slow(Object(wrap(t)).get());
  return wrap_node(node);
}
void set_grad_fn(const Tensor& t, PyObject* value) {
  check(value == Py_None, "_grad_fn can be only set to None");
  t.impl()->grad_fn = nullptr;
}
PyObject* get_is_leaf(const Tensor& t) { return wrap(!grad_fn(t)); }
PyObject* get_version(const Tensor& t) {
  check(!t.impl()->inference, "Inference tensors do not track version counter.");
  return wrap(static_cast<int64_t>(t.version()));
}
PyObject* get_base(const Tensor& t) { return wrap(Tensor(t.impl()->base)); }

// ---- data
// --------------------------------------------------------------------------------------------

// The bytes of a storage with the version counter that a tensor had before they were given to it.
Ref<Storage> keeping_version(const Ref<Storage>& given, const Ref<Storage>& before) {
  if (!given || !before || given->version == before->version) return given;
  given->materialize();
  Ref<Storage> own = Storage::alias(given);
  own->version.store(before->version, std::memory_order_relaxed);
  return own;
}

// Takes the place of the elements of `t`, which keeps its identity, version, gradient and hooks.
void set_data(const Tensor& t, PyObject* value) {
  check_type(is_tensor(value), "Variable data has to be a tensor, but got ", type_name(value));
  Layout layout = t.layout(), given = tensor_of(value).layout();
  check(layout == given, "data set to a tensor of incompatible tensor type: its layout is ",
        name(given), ", not ", name(layout));
  const TensorImpl* from = tensor_of(value).impl();
  TensorImpl* to = t.impl();
  check(!requires_grad(t) || is_differentiable(from->dtype),
        "data set to a tensor that requires gradients must be floating point or complex dtype");
  AutogradMeta* meta = meta_or_null(t);
  if (meta && (from->dtype != to->dtype || from->sizes != to->sizes || from->device != to->device))
    forget_accumulator(t);
  to->dtype = from->dtype;
  to->device = from->device;
  to->storage = keeping_version(from->storage, to->storage);
  to->sizes = from->sizes;
  to->strides = from->strides;
  to->offset = from->offset;
  to->lazy = from->lazy;
  to->base = nullptr;
  to->view_rule = nullptr;
  if (t.is_sparse()) replace_sparse(t, tensor_of(value));
  to->refresh();
}

PyObject* get_real(const Tensor& t) { return wrap(ops::real(t)); }
PyObject* get_imag(const Tensor& t) {
  check(t.is_complex(), "imag is not implemented for tensors with non-complex dtypes.");
  return wrap(ops::imag(t));
}
void assign_part(const Tensor& target, PyObject* value) {
  check_not_captured(target, "__setattr__");
  if (is_tensor(value)) ops::copy_(target, tensor_of(value));
  else ops::fill_(target, to_scalar(value));
}
void set_real(const Tensor& t, PyObject* value) { assign_part(ops::real(t), value); }
void set_imag(const Tensor& t, PyObject* value) {
  check(t.is_complex(), "imag is not implemented for tensors with non-complex dtypes.");
  assign_part(ops::imag(t), value);
}

// ---- transposes
// --------------------------------------------------------------------------------------

PyObject* get_T(const Tensor& t) {
  if (t.dim() == 0) warn("Tensor.T of a 0-d tensor is deprecated: it is the tensor itself");
  if (t.dim() != 2 && t.dim() != 0)
    warn(
        "The use of `x.T` on tensors of dimension other than 2 is deprecated: `x.mT` transposes "
        "batches of matrices, and `x.permute(*range(x.ndim)[::-1])` reverses all dims.");
  Dims order(t.dim());
  for (int64_t i = 0; i < t.dim(); ++i) order[i] = t.dim() - 1 - i;
  return wrap(ops::permute(t, order));
}
PyObject* get_mT(const Tensor& t) {
  check(t.dim() != 1, "tensor.mT is only supported on matrices or batches of matrices. Got ",
        t.dim(), "-D tensor.");
  if (t.dim() == 0) warn("Tensor.mT of a 0-d tensor is deprecated: it is the tensor itself");
  return wrap(t.dim() == 0 ? alias(t) : ops::transpose(t, -2, -1));
}
Tensor adjoint(const Tensor& t) {
  Tensor turned = ops::transpose(t, -2, -1);
  return t.is_complex() ? ops::conj(turned) : turned;
}
PyObject* get_H(const Tensor& t) {
  check(t.dim() == 2 || t.dim() == 0, "tensor.H is only supported on matrices (2-D tensors). Got ",
        t.dim(), "-D tensor.",
        t.dim() > 2 ? " For batches of matrices, consider using tensor.mH" : "");
  if (t.dim() == 0) {
    warn("Tensor.H of a 0-d tensor is deprecated: write x.conj()");
    return wrap(ops::conj(t));
  }
  return wrap(adjoint(t));
}
PyObject* get_mH(const Tensor& t) {
  check(t.dim() != 1, "tensor.mH is only supported on matrices or batches of matrices. Got ",
        t.dim(), "-D tensor.");
  if (t.dim() == 0) {
    warn("Tensor.mH of a 0-d tensor is deprecated: write x.conj()");
    return wrap(ops::conj(t));
  }
  return wrap(adjoint(t));
}

PyObject* never(const Tensor&) { Py_RETURN_FALSE; }
PyObject* none(const Tensor&) { Py_RETURN_NONE; }

constexpr Attribute attributes[] = {
    {"shape", [](const Tensor& t) { return wrap(t.sizes()); }},
    {"dtype", [](const Tensor& t) { return wrap(t.dtype()); }},
    {"device", [](const Tensor& t) { return wrap(t.device()); }},
    {"layout", [](const Tensor& t) { return wrap(t.layout()); }},
    {"ndim", [](const Tensor& t) { return wrap(t.dim()); }},
    {"itemsize", [](const Tensor& t) { return wrap(itemsize(t.dtype())); }},
    {"nbytes", [](const Tensor& t) { return wrap(t.numel() * itemsize(t.dtype())); }},
    {"requires_grad", [](const Tensor& t) { return wrap(requires_grad(t)); },
     set_requires_grad_attribute},
    {"volatile", [](const Tensor& t) { return wrap(t.is_volatile()); },
     [](const Tensor& t, PyObject* value) {
       check_type(PyBool_Check(value), "volatile must be a bool, not ", type_name(value));
       set_volatile(t, value == Py_True);
     }},
    {"grad", get_grad, set_grad_attribute},
    {"grad_dtype", get_grad_dtype, set_grad_dtype_attribute},
    {"_grad", [](const Tensor& t) { return wrap(grad_of(t)); }, set_grad_attribute},
    {"grad_fn", get_grad_fn},
    {"_grad_fn", get_grad_fn, set_grad_fn},
    {"is_leaf", get_is_leaf},
    {"retains_grad", [](const Tensor& t) { return wrap(t.impl()->retains_grad); }},
    {"output_nr", [](const Tensor& t) { return wrap(static_cast<int64_t>(t.impl()->output_nr)); }},
    {"_version", get_version},
    {"_base", get_base},
    {"_backward_hooks", get_tensor_hooks, set_tensor_hooks},
    {"_post_accumulate_grad_hooks", get_accumulate_hooks, set_accumulate_hooks},
    {"data", [](const Tensor& t) { return wrap(data_alias(t)); }, set_data},
    {"real", get_real, set_real},
    {"imag", get_imag, set_imag},
    {"T", get_T},
    {"mT", get_mT},
    {"H", get_H},
    {"mH", get_mH},
    {"is_cpu", [](const Tensor& t) { return wrap(t.device().type == DeviceType::CPU); }},
    {"is_cuda", [](const Tensor& t) { return wrap(t.device().type == DeviceType::CUDA); }},
    {"is_meta", [](const Tensor& t) { return wrap(t.is_meta()); }},
    {"is_sparse", [](const Tensor& t) { return wrap(t.layout() == Layout::SparseCoo); }},
    {"is_sparse_csr", [](const Tensor& t) { return wrap(t.layout() == Layout::SparseCsr); }},
    {"is_quantized", never},
    {"is_nested", never},
    {"is_mkldnn", never},
    {"is_mps", never},
    {"is_xpu", never},
    {"name", none},
    {"_cdata", [](const Tensor& t) { return PyLong_FromVoidPtr(t.impl()); }},
};
constexpr size_t attribute_count = sizeof attributes / sizeof attributes[0];

}  // namespace

void change_requires_grad(const Tensor& t, bool value) {
  const bool leaf = !grad_fn(t);
  check(leaf || value,
        "you can only change requires_grad flags of leaf variables; detach() gives a leaf with the "
        "values of a computed one.");
  if (!leaf) return;  // it requires a gradient already
  check_value(!value || !t.is_volatile(),
              "a variable can't be volatile and require a gradient at the same time");
  check(!value || is_differentiable(t.dtype()),
        "only Tensors of floating point and complex dtype can require gradients");
  check(!value || !t.impl()->inference || (mode() & Inference),
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
  t.impl()->requires_grad = value;
}

PyGetSetDef* tensor_attributes() {
  static PyGetSetDef definitions[attribute_count + 1] = {};
  for (size_t i = 0; i < attribute_count; ++i) {
    const Attribute& a = attributes[i];
    definitions[i] = {a.name, get_attribute, a.set ? set_attribute : nullptr, nullptr,
                      const_cast<void*>(static_cast<const void*>(&a))};
  }
  return definitions;
}

}  // namespace rl::bind
