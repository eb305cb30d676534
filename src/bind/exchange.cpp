// Memory shared with other libraries without copies: NumPy, the buffer protocol, DLPack.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "autograd/node.h"
#include "bind/args.h"
#include "bind/convert.h"
#include "bind/dlpack.h"
#include "bind/errors.h"
#include "bind/factory.h"
#include "bind/types.h"
#include "core/alignment.h"
#include "core/device_placement.h"
#include "core/warning.h"
#include "dispatch/host_elements.h"
#include "kernels/cuda/runtime.h"
#include "ops_create.h"
#include "tensor/lazy_view.h"

namespace rl::bind {

namespace {

// ---- NumPy in
// --------------------------------------------------------------------------------------

void release_python_owner(void* owner) {
  if (!Py_IsInitialized()) return;
  WithGil gil;
  Py_DECREF(static_cast<PyObject*>(owner));
}

// From the first to the last element of foreign memory; ValueError for what no array can have.
int64_t borrowed_bytes(IntSpan sizes, IntSpan strides, DType dtype) {
  check_value(sizes.size() <= max_dims, "foreign memory of ", sizes.size(),
              " dims: a tensor has at most ", max_dims);
  check_value(strides.size() == sizes.size(), "foreign memory of shape ", sizes, " has ",
              strides.size(), " strides");
  int64_t last = 0;
  for (int64_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    check_value(sizes[i] >= 0, "foreign memory of negative size: ", sizes);
    check_value(strides[i] >= 0 || sizes[i] <= 1, "foreign memory of negative strides: ", strides);
    bool overflow = sizes[i] && (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
                                 __builtin_add_overflow(last, reach, &last));
    check_value(!overflow && last < max_numel, "foreign memory is too large: shape ", sizes,
                ", strides ", strides);
  }
  return product(sizes) ? (last + 1) * itemsize(dtype) : 0;
}

// A tensor on memory that `owner` keeps alive; strides in elements.
Tensor borrow(void* data, IntSpan sizes, IntSpan strides, DType dtype, PyObject* owner,
              bool read_only, Device device = {}) {
  int64_t bytes = borrowed_bytes(sizes, strides, dtype);
  check_value(data || bytes == 0, "foreign memory of shape ", sizes, " has no address");
  check_aligned(data, dtype);
  Tensor root = empty(Dims{0}, {dtype, device});
  root.impl()->storage = Storage::borrow(data, bytes, release_python_owner, Py_NewRef(owner));
  root.impl()->storage->read_only = read_only;
  root.impl()->storage->device = device;
  return alias(root, sizes, strides, 0);
}

// NumPy's letter for the kind of number, and how many bytes it has.
constexpr struct NumpyKind {
  char kind;
  int bytes;
  DType dtype;
} numpy_kinds[] = {
    {'b', 1, DType::Bool},      {'u', 1, DType::UInt8},      {'i', 1, DType::Int8},
    {'i', 2, DType::Int16},     {'i', 4, DType::Int32},      {'i', 8, DType::Int64},
    {'f', 2, DType::Float16},   {'f', 4, DType::Float32},    {'f', 8, DType::Float64},
    {'c', 8, DType::Complex64}, {'c', 16, DType::Complex128}};
std::optional<DType> dtype_of_kind(char kind, int bytes) {
  for (const NumpyKind& k : numpy_kinds)
    if (k.kind == kind && k.bytes == bytes) return k.dtype;
  return std::nullopt;
}
char kind_of(DType t) {  // 0 for one that NumPy does not have
  for (const NumpyKind& k : numpy_kinds)
    if (k.dtype == t) return k.kind;
  return 0;
}

DType parse_typestr(PyObject* array, PyObject* typestr) {
  check_type(PyUnicode_Check(typestr), "__array_interface__ of ", type_name(array),
             ": typestr must be str, not ", type_name(typestr));
  const std::string text = to_string(typestr);
  check_value(text.empty() || text[0] != '>',
              "given numpy array has byte order different from the native byte order: "
              "array.astype(array.dtype.newbyteorder('=')) converts it.");
  if (text.size() > 2)
    if (auto found = dtype_of_kind(text[1], std::atoi(text.c_str() + 2))) return *found;
  Object dtype(PyObject_GetAttrString(array, "dtype"));
  clear_error();
  Object shown(dtype ? PyObject_Str(dtype.get()) : PyUnicode_FromString(text.c_str()));
  fail(ErrorKind::Type, "can't convert np.ndarray of type numpy.", to_string(shown.get()),
       ". The only supported types are: float64, float32, float16, complex64, complex128, int64, "
       "int32, int16, int8, "
       "uint8, and bool.");
}

void warn_read_only(const char* what) {
  std::string kind = what;
  std::string shown = "The given " + kind +
                      " is not writable. The tensor shares its memory: in-place operations on it "
                      "raise an error. Copy the " +
                      kind + " to protect its data or make it writable.";
  warn(shown.c_str());
}

// The interface does not say that an array without elements may have other strides, 0 in NumPy.
Dims strides_of_empty(PyObject* o, const Dims& contiguous, int64_t bytes) {
  Object given(PyObject_GetAttrString(o, "strides"));
  if (!given) clear_error();
  if (!given || !PyTuple_Check(given.get())) return contiguous;
  Dims strides = to_dims(given.get());
  if (strides.size() != contiguous.size()) return contiguous;
  for (int64_t& stride : strides) {
    if (stride < 0) return contiguous;
    stride /= bytes;
  }
  return strides;
}

// A stream as the protocols of exchange name it: 1 is the legacy default one, which is null here.
cuda::CUstream stream_of(PyObject* stream) {
  if (!stream || stream == Py_None) return nullptr;
  Object number = PyLong_Check(stream) ? Object::share(stream)
                                       : checked(PyObject_GetAttrString(stream, "cuda_stream"));
  void* address = PyLong_AsVoidPtr(number.get());
  if (!address && PyErr_Occurred()) throw PythonError{};
  check_value(address || !PyLong_Check(stream),
              "stream 0 is ambiguous: 1 is the legacy "
              "default stream, 2 the per-thread one");
  return address == reinterpret_cast<void*>(1) ? nullptr : static_cast<cuda::CUstream>(address);
}

// What an array of NumPy's own class says of itself in C (`__array_struct__`), a tenth of the time
// of its dict of texts; null for every other object.
class NumpyArray {
 public:
  explicit NumpyArray(PyObject* o) {
    if (!is_own_class(o)) return;
    capsule_ = Object(PyObject_GetAttrString(o, "__array_struct__"));
    if (capsule_) facts_ = static_cast<Facts*>(PyCapsule_GetPointer(capsule_.get(), nullptr));
    clear_error();
    if (facts_ && facts_->two != 2) facts_ = nullptr;
  }
  static bool is_own_class(PyObject* o) {
    return std::strcmp(Py_TYPE(o)->tp_name, "numpy.ndarray") == 0;
  }

  struct Facts {
    int two, ndim;
    char kind;
    int itemsize, flags;
    Py_ssize_t *shape, *strides;
    void* data;
    PyObject* fields = nullptr;
  };
  static constexpr int aligned = 0x100, native_order = 0x200, writable = 0x400;
  explicit operator bool() const { return facts_ && facts_->flags & native_order; }
  const Facts* operator->() const { return facts_; }

 private:
  Object capsule_;
  const Facts* facts_ = nullptr;
};

}  // namespace

bool is_unsigned_array(PyObject* o) {
  if (NumpyArray array{o}) return array->kind == 'u' && array->itemsize > 1;
  Object interface = checked(PyObject_GetAttrString(o, "__array_interface__"));
  PyObject* typestr = find_item(interface.get(), "typestr");
  std::string text = typestr && PyUnicode_Check(typestr) ? to_string(typestr) : std::string();
  return text == "<u2" || text == "<u4" || text == "<u8";
}

bool is_array(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == &PyList_Type || type == &PyTuple_Type || type == &PyFloat_Type ||
      type == &PyLong_Type)
    return false;
  if (is_tensor(o) || number_kind(o) != NumberKind::None || PyType_Check(o)) return false;
  if (NumpyArray::is_own_class(o)) return true;
  Object found(PyObject_GetAttrString(o, "__array_interface__"));
  if (!found) clear_error();
  return found && PyDict_Check(found.get());
}

namespace {

// What an interface dict says of an array's memory.
struct ArrayDescription {
  DType dtype;
  Dims sizes, strides;  // strides in elements
  void* data;
  bool read_only;
};
ArrayDescription describe(PyObject* o, PyObject* interface, const char* name) {
  PyObject* shape = find_item(interface, "shape");
  PyObject* typestr = find_item(interface, "typestr");
  PyObject* data = find_item(interface, "data");
  PyObject* byte_strides = find_item(interface, "strides");
  check_type(shape && typestr && data && PyTuple_Check(data) && PyTuple_GET_SIZE(data) == 2, name,
             " of ", type_name(o), " lacks shape, typestr or data");
  ArrayDescription d{parse_typestr(o, typestr), to_dims(shape), {}, nullptr, false};
  d.strides = contiguous_strides(d.sizes);
  if (byte_strides && byte_strides != Py_None) {
    d.strides = to_dims(byte_strides);
    check_value(d.strides.size() == d.sizes.size(), name, " of ", type_name(o), ": shape ", d.sizes,
                " and strides ", d.strides, " differ in length");
    for (int64_t i = 0; i < d.strides.size(); ++i) {
      check_value(d.strides[i] >= 0 || d.sizes[i] <= 1,
                  "At least one stride in the given numpy array is negative, which no tensor can "
                  "have: array.copy() lays it out anew.");
      check_value(d.strides[i] % itemsize(d.dtype) == 0,
                  "given numpy array strides not a multiple of the element byte size: array.copy() "
                  "lays it out anew.");
      d.strides[i] = d.strides[i] < 0 ? 1 : d.strides[i] / itemsize(d.dtype);
    }
  } else if (std::find(d.sizes.begin(), d.sizes.end(), 0) != d.sizes.end()) {
    d.strides = strides_of_empty(o, d.strides, itemsize(d.dtype));
  }
  d.read_only = to_bool(PyTuple_GET_ITEM(data, 1));
  d.data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
  if (!d.data && PyErr_Occurred()) throw PythonError{};
  return d;
}

// Nothing where there is something to say against it.
std::optional<ArrayDescription> describe(const NumpyArray& array) {
  std::optional<DType> dtype;
  if (array) dtype = dtype_of_kind(array->kind, array->itemsize);
  if (!dtype) return std::nullopt;
  ArrayDescription d{*dtype, {}, {}, array->data, !(array->flags & NumpyArray::writable)};
  for (int i = 0; i < array->ndim; ++i) {
    const Py_ssize_t size = array->shape[i], stride = array->strides[i];
    if (stride % array->itemsize != 0 || (stride < 0 && size != 1)) return std::nullopt;
    d.sizes.push_back(size);
    d.strides.push_back(stride < 0 ? 1 : stride / array->itemsize);
  }
  return d;
}

}  // namespace

Tensor from_array(PyObject* o, ArrayUse use) {
  std::optional<ArrayDescription> known = describe(NumpyArray{o});
  if (!known) {
    Object interface = checked(PyObject_GetAttrString(o, "__array_interface__"));
    known = describe(o, interface.get(), "__array_interface__");
  }
  const ArrayDescription& d = *known;
  if (use != ArrayUse::Share && !is_aligned(d.data, d.dtype)) {
    Object copy = checked(PyObject_CallOneArg(import_attribute("numpy", "array").get(), o));
    return from_array(copy.get(), ArrayUse::Share);
  }
  if (d.read_only && use != ArrayUse::Read) warn_read_only("NumPy array");
  return borrow(d.data, d.sizes, d.strides, d.dtype, o, d.read_only);
}

// ---- memory of a GPU that another library describes

namespace {
// Its `__cuda_array_interface__`, or null.
Object cuda_interface(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == &PyList_Type || type == &PyTuple_Type || is_tensor(o) || PyType_Check(o) ||
      number_kind(o) != NumberKind::None)
    return Object();
  Object found(PyObject_GetAttrString(o, "__cuda_array_interface__"));
  if (!found) clear_error();
  return found && PyDict_Check(found.get()) ? std::move(found) : Object();
}
}  // namespace

bool is_cuda_array(PyObject* o) { return static_cast<bool>(cuda_interface(o)); }

Tensor from_cuda_array(PyObject* o, ArrayUse use) {
  Object interface = cuda_interface(o);
  ArrayDescription d = describe(o, interface.get(), "__cuda_array_interface__");
  PyObject* mask = find_item(interface.get(), "mask");
  check_value(!mask || mask == Py_None, "__cuda_array_interface__ of ", type_name(o),
              ": a tensor has no mask");
  if (d.read_only && use != ArrayUse::Read) warn_read_only("NumPy array");
  placed(Device{DeviceType::CUDA, -1});  // starts the backend, or says what is missing
  int device = d.data ? cuda::device_of_pointer(d.data) : cuda::current_device();
  Tensor t = borrow(d.data, d.sizes, d.strides, d.dtype, o, d.read_only,
                    Device{DeviceType::CUDA, static_cast<int8_t>(device)});
  // Version 3 names the stream that writes the memory: ours waits for it.
  PyObject* stream = find_item(interface.get(), "stream");
  if (stream && stream != Py_None)
    cuda::wait_for_stream(device, cuda::current_stream(device), stream_of(stream));
  return t;
}

// ---- the buffer protocol
// ---------------------------------------------------------------------------

Tensor share_buffer(PyObject* o, DType dtype, int64_t count, int64_t offset) {
  check_value(PyObject_CheckBuffer(o), "object does not implement Python buffer protocol.");
  Object view =
      checked(PyMemoryView_FromObject(o));  // keeps the buffer exported as long as it lives
  Py_buffer* buffer = PyMemoryView_GET_BUFFER(view.get());
  check_value(PyBuffer_IsContiguous(buffer, 'C'), "frombuffer: the buffer must be contiguous");
  check_value(!buffer->format || !std::strchr(buffer->format, 'O'),
              "frombuffer: the buffer holds Python objects");
  int64_t length = buffer->len, size = itemsize(dtype);
  check_value(length > 0 && count != 0, "both buffer length (", length, ") and count (", count,
              ") must not be 0");
  check_value(offset >= 0 && offset < length, "offset (", offset,
              " bytes) must be non-negative and no greater than buffer length (", length,
              " bytes) minus 1");
  check_value(count > 0 || (length - offset) % size == 0, "buffer length (", length - offset,
              " bytes) after offset (", offset, " bytes) must be a multiple of element size (",
              size, ")");
  int64_t n = count < 0 ? (length - offset) / size : count;
  check_value(n <= (length - offset) / size, "requested buffer length (", n, " * ", size,
              " bytes) after offset (", offset,
              " bytes) must not be greater than actual buffer length (", length, " bytes)");
  if (buffer->readonly) warn_read_only("buffer");
  const int64_t sizes[] = {n}, strides[] = {1};
  return borrow(static_cast<char*>(buffer->buf) + offset, {sizes, 1}, {strides, 1}, dtype,
                view.get(), buffer->readonly);
}

namespace {

const char* buffer_format(DType t) {
  // NumPy takes long for its int64 where it is wide enough, and compiled code asks for that one.
  static constexpr const char* wide = sizeof(long) == 8 ? "l" : "q";
  static constexpr const char* formats[dtype_count] = {"?", "B",     "b", "h", "i",  wide,
                                                       "e", nullptr, "f", "d", "Zf", "Zd"};
  return formats[static_cast<int>(t)];
}

// An address for arrays without elements, which consumers want to be non-null.
void* address(const Tensor& t) {
  static char nowhere[64];
  return t.numel() && !t.is_meta() ? t.view().data : nowhere;
}

// Memory that others look at must stay where it is.
void pin(const Tensor& t) { t.storage()->resizable = false; }

int fill_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& t = tensor_of(self);
  const char* problem = nullptr;
  if (requires_grad(t)) problem = "a Tensor that requires grad has no buffer. Use tensor.detach()";
  else if (!buffer_format(t.dtype())) problem = "bfloat16 has no buffer format";
  else if (t.is_meta()) problem = "a meta tensor has no data";
  else if (!is_exact_tensor(self) && PyObject_HasAttrString(self, "_carried"))
    problem = "a tensor of this dtype has no buffer format";  // its class makes the array
  else if (t.impl()->lazy)
    problem = "a conjugate or negative view has no buffer. Use resolve_conj() or resolve_neg()";
  else if (!t.device().is_cpu())
    problem = "a tensor on another device has no buffer. Use tensor.cpu()";
  else if (t.is_sparse()) problem = "a sparse tensor has no buffer. Use tensor.to_dense()";
  else if ((flags & PyBUF_WRITABLE) && t.storage()->read_only)
    problem = "the tensor's memory is read-only";
  else if (!(flags & PyBUF_STRIDES) && !t.is_contiguous()) problem = "the tensor is not contiguous";
  if (problem) {
    PyErr_SetString(PyExc_BufferError, problem);
    return -1;
  }
  pin(t);
  int64_t n = t.dim();
  view->buf = address(t);
  auto* numbers = new Py_ssize_t[2 * n + 1];
  for (int64_t i = 0; i < n; ++i) {
    numbers[i] = t.sizes()[i];
    numbers[n + i] = t.strides()[i] * itemsize(t.dtype());
  }
  view->obj = Object::share(self).release();
  view->len = t.numel() * itemsize(t.dtype());
  view->itemsize = itemsize(t.dtype());
  view->readonly = t.storage()->read_only;
  view->ndim = static_cast<int>(n);
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(buffer_format(t.dtype())) : nullptr;
  view->shape = flags & PyBUF_ND ? numbers : nullptr;
  view->strides = flags & PyBUF_STRIDES ? numbers + n : nullptr;
  view->suboffsets = nullptr;
  view->internal = numbers;
  return 0;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  try {
    return fill_buffer(self, view, flags);
  } catch (...) {
    set_error_from_current_exception();
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) {
  delete[] static_cast<Py_ssize_t*>(view->internal);
}

// ---- NumPy out
// -------------------------------------------------------------------------------------

// What numpy.asarray is given: it keeps the tensor alive and describes its memory.
struct ArraySource {
  PyObject_HEAD PyObject* tensor;
};
PyTypeObject* array_source_type = nullptr;

void destroy_source(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_DECREF(reinterpret_cast<ArraySource*>(self)->tensor);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* describe_source(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(reinterpret_cast<ArraySource*>(self)->tensor);
    const auto ndim = static_cast<size_t>(t.dim());
    const int size = static_cast<int>(itemsize(t.dtype()));
    auto* facts = static_cast<NumpyArray::Facts*>(
        std::calloc(1, sizeof(NumpyArray::Facts) + 2 * ndim * sizeof(Py_ssize_t)));
    if (!facts) throw std::bad_alloc();
    auto* numbers = reinterpret_cast<Py_ssize_t*>(facts + 1);
    for (size_t i = 0; i < ndim; ++i) {
      numbers[i] = t.sizes()[int64_t(i)];
      numbers[ndim + i] = t.strides()[int64_t(i)] * size;
    }
    int flags = NumpyArray::aligned | NumpyArray::native_order;
    if (!t.storage()->read_only) flags |= NumpyArray::writable;
    *facts = {2,       static_cast<int>(ndim), kind_of(t.dtype()), size, flags,
              numbers, numbers + ndim,         address(t)};
    PyObject* capsule = PyCapsule_New(
        facts, nullptr, [](PyObject* made) { std::free(PyCapsule_GetPointer(made, nullptr)); });
    if (!capsule) std::free(facts);
    return capsule;
  });
}

PyGetSetDef source_attributes[] = {{"__array_struct__", describe_source, nullptr, nullptr, nullptr},
                                   {nullptr, nullptr, nullptr, nullptr, nullptr}};

// Tensor.numpy(*, force=False)
PyObject* to_numpy(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {{"self", Kind::Tensor, false, false, false, -1},
                                         {"force", Kind::Bool, false, true, true, -1}};
  static const Overload overloads[] = {{"numpy(*, force=False)", parameters, 2, 1}};
  static const Spec spec = {"numpy", "Tensor.numpy", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, self, args, count, names) < 0) return a.result();
    Tensor t = tensor_of(self);
    bool force = a.given(1) && a.boolean(1);
    check_type(t.device().is_cpu() || (force && !t.is_meta()), "can't convert ", t.device(),
               " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
               "first.");
    check(force || !requires_grad(t) || !grad_enabled(),
          "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
    check(force || !t.impl()->lazy, "Can't call numpy() on Tensor that has ",
          is_conjugated(t) ? "conjugate" : "negative", " bit set. Use tensor.resolve_",
          is_conjugated(t) ? "conj" : "neg", "().numpy() instead.");
    check_type(kind_of(t.dtype()) != 0, "Got unsupported ScalarType BFloat16");
    t = on_host(t);
    if (t.impl()->lazy) {
      NoGradGuard guard;
      t = ops::clone(t);
    }
    pin(t);
    Object tensor = checked(wrap(alias(t)));
    auto* source = PyObject_New(ArraySource, array_source_type);
    if (!source) throw PythonError{};
    Object owned(reinterpret_cast<PyObject*>(source));
    source->tensor = tensor.release();
    return PyObject_CallFunctionObjArgs(import_attribute("numpy", "asarray").get(), owned.get(),
                                        nullptr);
  });
}

// ---- DLPack
// ----------------------------------------------------------------------------------------

// Keeps the tensor, its shape and its strides for the consumer.
struct Export {
  Tensor tensor;
  Dims sizes, strides;
};

dlpack::DataType dlpack_type(DType t) {
  auto bits = static_cast<uint8_t>(8 * itemsize(t));
  uint8_t code = t == DType::Bool       ? dlpack::boolean
                 : t == DType::UInt8    ? dlpack::unsigned_integer
                 : t == DType::BFloat16 ? dlpack::bfloat
                 : rl::is_complex(t)    ? dlpack::complex
                 : rl::is_floating(t)   ? dlpack::floating
                                        : dlpack::integer;
  return {code, bits, 1};
}

// The dtype whose elements are as wide, for a type that only tensors of carried dtypes have
// (python/rushlight/_carried): their class knows what the bits mean.
std::optional<DType> carrier_of(dlpack::DataType type) {
  bool is_float8 = type.code >= dlpack::float8_e4m3fn && type.code <= dlpack::float8_e8m0fnu;
  if (is_float8 && type.bits == 8) return DType::UInt8;
  if (type.code == dlpack::complex && type.bits == 32) return DType::Int32;
  if (type.code != dlpack::unsigned_integer) return std::nullopt;
  if (type.bits == 16) return DType::Int16;
  if (type.bits == 32) return DType::Int32;
  if (type.bits == 64) return DType::Int64;
  return std::nullopt;
}

// Of a tensor of a carried dtype: what its class says.
dlpack::DataType dlpack_type_of(PyObject* self, const Tensor& t) {
  dlpack::DataType type = dlpack_type(t.dtype());
  if (is_exact_tensor(self) || !PyObject_HasAttrString(self, "_dlpack_code")) return type;
  Object code = checked(PyObject_GetAttrString(self, "_dlpack_code"));
  type.code = static_cast<uint8_t>(PyLong_AsLong(code.get()));
  if (PyErr_Occurred()) throw PythonError{};
  return type;
}

// `carried`: set to a type that only carried dtypes have; null refuses those.
DType from_dlpack_type(dlpack::DataType type, std::optional<dlpack::DataType>* carried) {
  for (int i = 0; i < dtype_count; ++i) {
    dlpack::DataType known = dlpack_type(static_cast<DType>(i));
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1)
      return static_cast<DType>(i);
  }
  std::optional<DType> carrier = carrier_of(type);
  if (carried && carrier && type.lanes == 1) {
    *carried = type;
    return *carrier;
  }
  fail(ErrorKind::Runtime, "from_dlpack: unsupported data type (code ", int(type.code), ", ",
       int(type.bits), " bits, ", int(type.lanes), " lanes)");
}

dlpack::Device dlpack_device_of(const Tensor& t) {
  if (t.device().type == DeviceType::CUDA) return {dlpack::cuda, t.device().index};
  return {dlpack::cpu, 0};
}

Object name_of(cuda::CUstream stream) {
  return checked(stream ? PyLong_FromVoidPtr(stream) : PyLong_FromLong(1));
}
// What the consumer's stream does from now on comes after what was given to ours; -1: that is the
// consumer's business.
void hand_over(const Tensor& t, PyObject* stream) {
  if (stream && PyLong_Check(stream)) {
    int overflow = 0;
    if (PyLong_AsLongLongAndOverflow(stream, &overflow) == -1 && !overflow) return;
  }
  if (t.device().type != DeviceType::CUDA) {
    check_type(!stream || stream == Py_None || PyLong_Check(stream),
               "__dlpack__: stream must be an int or None, got ", stream ? type_name(stream) : "");
    check(!stream || stream == Py_None, "__dlpack__: stream should be None on cpu.");
    return;
  }
  int device = t.device().index;
  cuda::CUstream waiting = stream_of(stream);
  cuda::use(device);
  cuda::wait_for_stream(device, waiting, cuda::current_stream(device));
}

template <class M>
M* make_managed(const Tensor& t, dlpack::DataType type) {
  std::unique_ptr<Export> e(new Export{t, t.sizes(), t.strides()});
  auto m = std::make_unique<M>();
  m->array = {address(t), dlpack_device_of(t), static_cast<int32_t>(t.dim()),
              type,       e->sizes.data(),     e->strides.data(),
              0};
  m->context = e.release();
  m->deleter = [](M* managed) {
    delete static_cast<Export*>(managed->context);
    delete managed;
  };
  return m.release();
}

// A capsule that nobody consumed deletes what it holds.
template <class M>
PyObject* make_capsule(M* managed, const char* name) {
  PyObject* capsule = PyCapsule_New(managed, name, [](PyObject* capsule) {
    const char* current = PyCapsule_GetName(capsule);
    if (!current || std::strncmp(current, "used", 4) == 0) return;
    auto* m = static_cast<M*>(PyCapsule_GetPointer(capsule, current));
    if (m->deleter) m->deleter(m);
  });
  if (!capsule) managed->deleter(managed);
  return capsule;
}

// Tensor.__dlpack__(*, stream=-1, max_version=None, dl_device=None, copy=None)
PyObject* to_dlpack(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {{"self", Kind::Tensor, false, false, false, -1},
                                         {"stream", Kind::Object, true, true, true, -1},
                                         {"max_version", Kind::Object, true, true, true, -1},
                                         {"dl_device", Kind::Object, true, true, true, -1},
                                         {"copy", Kind::Bool, true, true, true, -1}};
  static const Overload overloads[] = {
      {"__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)", parameters, 5,
       1}};
  static const Spec spec = {"__dlpack__", "Tensor.__dlpack__", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, self, args, count, names) < 0) return a.result();
    Tensor t = tensor_of(self);
    if (requires_grad(t) || t.is_meta() || t.impl()->lazy) {
      PyErr_SetString(PyExc_BufferError,
                      t.is_meta() ? "Can't export a meta tensor: it has no data"
                      : t.impl()->lazy
                          ? "Can't export a conjugate or negative view; use resolve_conj() or "
                            "resolve_neg()"
                          : "Can't export tensors that require gradient, use tensor.detach()");
      return nullptr;
    }
    dlpack::DataType type = dlpack_type_of(self, t);
    bool copy = a.given(4) && a.boolean(4);
    if (copy) t = ops::clone(t);
    else pin(t);
    hand_over(t, a.given(1) ? a.object(1) : nullptr);
    Dims version = a.given(2) ? to_dims(a.object(2)) : Dims{0, 0};
    check_value(version.size() == 2, "__dlpack__: max_version must be a pair of ints, got ",
                version);
    bool versioned = version[0] >= 1;
    if (!versioned) {
      check(!t.storage()->read_only,
            "__dlpack__: read-only memory needs a consumer that passes max_version=(1, 0)");
      return make_capsule(make_managed<dlpack::Managed>(t, type), "dltensor");
    }
    auto* managed = make_managed<dlpack::Versioned>(t, type);
    managed->major = 1;
    managed->flags =
        uint64_t{t.storage()->read_only} * dlpack::read_only | uint64_t{copy} * dlpack::copied;
    return make_capsule(managed, "dltensor_versioned");
  });
}

PyObject* dlpack_device(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  dlpack::Device device = dlpack_device_of(tensor_of(self));
  return Py_BuildValue("(ii)", int(device.type), int(device.index));
}

template <class M>
Tensor consume(PyObject* capsule, const char* name, const char* used_name,
               std::optional<dlpack::DataType>* carried) {
  auto* m = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
  const dlpack::Array& array = m->array;
  bool read_only = false;
  if constexpr (std::is_same_v<M, dlpack::Versioned>) {
    check(m->major == 1, "from_dlpack: version ", m->major, ".", m->minor,
          " of DLPack is not supported");
    read_only = m->flags & dlpack::read_only;
  }
  bool on_cuda = array.device.type == dlpack::cuda;
  check(on_cuda || array.device.type == dlpack::cpu || array.device.type == dlpack::cuda_host,
        "from_dlpack: only memory of the CPU and of CUDA devices is supported (device type ",
        array.device.type, ")");
  Device device;
  if (on_cuda) device = Device{DeviceType::CUDA, static_cast<int8_t>(array.device.index)};
  DType dtype = from_dlpack_type(array.dtype, carried);
  check_value(array.ndim >= 0 && array.ndim <= max_dims && (array.shape || !array.ndim),
              "from_dlpack: an array of ", array.ndim, " dims is not supported");
  Dims sizes(IntSpan(array.shape, array.ndim));
  Dims strides =
      array.strides ? Dims(IntSpan(array.strides, array.ndim)) : contiguous_strides(sizes);
  int64_t bytes = borrowed_bytes(sizes, strides, dtype);
  check_value(array.data || bytes == 0, "from_dlpack: an array of shape ", sizes,
              " has no address");
  check_aligned(static_cast<char*>(array.data) + array.byte_offset, dtype);
  Tensor root = empty(Dims{0}, {dtype, device});
  checked(PyCapsule_SetName(capsule, used_name));
  root.impl()->storage = Storage::borrow(
      static_cast<char*>(array.data) + array.byte_offset, bytes,
      [](void* p) {
        auto* managed = static_cast<M*>(p);
        WithGil gil;  // the producer may be a Python object
        if (managed->deleter) managed->deleter(managed);
      },
      m);
  root.impl()->storage->read_only = read_only;
  root.impl()->storage->device = device;
  return alias(root, sizes, strides, 0);
}

// What a producer is asked with: the version, and of memory on CUDA our stream.
Object dlpack_options(PyObject* producer) {
  Object options = checked(Py_BuildValue("{s:(ii)}", "max_version", 1, 0));
  if (!PyObject_HasAttrString(producer, "__dlpack_device__")) return options;
  Object place = checked(PyObject_CallMethod(producer, "__dlpack_device__", nullptr));
  int type = 0, index = 0;
  if (!PyArg_ParseTuple(place.get(), "ii", &type, &index)) throw PythonError{};
  if (type != dlpack::cuda) return options;
  empty(Dims{0}, {DType::Float32, Device{DeviceType::CUDA, static_cast<int8_t>(index)}});  // starts
  Object stream = name_of(cuda::current_stream(index));
  if (PyDict_SetItemString(options.get(), "stream", stream.get())) throw PythonError{};
  return options;
}

// `o` is an object with __dlpack__, or the capsule that it returned.
Tensor take_dlpack(PyObject* o, std::optional<dlpack::DataType>* carried) {
  Object capsule = Object::share(o);
  if (PyObject_HasAttrString(capsule.get(), "__dlpack__")) {
    Object method = checked(PyObject_GetAttrString(capsule.get(), "__dlpack__"));
    Object none = checked(PyTuple_New(0));
    Object options = dlpack_options(o);
    capsule = Object(PyObject_Call(method.get(), none.get(), options.get()));
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // a producer from before DLPack 1.0
      clear_error();
      capsule = checked(PyObject_CallNoArgs(method.get()));
    }
    if (!capsule) throw PythonError{};
  }
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned"))
    return consume<dlpack::Versioned>(capsule.get(), "dltensor_versioned",
                                      "used_dltensor_versioned", carried);
  check(PyCapsule_IsValid(capsule.get(), "dltensor"),
        "from_dlpack received an invalid capsule: a DLTensor capsule makes one tensor, and this "
        "one may have been used.");
  return consume<dlpack::Managed>(capsule.get(), "dltensor", "used_dltensor", carried);
}

}  // namespace

bool has_dlpack(PyObject* o) {
  return !is_tensor(o) && !PyType_Check(o) && PyObject_HasAttrString(o, "__dlpack__");
}

Tensor from_dlpack(PyObject* o) { return take_dlpack(o, nullptr); }

namespace {

// torch.from_dlpack(ext_tensor)
PyObject* make_from_dlpack(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {{"ext_tensor", Kind::Object, true, false, false, -1}};
  static const Overload overloads[] = {{"from_dlpack(ext_tensor)", parameters, 1, 1}};
  static const Spec spec = {"from_dlpack", "from_dlpack", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, nullptr, args, count, names) < 0) return a.result();
    std::optional<dlpack::DataType> carried;
    Tensor t = take_dlpack(a.object(0), &carried);
    if (!carried) return wrap(t);
    Object bits = checked(wrap(t));
    return PyObject_CallFunction(
        import_attribute("rushlight._carried._tensor", "from_dlpack_bits").get(), "Oii", bits.get(),
        int(carried->code), int(carried->bits));
  });
}

}  // namespace

void add_buffer_slots(PyTypeObject& type) {
  static PyBufferProcs buffer{};
  buffer.bf_getbuffer = get_buffer;
  buffer.bf_releasebuffer = release_buffer;
  type.tp_as_buffer = &buffer;
}

void register_exchange(Registry& registry) {
  registry.method("numpy", to_numpy,
                  "numpy($self, *, force=False)\n--\n\nA NumPy array on the same memory.");
  registry.method("__dlpack__", to_dlpack,
                  "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, "
                  "copy=None)\n--\n\nA DLPack capsule on the same memory.");
  registry.method("__dlpack_device__", dlpack_device,
                  "__dlpack_device__($self)\n--\n\nThe DLPack device type and index.");
  registry.function("", "from_dlpack", make_from_dlpack,
                    "from_dlpack(ext_tensor)\n--\n\nA tensor that shares the memory of an object "
                    "with __dlpack__.");
}

void init_exchange(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy_source)},
                         {Py_tp_getset, source_attributes},
                         {0, nullptr}};
  array_source_type = make_type(module, "rushlight._ArraySource", sizeof(ArraySource),
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
}

}  // namespace rl::bind
