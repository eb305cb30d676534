// x[...] and x[...] = value.
//
// Integers, slices, None and Ellipsis make a view. Masks, integer tensors and sequences are left to
// the ops index and index_put_, which get one entry for each indexed dim of that view.
#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/inplace.h"
#include "bind/convert.h"
#include "bind/factory.h"
#include "bind/tensor_type.h"
#include "bind/torch_function.h"
#include "bind/volatile.h"
#include "core/warning.h"
#include "dispatch/guards.h"
#include "dispatch/host_elements.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl::bind {

namespace {

struct SliceBounds {
  int64_t start, stop, step;
};

int64_t slice_number(PyObject* o, int64_t otherwise) {
  if (o == Py_None) return otherwise;
  Object index(checked(PyNumber_Index(o)));
  int overflow = 0;
  int64_t number = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  return overflow > 0 ? INT64_MAX : overflow < 0 ? -INT64_MAX : number;
}

// What a slice says in 64 bits, of which Python's own function keeps those of an address.
SliceBounds bounds_of(PyObject* slice) {
  if constexpr (sizeof(Py_ssize_t) == sizeof(int64_t)) {
    Py_ssize_t start, stop, step;
    checked(PySlice_Unpack(slice, &start, &stop, &step));
    return {start, stop, step};
  }
  auto* s = reinterpret_cast<PySliceObject*>(slice);
  return {slice_number(s->start, 0), slice_number(s->stop, INT64_MAX), slice_number(s->step, 1)};
}

// ---- the view
// --------------------------------------------------------------------------------------

// Narrows a tensor step by step: by ops where autograd must see each step, else only its geometry,
// of which `finish` makes one view.
class Narrowing {
 public:
  explicit Narrowing(const Tensor& t) : current_(t), recorded_(records(t)) {
    if (recorded_) return;
    sizes_ = t.sizes();
    strides_ = t.strides();
    offset_ = t.offset();
  }

  int64_t ndim() const { return recorded_ ? current_.dim() : sizes_.size(); }
  int64_t size(int64_t d) const { return recorded_ ? current_.sizes()[d] : sizes_[d]; }

  // `named` is the dim as errors call it: that of the tensor that was indexed.
  void select(int64_t d, int64_t index, int64_t named) {
    int64_t n = size(d);
    check_index(index >= -n && index < n, "index ", index, " is out of bounds for dimension ",
                named, " with size ", n);
    if (recorded_) return step(ops::select(current_, d, index));
    offset_ += (index < 0 ? index + n : index) * strides_[d];
    sizes_.erase(d);
    strides_.erase(d);
  }
  void slice(int64_t d, int64_t start, int64_t stop, int64_t by) {
    // As PySlice_AdjustIndices, but of sizes that need not fit into Python's.
    const int64_t n = size(d);
    auto place = [n](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
    const int64_t from = place(start), to = place(stop);
    const int64_t count = from < to ? (to - from - 1) / by + 1 : 0;
    if (recorded_) return step(ops::slice(current_, d, from, to, by));
    if (count > 0) offset_ += from * strides_[d];
    sizes_[d] = count;
    if (count > 1) strides_[d] *= by;
    else if (__builtin_mul_overflow(strides_[d], by, &strides_[d])) strides_[d] = 1;
  }
  void unsqueeze(int64_t d) {
    if (recorded_) return step(ops::unsqueeze(current_, d));
    int64_t stride = d < sizes_.size() ? sizes_[d] * strides_[d] : 1;
    sizes_.insert(d, 1);
    strides_.insert(d, stride);
  }
  // Always a new view, even if nothing was narrowed.
  Tensor finish() {
    if (recorded_) return stepped_ ? current_ : ops::expand(current_, current_.sizes());
    return make_view(current_, alias(current_, sizes_, strides_, offset_));
  }

 private:
  void step(Tensor next) {
    current_ = std::move(next);
    stepped_ = true;
  }
  Tensor current_;
  bool recorded_, stepped_ = false;
  Dims sizes_, strides_;
  int64_t offset_ = 0;
};

// ---- reading an index
// ------------------------------------------------------------------------------

struct Index {
  Tensor view;
  TensorList
      advanced;  // an entry per dim from the first, undefined for ':'; empty for a plain view
};

bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::UInt8; }

bool is_int_like(PyObject* o) {
  return PyLong_CheckExact(o) ||
         (!PyBool_Check(o) && !is_tensor(o) && number_kind(o) == NumberKind::Int);
}

bool is_index_sequence(PyObject* o) {
  return PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o);
}

[[noreturn]] void fail_invalid(PyObject* o) {
  ErrorKind kind = PyUnicode_Check(o) || PyBytes_Check(o) ? ErrorKind::Type : ErrorKind::Index;
  fail(kind,
       "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
       "indices (got ",
       type_name(o), ")");
}

class IndexReader {
 public:
  IndexReader(const Tensor& self, PyObject* const* items, Py_ssize_t count)
      : self_(self), narrowing_(self), items_(items), count_(count) {}

  Index read() {
    int64_t specified = 0;
    for (Py_ssize_t i = 0; i < count_; ++i) specified += dims_taken(items_[i]);
    check_index(specified <= self_.dim(), "too many indices for tensor of dimension ", self_.dim());
    skipped_by_ellipsis_ = self_.dim() - specified;
    for (Py_ssize_t i = 0; i < count_; ++i) apply(items_[i]);
    return {narrowing_.finish(), std::move(advanced_)};
  }

 private:
  static int64_t dims_taken(PyObject* o) {
    if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return 0;
    if (!is_tensor(o)) return 1;
    const Tensor& t = tensor_of(o);
    return is_mask(t) ? t.dim() : 1;
  }

  void apply(PyObject* o) {
    if (is_int_like(o)) return select(to_int64(o));
    if (PySlice_Check(o)) return apply_slice(o);
    if (o == Py_None) return insert_dim();
    if (o == Py_Ellipsis) {
      dim_ += skipped_by_ellipsis_;
      return;
    }
    if (PyBool_Check(o)) return add_condition(o == Py_True);
    if (is_tensor(o)) return apply_tensor(tensor_of(o));
    if (!is_index_sequence(o)) fail_invalid(o);
    apply_tensor(index_tensor(o));
  }

  void select(int64_t index) {
    narrowing_.select(dim_, index, dim_ + removed_);
    ++removed_;
  }

  void insert_dim() {
    narrowing_.unsqueeze(dim_++);
    --removed_;
  }

  void apply_slice(PyObject* o) {
    auto [start, stop, step] = bounds_of(o);
    check_value(step > 0, "step must be greater than zero");
    check_index(narrowing_.ndim() > dim_, "slice() cannot be applied to a 0-dim tensor.");
    bool whole = start == 0 && stop == INT64_MAX && step == 1;
    if (!whole) narrowing_.slice(dim_, start, stop, step);
    ++dim_;
  }

  void apply_tensor(const Tensor& t) {
    if (t.dim() == 0 && rl::is_integral_or_bool(t.dtype())) {
      if (!is_mask(t)) return select(item(t).to<int64_t>());
      return add_condition(item(t).to<bool>());
    }
    check_index(
        rl::is_integral_or_bool(t.dtype()) && t.dtype() != DType::Int8 && t.dtype() != DType::Int16,
        "tensors used as indices must be long, int, byte or bool tensors");
    add_advanced(t, is_mask(t) ? t.dim() : 1);
  }

  // A bool selects all or nothing of a new dim of size 1.
  void add_condition(bool value) {
    narrowing_.unsqueeze(dim_);
    --removed_;
    Device place = self_.is_meta() ? self_.device() : Device{};
    Tensor which = empty(Dims{value ? 1 : 0}, {DType::Int64, place});
    if (value && !which.is_meta()) *which.data<int64_t>() = 0;
    add_advanced(moved_to(which, self_.device()), 1);
  }

  // Entries line up with dims as far as `dim_`, but a mask of several dims is one entry.
  void add_advanced(const Tensor& t, int64_t dims) {
    for (; filled_ < dim_; ++filled_) advanced_.emplace_back();
    advanced_.push_back(t);
    dim_ += dims;
    filled_ = dim_;
  }

  // A list, range or array as a tensor of indices, or a mask. As in torch, other dtypes than those
  // of masks become integers: arrays of int8, and floats without their fraction.
  Tensor index_tensor(PyObject* sequence) {
    Tensor t = tensor_from(sequence, std::nullopt, self_.is_meta() ? Device{} : self_.device());
    return is_mask(t) || t.dtype() == DType::Int64 ? t : ops::to_dtype(t, DType::Int64);
  }

  const Tensor& self_;
  Narrowing narrowing_;
  PyObject* const* items_;
  Py_ssize_t count_;
  int64_t dim_ = 0;      // of the view, for the next item
  int64_t removed_ = 0;  // dims before it that the view lacks, less those that it has in addition
  int64_t filled_ = 0;   // dims that advanced_ accounts for
  int64_t skipped_by_ellipsis_ = 0;
  TensorList advanced_;
};

// torch still reads a short list that holds lists, tensors, slices, None or ... as if it were a
// tuple.
bool is_tuple_in_disguise(PyObject* o) {
  if (!PyList_Check(o) || PyList_GET_SIZE(o) >= 32) return false;
  Object copy = lists_change ? items_of(o) : Object::share(o);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(copy.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(copy.get(), i);
    if (item == Py_None || item == Py_Ellipsis || PySlice_Check(item) || is_tensor(item) ||
        is_index_sequence(item))
      return true;
  }
  return false;
}

void warn_disguised() {
  warn(
      "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
      "x[tuple(seq)] instead of x[seq]");
}

Index read_index(const Tensor& self, PyObject* index) {
  if (PyTuple_Check(index))
    return IndexReader(self, PySequence_Fast_ITEMS(index), PyTuple_GET_SIZE(index)).read();
  if (is_tuple_in_disguise(index)) {
    warn_disguised();
    Object items = items_of(index);
    return IndexReader(self, PySequence_Fast_ITEMS(items.get()), PyTuple_GET_SIZE(items.get()))
        .read();
  }
  check_index(
      self.dim() > 0 || !is_int_like(index),
      "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number");
  check_index(self.dim() > 0 || !PySlice_Check(index),
              "slice() cannot be applied to a 0-dim tensor.");
  return IndexReader(self, &index, 1).read();
}

// ---- slots
// -----------------------------------------------------------------------------------------

bool is_subclass(PyObject* o) { return is_tensor(o) && !is_exact_tensor(o); }

bool holds_subclass(PyObject* index) {
  if (!PyTuple_CheckExact(index) && !PyList_CheckExact(index)) return is_subclass(index);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(index); ++i)
    if (is_subclass(PySequence_Fast_GET_ITEM(index, i))) return true;
  return false;
}

PyObject* get_item(PyObject* self, PyObject* index) {
  return guarded([&]() -> PyObject* {
    if (may_override(self)) {
      PyObject* result = nullptr;
      if (overrides_method("__getitem__", {self, index}, result)) return result;
    }
    const Tensor& t = tensor_of(self);
    if (PyLong_CheckExact(index) && t.dim() > 0) {  // by far the most common
      Narrowing narrowing(t);
      narrowing.select(0, to_int64(index), 0);
      return wrap(narrowing.finish());
    }
    PyObject* result = nullptr;
    if (holds_subclass(index) && overrides_method("__getitem__", {self, index}, result))
      return result;
    Index found = read_index(t, index);
    if (found.advanced.empty()) return wrap(std::move(found.view));
    return wrap(ops::index(found.view, found.advanced));
  });
}

// The value without leading dims of size 1 beyond the `ndim` that it may have.
Tensor without_leading_ones(const Tensor& value, int64_t ndim) {
  Tensor t = value;
  while (t.dim() > ndim && t.sizes()[0] == 1) t = ops::select(t, 0, 0);
  return t;
}

// The number to assign. As in torch one too large for half precision becomes infinite here, which
// masks of scores rely on; elsewhere it is an error.
Scalar assignable(const Tensor& t, const Scalar& value) {
  if (!is_reduced(t.dtype()) || value.is_complex() || fits(value, t.dtype())) return value;
  return Scalar(std::copysign(std::numeric_limits<double>::infinity(), value.real()));
}

void assign(const Tensor& self, PyObject* index, PyObject* value) {
  bool number = is_number(value);
  check_type(number || is_tensor(value), "can't assign a ", type_name(value), " to a tensor of ",
             name(self.dtype()));
  Index found = read_index(self, index);
  if (found.advanced.empty()) {
    if (number) ops::fill_(found.view, assignable(self, to_scalar(value)));
    else ops::copy_(found.view, without_leading_ones(tensor_of(value), found.view.dim()));
    return;
  }
  Tensor values = number ? element_like("index_put", assignable(self, to_scalar(value)), self)
                         : tensor_of(value);
  ops::index_put_(found.view, found.advanced, without_leading_ones(values, 0));
}

int set_item(PyObject* self, PyObject* index, PyObject* value) {
  Object done(guarded([&]() -> PyObject* {
    check_type(value != nullptr, "Tensor does not support deleting items");
    PyObject* result = nullptr;
    if ((may_override(self) || may_override(value) || holds_subclass(index)) &&
        overrides_method("__setitem__", {self, index, value}, result))
      return result;
    check_not_captured(tensor_of(self), "__setitem__");
    assign(tensor_of(self), index, value);
    Py_RETURN_NONE;
  }));
  return done ? 0 : -1;
}

Py_ssize_t length(PyObject* self) {
  Object n(guarded([&]() -> PyObject* {
    PyObject* result = nullptr;
    if (may_override(self) && overrides_method("__len__", {self}, result)) return result;
    const Tensor& t = tensor_of(self);
    check_type(t.dim() > 0, "len() of a 0-d tensor");
    return wrap(t.sizes()[0]);
  }));
  if (!n) return -1;
  const Py_ssize_t count = PyNumber_AsSsize_t(n.get(), PyExc_OverflowError);
  if (count < 0 && !PyErr_Occurred())  // of who took the call over
    PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
  return count;
}

int contains(PyObject* self, PyObject* element) {
  Object found(guarded([&]() -> PyObject* {
    PyObject* result = nullptr;
    if (may_override(self) && overrides_method("__contains__", {self, element}, result))
      return result;
    check(is_tensor(element) || is_number(element),
          "Tensor.__contains__ only supports Tensor or scalar, but you passed in a <class '",
          type_name(element), "'>.");
    Tensor value = is_tensor(element) ? tensor_of(element) : wrap_number(to_scalar(element));
    NoGradGuard guard;
    return wrap(item(ops::any(ops::eq(tensor_of(self), value))));
  }));
  return found ? PyObject_IsTrue(found.get()) : -1;
}

PyObject* iterate(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    check_type(t.dim() > 0, "iteration over a 0-d tensor");
    if (volatile_exists() && is_exact_tensor(self) && t.is_volatile()) {
      VolatileScope scope(self);
      Object items = checked(wrap(ops::unbind(t)));
      scope.mark(items.get());
      return PyObject_GetIter(items.get());
    }
    PyObject* result = nullptr;
    if (may_override(self) && overrides_method("unbind", {self}, result)) {
      Object parts(result);
      return PyObject_GetIter(parts.get());
    }
    Object items = checked(wrap(ops::unbind(t)));
    return PyObject_GetIter(items.get());
  });
}

}  // namespace

void add_index_slots(PyTypeObject& type) {
  static PyMappingMethods mapping{};
  mapping.mp_length = length;
  mapping.mp_subscript = get_item;
  mapping.mp_ass_subscript = set_item;
  static PySequenceMethods sequence{};
  sequence.sq_length = length;
  sequence.sq_contains = contains;
  type.tp_as_mapping = &mapping;
  type.tp_as_sequence = &sequence;
  type.tp_iter = iterate;
}

}  // namespace rl::bind
