// Methods of Tensor that the op table does not make.
#include <algorithm>
#include <cstring>

#include "autograd/inplace.h"
#include "autograd/meta.h"
#include "bind/args.h"
#include "bind/collector.h"
#include "bind/convert.h"
#include "bind/factory.h"
#include "bind/graph.h"
#include "bind/storage_type.h"
#include "bind/tensor_type.h"
#include "bind/torch_function.h"
#include "bind/types.h"
#include "core/interpreter.h"
#include "core/shared_memory.h"
#include "dispatch/host_elements.h"
#include "ops_shape.h"
#include "tensor/lazy_view.h"

namespace rl::bind {

namespace {

// ---- methods without arguments
// -------------------------------------------------------------------------

struct Query {
  const char* name;
  PyObject* (*call)(PyObject* self, const Tensor& t);
};

template <const Query& query>
PyObject* answer(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* result = nullptr;
    if (may_override(self) && overrides_method(query.name, {self}, result)) return result;
    return query.call(self, tensor_of(self));
  });
}

PyObject* same(PyObject* self) { return Object::share(self).release(); }

// The elements of a tensor as nested lists. Ctrl-C stops it between some of them.
class ElementLists {
 public:
  explicit ElementLists(const Tensor& t)
      : tensor_(t), sizes_(t.sizes()), strides_(t.strides()), dtype_(t.dtype()), data_(address()) {}
  PyObject* make() { return list_of(0, data_); }

 private:
  PyObject* list_of(int64_t dim, const char* at) {
    if (dim == tensor_.dim()) return checked(load_object(at, dtype_)).release();
    int64_t n = sizes_[dim], step = strides_[dim] * itemsize(dtype_);
    Object list = checked(PyList_New(n));
    const bool innermost = dim + 1 == tensor_.dim();
    for (int64_t i = 0; i < n; ++i) {
      if (innermost && dtype_ == DType::Int64 && (made_ + 1) % between_polls != 0) {
        ++made_;  // most often places, of which a sampler has as many as there are examples
        int64_t element;
        std::memcpy(&element, at + i * step, sizeof element);
        PyList_SET_ITEM(list.get(), i, checked(PyLong_FromLongLong(element)).release());
        continue;
      }
      if (++made_ % between_polls == 0) poll();
      PyList_SET_ITEM(list.get(), i, list_of(dim + 1, at + i * step));
    }
    return list.release();
  }
  // Handlers of signals are Python, and may do anything to the tensor.
  void poll() {
    interruption_.poll();
    check(tensor_.sizes() == sizes_ && tensor_.strides() == strides_ && address() == data_,
          "tolist: the tensor has been changed meanwhile, by a handler of a signal");
  }
  const char* address() const { return tensor_.data<char>(); }

  static constexpr int64_t between_polls = 1 << 14;
  const Tensor tensor_;
  const Dims sizes_, strides_;
  const DType dtype_;
  const char* const data_;
  int64_t made_ = 0;
  Interruption interruption_;
};

PyObject* to_list(PyObject*, const Tensor& t) {
  check_implemented(!t.is_meta(), "Cannot copy out of meta tensor; no data!");
  return ElementLists(on_host(t)).make();
}

PyObject* to_item(PyObject*, const Tensor& t) { return wrap(item(t)); }

PyObject* to_complex_number(PyObject*, const Tensor& t) {
  warn_of_lost_gradient(t);
  check_value(t.numel() == 1, "only one element tensors can be converted to Python scalars");
  complex128 c = item(t).to<complex128>();
  return PyComplex_FromDoubles(c.real(), c.imag());
}

PyObject* detach_in_place(PyObject* self, const Tensor& t) {
  check(!t.is_view(),
        "Can't detach views in-place. Use detach() instead: its result is no view in the graph.");
  t.impl()->grad_fn = nullptr;
  t.impl()->output_nr = 0;
  t.impl()->requires_grad = false;
  return same(self);
}

PyObject* keep_grad(PyObject* self, const Tensor& t) {
  note_gradient(self, true);
  retain_grad(t);
  Py_RETURN_NONE;
}

PyObject* never(PyObject*, const Tensor&) { Py_RETURN_FALSE; }

constexpr Query dim_query = {"dim", [](PyObject*, const Tensor& t) { return wrap(t.dim()); }};
constexpr Query numel_query = {"numel", [](PyObject*, const Tensor& t) { return wrap(t.numel()); }};
constexpr Query element_size_query = {
    "element_size", [](PyObject*, const Tensor& t) { return wrap(itemsize(t.dtype())); }};
constexpr Query offset_query = {"storage_offset",
                                [](PyObject*, const Tensor& t) { return wrap(t.offset()); }};
constexpr Query data_ptr_query = {
    "data_ptr", [](PyObject*, const Tensor& t) {
      return PyLong_FromVoidPtr(t.numel() && !t.is_meta() ? shared_address(t) : nullptr);
    }};
constexpr Query is_floating_query = {
    "is_floating_point", [](PyObject*, const Tensor& t) { return wrap(t.is_floating()); }};
constexpr Query is_complex_query = {
    "is_complex", [](PyObject*, const Tensor& t) { return wrap(t.is_complex()); }};
constexpr Query is_signed_query = {
    "is_signed", [](PyObject*, const Tensor& t) {
      return wrap(t.dtype() != DType::Bool && t.dtype() != DType::UInt8);
    }};
constexpr Query is_inference_query = {
    "is_inference", [](PyObject*, const Tensor& t) { return wrap(bool(t.impl()->inference)); }};
constexpr Query is_view_query = {"_is_view",
                                 [](PyObject*, const Tensor& t) { return wrap(t.is_view()); }};
constexpr Query is_conj_query = {"is_conj",
                                 [](PyObject*, const Tensor& t) { return wrap(is_conjugated(t)); }};
constexpr Query is_neg_query = {"is_neg",
                                [](PyObject*, const Tensor& t) { return wrap(is_negated(t)); }};
constexpr Query is_pinned_query = {"is_pinned", never};
constexpr Query is_shared_query = {
    "is_shared", [](PyObject*, const Tensor& t) { return wrap(is_shared(*t.storage())); }};
constexpr Query is_coalesced_query = {"is_coalesced", never};
constexpr Query get_device_query = {
    "get_device", [](PyObject*, const Tensor& t) { return wrap(int64_t(t.device().index)); }};
constexpr Query item_query = {"item", to_item};
constexpr Query tolist_query = {"tolist", to_list};
constexpr Query complex_query = {"__complex__", to_complex_number};
constexpr Query detach_query = {"detach_", detach_in_place};
constexpr Query retain_query = {"retain_grad", keep_grad};
constexpr Query storage_query = {
    "untyped_storage", [](PyObject* self, const Tensor&) { return storage_object(self); }};

// ---- methods with arguments
// ----------------------------------------------------------------------------

constexpr Parameter self_parameter = {"self", Kind::Tensor, false, false, false, -1};

PyObject* sizes_or_size(const Arguments& a, const Dims& (Tensor::*all)() const,
                        int64_t (Tensor::*one)(int64_t) const, bool as_size) {
  const Tensor& t = tensor_of(a.object(0));
  if (a.given(1)) return wrap((t.*one)(a.integer(1)));
  Object size = checked(wrap((t.*all)()));
  return as_size ? size.release() : PySequence_Tuple(Object(PySequence_List(size.get())).get());
}

PyObject* get_size(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {self_parameter, {"dim", Kind::Int, true, true, false, -1}};
  static const Overload overloads[] = {{"size(dim=None)", parameters, 2, 2}};
  static const Spec spec = {"size", "Tensor.size", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, self, args, count, names) < 0) return a.result();
    return sizes_or_size(a, &Tensor::sizes, &Tensor::size, true);
  });
}

PyObject* get_stride(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {self_parameter, {"dim", Kind::Int, true, true, false, -1}};
  static const Overload overloads[] = {{"stride(dim=None)", parameters, 2, 2}};
  static const Spec spec = {"stride", "Tensor.stride", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, self, args, count, names) < 0) return a.result();
    return sizes_or_size(a, &Tensor::strides, &Tensor::stride, false);
  });
}

// The strides of a dense tensor whose dims, from fastest to slowest, are in `order`.
bool is_ordered(const Tensor& t, std::initializer_list<int> order) {
  if (t.dim() != static_cast<int64_t>(order.size())) return false;
  int64_t step = 1;
  for (int d : order) {
    if (t.sizes()[d] != 1 && t.strides()[d] != step) return false;
    step *= t.sizes()[d];
  }
  return true;
}

PyObject* get_is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t count,
                            PyObject* names) {
  static const Parameter parameters[] = {
      self_parameter, {"memory_format", Kind::MemoryFormat, false, true, true, -1}};
  static const Overload overloads[] = {
      {"is_contiguous(*, memory_format=torch.contiguous_format)", parameters, 2, 1}};
  static const Spec spec = {"is_contiguous", "Tensor.is_contiguous", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, self, args, count, names) < 0) return a.result();
    const Tensor& t = tensor_of(self);
    switch (a.memory_format_or_none(1).value_or(MemoryFormat::Contiguous)) {
      case MemoryFormat::ChannelsLast: return wrap(is_ordered(t, {1, 3, 2, 0}));
      case MemoryFormat::ChannelsLast3d: return wrap(is_ordered(t, {1, 4, 3, 2, 0}));
      default: return wrap(t.is_contiguous());
    }
  });
}

PyObject* set_requires_grad(PyObject* self, PyObject* const* args, Py_ssize_t count,
                            PyObject* names) {
  static const Parameter parameters[] = {self_parameter,
                                         {"requires_grad", Kind::Bool, false, true, false, -1}};
  static const Overload overloads[] = {{"requires_grad_(requires_grad=True)", parameters, 2, 2}};
  static const Spec spec = {"requires_grad_", "Tensor.requires_grad_", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, self, args, count, names) < 0) return a.result();
    change_requires_grad(tensor_of(self), a.given(1) ? a.boolean(1) : true);
    return same(self);
  });
}

PyObject* get_is_set_to(PyObject* self, PyObject* other) {
  return guarded([&]() -> PyObject* {
    check_type(is_tensor(other), "is_set_to(): argument 'tensor' (position 1) must be Tensor, not ",
               type_name(other));
    const TensorImpl *a = tensor_of(self).impl(), *b = tensor_of(other).impl();
    return wrap(a->storage == b->storage && a->offset == b->offset && a->sizes == b->sizes &&
                a->strides == b->strides);
  });
}

using AddHook = PyObject* (*)(const Tensor&, PyObject*);
template <AddHook add>
PyObject* register_hook(PyObject* self, PyObject* hook) {
  return guarded([&]() -> PyObject* {
    check_type(PyCallable_Check(hook), "hook must be callable, not ", type_name(hook));
    return add(tensor_of(self), hook);
  });
}

// ---- subclasses
// ----------------------------------------------------------------------------------------

PyTypeObject* to_subclass(PyObject* cls, const char* function) {
  bool fits =
      PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type);
  check_type(fits, function, ": cls must be a subclass of Tensor, not ",
             PyType_Check(cls) ? reinterpret_cast<PyTypeObject*>(cls)->tp_name : type_name(cls));
  return reinterpret_cast<PyTypeObject*>(cls);
}

// Tensor._make_subclass(cls, data, require_grad=False)
PyObject* make_subclass(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"cls", "data", "require_grad", nullptr};
  PyObject *cls, *data;
  int wanted = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|p:_make_subclass", const_cast<char**>(names),
                                   &cls, &data, &wanted))
    return nullptr;
  return guarded([&]() -> PyObject* {
    PyTypeObject* type = to_subclass(cls, "_make_subclass");
    check_type(is_tensor(data), "_make_subclass: data must be a Tensor, not ", type_name(data));
    if (Py_TYPE(data) != tensor_type && PyObject_HasAttrString(data, "_has_own_class"))
      checked(Object(PyObject_CallMethod(data, "as_subclass", "O", cls)).get());  // it may refuse
    Tensor t = alias(tensor_of(data));
    if (wanted) change_requires_grad(t, true);
    return wrap_as(type, std::move(t));
  });
}

PyObject* as_subclass(PyObject* self, PyObject* cls) {
  return guarded([&]() -> PyObject* {
    return wrap_as(to_subclass(cls, "as_subclass"), view_of_all(tensor_of(self)));
  });
}

// Tensor.__repr__(*, tensor_contents=None): what repr() gives, or another text for the elements.
PyObject* show(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    check_type(count == 0 && named <= 1, "__repr__: takes one argument, tensor_contents, by name");
    if (!named || args[0] == Py_None) return tensor_repr(self);
    PyObject* arguments[] = {self, args[0]};
    return PyObject_Vectorcall(import_attribute("rushlight._printing", "tensor_repr").get(),
                               arguments, 1, names);
  });
}

PyMethodDef definitions[] = {
    {"__repr__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(show)),
     METH_FASTCALL | METH_KEYWORDS | METH_COEXIST, nullptr},
    {"dim", answer<dim_query>, METH_NOARGS, "dim($self)\n--\n\nThe number of dims."},
    {"ndimension", answer<dim_query>, METH_NOARGS, "ndimension($self)\n--\n\nThe number of dims."},
    {"numel", answer<numel_query>, METH_NOARGS, "numel($self)\n--\n\nThe number of elements."},
    {"nelement", answer<numel_query>, METH_NOARGS,
     "nelement($self)\n--\n\nThe number of elements."},
    {"element_size", answer<element_size_query>, METH_NOARGS,
     "element_size($self)\n--\n\nBytes per element."},
    {"storage_offset", answer<offset_query>, METH_NOARGS,
     "storage_offset($self)\n--\n\nElements of the storage before the first."},
    {"data_ptr", answer<data_ptr_query>, METH_NOARGS,
     "data_ptr($self)\n--\n\nThe address of the first element."},
    {"const_data_ptr", answer<data_ptr_query>, METH_NOARGS, nullptr},
    {"is_floating_point", answer<is_floating_query>, METH_NOARGS,
     "is_floating_point($self)\n--\n\nWhether the dtype is floating point."},
    {"is_complex", answer<is_complex_query>, METH_NOARGS,
     "is_complex($self)\n--\n\nWhether the dtype is complex."},
    {"is_signed", answer<is_signed_query>, METH_NOARGS,
     "is_signed($self)\n--\n\nWhether the dtype has negative numbers."},
    {"is_inference", answer<is_inference_query>, METH_NOARGS,
     "is_inference($self)\n--\n\nWhether it was made in inference mode."},
    {"_is_view", answer<is_view_query>, METH_NOARGS, nullptr},
    {"is_conj", answer<is_conj_query>, METH_NOARGS, nullptr},
    {"is_neg", answer<is_neg_query>, METH_NOARGS, nullptr},
    {"is_pinned", answer<is_pinned_query>, METH_NOARGS, nullptr},
    {"is_shared", answer<is_shared_query>, METH_NOARGS, nullptr},
    {"is_coalesced", answer<is_coalesced_query>, METH_NOARGS, nullptr},
    {"get_device", answer<get_device_query>, METH_NOARGS,
     "get_device($self)\n--\n\nThe index of the device, -1 for the CPU."},
    {"item", answer<item_query>, METH_NOARGS,
     "item($self)\n--\n\nThe only element as a Python number."},
    {"tolist", answer<tolist_query>, METH_NOARGS,
     "tolist($self)\n--\n\nThe elements as nested lists."},
    {"__complex__", answer<complex_query>, METH_NOARGS, nullptr},
    {"detach_", answer<detach_query>, METH_NOARGS,
     "detach_($self)\n--\n\nTakes this tensor out of the graph."},
    {"retain_grad", answer<retain_query>, METH_NOARGS,
     "retain_grad($self)\n--\n\nLets backward fill .grad though this is no leaf."},
    {"untyped_storage", answer<storage_query>, METH_NOARGS,
     "untyped_storage($self)\n--\n\nThe bytes this tensor looks at."},
    {"is_set_to", get_is_set_to, METH_O,
     "is_set_to($self, tensor)\n--\n\nWhether both are the same window on the same storage."},
    {"register_hook", register_hook<add_python_hook>, METH_O,
     "register_hook($self, hook)\n--\n\nCalls hook(grad) when the gradient is known; it may return "
     "another. Returns a handle."},
    {"register_post_accumulate_grad_hook", register_hook<add_accumulate_hook>, METH_O,
     "register_post_accumulate_grad_hook($self, hook)\n--\n\nCalls hook(tensor) after .grad of "
     "this leaf was filled. Returns a handle."},
    {"as_subclass", as_subclass, METH_O,
     "as_subclass($self, cls)\n--\n\nThe same elements as an instance of cls."},
    {"_make_subclass", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(make_subclass)),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyMethodDef* tensor_methods() { return definitions; }

void register_tensor_methods(Registry& registry) {
  registry.method("size", get_size,
                  "size($self, dim=None)\n--\n\nThe sizes, or the size of one dim.");
  registry.method("stride", get_stride,
                  "stride($self, dim=None)\n--\n\nThe strides in elements, or that of one dim.");
  registry.method("is_contiguous", get_is_contiguous,
                  "is_contiguous($self, *, memory_format=torch.contiguous_format)\n--\n\nWhether "
                  "the elements lie in order without gaps.");
  registry.method("requires_grad_", set_requires_grad,
                  "requires_grad_($self, requires_grad=True)\n--\n\nSets whether gradients are "
                  "wanted for this leaf.");
}

}  // namespace rl::bind
