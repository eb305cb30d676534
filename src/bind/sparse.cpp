#include "bind/sparse.h"

#include "autograd/engine.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/python_link.h"

namespace rl::bind {

namespace {

// The class, once rushlight.sparse has told it.
PyTypeObject* sparse_type = nullptr;
EngineOps dense_ops;

bool is_sparse(const Tensor& t) {
  if (!t.is_meta() || !sparse_type) return false;
  LinkLock lock(t.impl());
  auto* o = static_cast<PyObject*>(t.impl()->python.load(std::memory_order_relaxed));
  return o && PyObject_TypeCheck(o, sparse_type);
}

// rushlight.sparse._engine.<name>(*args), from a thread that may not hold the GIL.
template <class... Args> Tensor call(const char* name, const Args&... args) {
  WithGil gil;
  try {
    Object function = import_attribute("rushlight.sparse._engine", name);
    Object result = checked(
        PyObject_CallFunctionObjArgs(function.get(), checked(wrap(args)).get()..., nullptr));
    return is_tensor(result.get()) ? tensor_of(result.get()) : Tensor();
  } catch (const PythonError&) {
    throw CarriedError::take();
  }
}

Tensor add(const Tensor& a, const Tensor& b) {
  if (!is_sparse(a) && !is_sparse(b)) return dense_ops.add(a, b);
  return call("add", a, b);
}
void add_in_place(const Tensor& to, const Tensor& t) {
  if (!is_sparse(to) && !is_sparse(t)) return dense_ops.add_in_place(to, t);
  call("add_in_place", to, t);
}
Tensor clone(const Tensor& t) { return is_sparse(t) ? call("clone", t) : dense_ops.clone(t); }
Tensor cast(const Tensor& t, DType dtype) {
  return is_sparse(t) ? call("cast", t, dtype) : dense_ops.cast(t, dtype);
}
Tensor make_sparse(const Tensor& indices, const Tensor& values, const Dims& sizes) {
  return call("make", indices, values, sizes);
}

// _set_sparse_type(cls)
PyObject* set_sparse_type(PyObject*, PyObject* cls) {
  return guarded([&]() -> PyObject* {
    check_type(PyType_Check(cls), "_set_sparse_type: expected a class, got ", type_name(cls));
    Py_INCREF(cls);
    sparse_type = reinterpret_cast<PyTypeObject*>(cls);
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {{"_set_sparse_type", set_sparse_type, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_sparse(PyObject* module) {
  checked(PyModule_AddFunctions(module, functions));
  dense_ops = engine_ops;
  engine_ops.add = add;
  engine_ops.add_in_place = add_in_place;
  engine_ops.clone = clone;
  engine_ops.cast = cast;
  engine_ops.is_sparse = is_sparse;
  engine_ops.make_sparse = make_sparse;
}

}  // namespace rl::bind
