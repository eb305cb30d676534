#include "bind/sparse.h"

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/types.h"
#include "dispatch/sparse.h"

namespace rl::bind {

namespace {

const Tensor& tensor_argument(PyObject* o) {
  check_type(is_tensor(o), "a tensor was expected, not ", type_name(o));
  return tensor_of(o);
}

Tensor tensor_or_none(PyObject* o) { return o == Py_None ? Tensor() : tensor_argument(o); }

// _sparse_construct(values, layout, indices, plain_indices, size, is_coalesced): with the history
// of values
PyObject* construct(PyObject*, PyObject* args) {
  PyObject *values, *layout, *indices, *plain, *size;
  int coalesced;
  if (!PyArg_ParseTuple(args, "OOOOOp", &values, &layout, &indices, &plain, &size, &coalesced))
    return nullptr;
  return guarded([&] {
    const Tensor& places = tensor_argument(indices);
    return wrap(sparse::construct(tensor_argument(values),
                                  {to_layout(layout), coalesced != 0, places, tensor_or_none(plain),
                                   to_dims(size), places.version()}));
  });
}

// _sparse_parts(t): indices, plain indices or None, and the values without history
PyObject* parts(PyObject*, PyObject* o) {
  return guarded([&] {
    const SparseData& data = sparse_data(tensor_argument(o));
    Object indices = checked(wrap(data.pattern.indices)), plain = checked(wrap(data.pattern.plain)),
           values = checked(wrap(data.values));
    return PyTuple_Pack(3, indices.get(), plain.get(), values.get());
  });
}

PyObject* is_coalesced(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(sparse_data(tensor_argument(o)).pattern.is_coalesced()); });
}

template <Tensor (*function)(const Tensor&)> PyObject* unary(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(function(tensor_argument(o))); });
}

PyObject* dense_dim(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(sparse::dense_dims(tensor_argument(o))); });
}

template <class F> PyObject* binary(PyObject* args, F&& f) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO", &a, &b)) return nullptr;
  return guarded([&]() -> PyObject* { return f(tensor_argument(a), tensor_argument(b)); });
}

// _sparse_take(source, pattern): the elements of source where the sparse tensor `pattern` has some
PyObject* take(PyObject*, PyObject* args) {
  return binary(args, [](const Tensor& source, const Tensor& pattern) {
    const SparseData& data = sparse_data(pattern);
    return wrap(sparse::take(source, data.pattern, data.values.sizes()));
  });
}

PyObject* replace(PyObject*, PyObject* args) {
  return binary(args, [](const Tensor& to, const Tensor& from) -> PyObject* {
    replace_sparse(to, from);
    Py_RETURN_NONE;
  });
}

PyObject* same_pattern(PyObject*, PyObject* args) {
  return binary(args, [](const Tensor& a, const Tensor& b) {
    return wrap(sparse::same_pattern(sparse_data(a).pattern, sparse_data(b).pattern));
  });
}

// The parts of a matrix in compressed rows, which Python gives as they are wanted here.
sparse::MatrixRows matrix_rows(PyObject* starts, PyObject* columns, PyObject* values) {
  sparse::MatrixRows m{tensor_argument(starts), tensor_argument(columns), tensor_argument(values)};
  for (const Tensor* t : {&m.starts, &m.columns})
    check(t->dtype() == DType::Int64 && t->dim() == 1, "sparse: expected indices of int64");
  for (const Tensor* t : {&m.starts, &m.columns, &m.values})
    check(t->device().is_cpu() && t->is_contiguous(), "sparse: expected parts on the CPU");
  check(m.values.sizes() == m.columns.sizes(), "sparse: expected a value for each column");
  return m;
}

// _sparse_product(a_starts, a_columns, a_values, b_..., width, pattern): see product_pattern, if
// `pattern`, and product
PyObject* product(PyObject*, PyObject* args) {
  PyObject* parts[6];
  Py_ssize_t width;
  int pattern;
  if (!PyArg_ParseTuple(args, "OOOOOOnp", &parts[0], &parts[1], &parts[2], &parts[3], &parts[4],
                        &parts[5], &width, &pattern))
    return nullptr;
  return guarded([&] {
    const sparse::MatrixRows a = matrix_rows(parts[0], parts[1], parts[2]),
                             b = matrix_rows(parts[3], parts[4], parts[5]);
    check(width >= 0, "sparse: expected a width");
    if (pattern) {
      sparse::ProductPattern p = sparse::product_pattern(a, b, width);
      return wrap(TensorList{p.starts, p.columns, p.left, p.right, p.places});
    }
    const DType t = a.values.dtype();
    check((t == DType::Float32 || t == DType::Float64) && b.values.dtype() == t,
          "sparse: expected values of one of float32 and float64");
    sparse::MatrixRows p = sparse::product(a, b, width);
    return wrap(TensorList{p.starts, p.columns, p.values});
  });
}

// _sparse_times_vector(starts, columns, values, vector)
PyObject* times_vector(PyObject*, PyObject* args) {
  PyObject *parts[3], *other;
  if (!PyArg_ParseTuple(args, "OOOO", &parts[0], &parts[1], &parts[2], &other)) return nullptr;
  return guarded([&] {
    const sparse::MatrixRows a = matrix_rows(parts[0], parts[1], parts[2]);
    const Tensor& vector = tensor_argument(other);
    const DType t = vector.dtype();
    check((t == DType::Float32 || t == DType::Float64) && a.values.dtype() == t &&
              vector.is_contiguous() && vector.device().is_cpu() && a.starts.numel() > 0,
          "sparse: expected values and a vector of one of float32 and float64");
    return wrap(sparse::product(a, vector));
  });
}

// _sparse_row_starts(rows, height)
PyObject* row_starts(PyObject*, PyObject* args) {
  PyObject* rows;
  Py_ssize_t height;
  if (!PyArg_ParseTuple(args, "On", &rows, &height)) return nullptr;
  return guarded([&] {
    const Tensor& t = tensor_argument(rows);
    check(t.dtype() == DType::Int64 && t.dim() == 1 && t.device().is_cpu() && height >= 0,
          "sparse: expected rows of int64 on the CPU");
    return wrap(sparse::row_starts(t, height));
  });
}

PyMethodDef functions[] = {{"_sparse_construct", construct, METH_VARARGS, nullptr},
                           {"_sparse_parts", parts, METH_O, nullptr},
                           {"_sparse_is_coalesced", is_coalesced, METH_O, nullptr},
                           {"_sparse_dense_dim", dense_dim, METH_O, nullptr},
                           {"_sparse_values", unary<sparse::values>, METH_O, nullptr},
                           {"_sparse_coalesce", unary<sparse::coalesce>, METH_O, nullptr},
                           {"_sparse_positions", unary<sparse::positions>, METH_O, nullptr},
                           {"_sparse_to_dense", unary<sparse::to_dense>, METH_O, nullptr},
                           {"_sparse_clone", unary<sparse::clone>, METH_O, nullptr},
                           {"_sparse_take", take, METH_VARARGS, nullptr},
                           {"_sparse_replace", replace, METH_VARARGS, nullptr},
                           {"_sparse_same_pattern", same_pattern, METH_VARARGS, nullptr},
                           {"_sparse_product", product, METH_VARARGS, nullptr},
                           {"_sparse_times_vector", times_vector, METH_VARARGS, nullptr},
                           {"_sparse_row_starts", row_starts, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject* sparse_type() {
  static Imported type("rushlight.sparse._tensor", "SparseTensor");
  return reinterpret_cast<PyTypeObject*>(type.get());
}

void init_sparse(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace rl::bind
