#include "bind/args.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "autograd/inplace.h"
#include "bind/convert.h"
#include "bind/cuda.h"
#include "bind/types.h"
#include "bind/volatile.h"
#include "core/text_stream.h"
#include "dispatch/op_types.h"

namespace rl::bind {

struct Arguments::Call {
  PyObject* self;
  PyObject* const* args;
  Py_ssize_t count;
  PyObject* names;  // of the keyword arguments, which follow the positional ones; or nullptr

  Py_ssize_t keywords() const { return names ? PyTuple_GET_SIZE(names) : 0; }
};

namespace {

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::Tensor: return "Tensor";
    case Kind::TensorOrNumber: return "Tensor";
    case Kind::TensorList: return "tuple of Tensors";
    case Kind::OptionalTensorList: return "tuple of Tensors";
    case Kind::Scalar: return "Number";
    case Kind::Int: return "int";
    case Kind::Float: return "float";
    case Kind::Bool: return "bool";
    case Kind::IntList: return "tuple of ints";
    case Kind::FloatList: return "tuple of floats";
    case Kind::BoolList: return "tuple of bools";
    case Kind::String: return "str";
    case Kind::DType: return "torch.dtype";
    case Kind::Device: return "torch.device";
    case Kind::Layout: return "torch.layout";
    case Kind::MemoryFormat: return "torch.memory_format";
    case Kind::Generator: return "torch.Generator";
    case Kind::Object: return "object";
  }
  return "";
}

// The first characters by themselves: most names differ there, and a call costs more than that.
bool same(const char* a, const char* b) { return *a == *b && std::strcmp(a, b) == 0; }

// NumPy's names for the same things, as torch accepts them.
bool is_alias(const char* parameter, const char* given) {
  if (same(parameter, "dim")) return same(given, "axis");
  if (same(parameter, "keepdim")) return same(given, "keepdims");
  if (same(parameter, "input"))
    return same(given, "x") || same(given, "a") || same(given, "x1") || same(given, "self");
  if (same(parameter, "other")) return same(given, "x2");
  if (same(parameter, "from")) return same(given, "from_");
  if (same(parameter, "dim0")) return same(given, "axis0");
  if (same(parameter, "dim1")) return same(given, "axis1");
  return false;
}

// Most calls give keywords in the order of the parameters: `from` is where the next one may be.
int find_parameter(const Overload& overload, PyObject* name, int from) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) throw PythonError{};
  if (from < overload.count && same(overload.parameters[from].name, text)) return from;
  for (int i = 0; i < overload.count; ++i)
    if (same(overload.parameters[i].name, text)) return i;
  for (int i = 0; i < overload.count; ++i)
    if (is_alias(overload.parameters[i].name, text)) return i;
  return -1;
}

bool is_real_number(PyObject* o) {
  NumberKind kind = number_kind(o);
  if (kind != NumberKind::None) return kind != NumberKind::Complex;
  return is_tensor(o) && tensor_of(o).dim() == 0 && !tensor_of(o).requires_grad() &&
         !tensor_of(o).is_complex();
}

bool is_scalar(PyObject* o) {
  if (is_number(o)) return true;
  if (!is_tensor(o)) return false;
  const Tensor& t = tensor_of(o);
  return t.dim() == 0 && !t.requires_grad() && !t.is_meta();
}

bool is_list_kind(Kind kind) {
  return kind == Kind::TensorList || kind == Kind::OptionalTensorList || kind == Kind::IntList ||
         kind == Kind::FloatList || kind == Kind::BoolList;
}

bool is_list(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }

template <class Fits>
bool all_of(PyObject* list, Fits fits) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
  PyObject** items = PySequence_Fast_ITEMS(list);
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!fits(items[i])) return false;
  return true;
}

template <class... Parts>
void explain(std::string* why, const Parts&... parts) {
  if (!why) return;
  TextStream text;
  (text << ... << parts);
  *why = text.str();
}

}  // namespace

// ---- fitting a call to an overload -------------------------------------------------------------

int Arguments::parse(const Spec& spec, PyObject* self, PyObject* const* args, Py_ssize_t count,
                     PyObject* names) {
  const Call call{self, args, count, names};
  spec_ = &spec;
  for (bool elements_too : {false, true}) {
    elements_are_integers_ = elements_too;
    for (int k = 0; k < spec.count; ++k) {
      overload_ = &spec.overloads[k];
      if (!fit(call, nullptr)) continue;
      if (__builtin_expect(overridden_ || (mode() & (WatchesCalls | Transformed)), 0)) {
        if ((overridden_ || calls_are_watched()) && ask_subclasses(call) < 0) return -1;
        if (mode() & Transformed) check_what_changes();
      }
      return k;
    }
  }
  elements_are_integers_ = false;
  return refuse(call);
}

bool Arguments::fit(const Call& call, std::string* why) {
  const Overload& o = *overload_;
  if (o.count <= 8) std::memset(slots_, 0, sizeof(PyObject*) * 8);  // no call of memset
  else std::memset(slots_, 0, sizeof slots_);
  overridden_ = false;
  spread_ = -1;
  int at = 0;
  if (call.self) slots_[at++] = call.self;
  const Parameter* next = o.parameters + at;
  const bool spread = o.positional - at == 1 && next->kind == Kind::IntList && call.count > 0 &&
                      (call.count > 1 || next->length < 0) && accept_integer(call.args[0]) &&
                      (next->length < 0 || !PyBool_Check(call.args[call.count - 1]));
  if (spread) {
    spread_ = at;
    spread_items_ = call.args;
    spread_count_ = call.count;
    slots_[at] = call.args[0];
  } else if (__builtin_expect(call.count > o.positional - at, 0)) {
    int most = o.positional - at;
    explain(why, " takes ", most, " positional argument", most == 1 ? "" : "s", " but ", call.count,
            call.count == 1 ? " was" : " were", " given");
    return false;
  } else {
    for (Py_ssize_t i = 0; i < call.count; ++i) slots_[at + i] = call.args[i];
  }
  if (call.names && !place_keywords(call, why)) return false;
  for (int i = 0; i < o.count; ++i) {
    const Parameter& p = o.parameters[i];
    if (!slots_[i]) {
      if (p.has_default) continue;
      explain(why, " missing 1 required positional arguments: \"", p.name, "\"");
      return false;
    }
    if (PyList_Check(slots_[i]) && is_list_kind(p.kind) && i != spread_)
      slots_[i] = unchanging(slots_[i]);
    if (i == spread_ ? accept_integers(spread_items_, spread_count_) : accept(p, slots_[i]))
      continue;
    if (why) *why = explain_type(i, call.self != nullptr);
    return false;
  }
  return true;
}

// Reading an item may run its owner's code (__index__, __torch_function__), which may change the
// list: lists of more than plain numbers and tensors are read as a tuple. Without a GIL another
// thread may change any list at any time.
PyObject* Arguments::unchanging(PyObject* list) {
  auto plain = [](PyObject* o) {
    return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || is_exact_tensor(o) || o == Py_None ||
           PyBool_Check(o);
  };
  if (!lists_change && all_of(list, plain)) return list;
  if (!snapshots_) snapshots_ = checked(PyList_New(0)).release();
  Object copy = checked(PyList_AsTuple(list));
  checked(PyList_Append(snapshots_, copy.get()));
  return copy.get();
}

// ": argument 'size' (position 1) must be tuple of ints, but element 1 is str"
std::string Arguments::explain_type(int i, bool is_method) const {
  const Parameter& p = overload_->parameters[i];
  TextStream text;
  text << ": argument '" << p.name << "'";
  if (i < overload_->positional) text << " (position " << (is_method ? i : i + 1) << ")";
  text << " must be " << kind_name(p.kind) << ", ";
  PyObject* o = slots_[i];
  if (i == spread_ || (is_list(o) && is_list_kind(p.kind))) {
    Py_ssize_t count = i == spread_ ? spread_count_ : PySequence_Fast_GET_SIZE(o);
    PyObject* const* items = i == spread_ ? spread_items_ : PySequence_Fast_ITEMS(o);
    text << "but holds (";
    for (Py_ssize_t k = 0; k < count && k < 8; ++k) text << (k ? ", " : "") << type_name(items[k]);
    text << ")";
  } else {
    text << "not " << type_name(o);
  }
  return text.str();
}

bool Arguments::place_keywords(const Call& call, std::string* why) {
  int i = static_cast<int>(call.count) + (call.self ? 1 : 0) - 1;
  for (Py_ssize_t j = 0; j < call.keywords(); ++j) {
    PyObject* name = PyTuple_GET_ITEM(call.names, j);
    i = find_parameter(*overload_, name, i + 1);
    if (i < 0) {
      explain(why, " got an unexpected keyword argument '", PyUnicode_AsUTF8(name), "'");
      return false;
    }
    if (slots_[i]) {
      explain(why, " got multiple values for argument '", overload_->parameters[i].name, "'");
      return false;
    }
    slots_[i] = call.args[call.count + j];
  }
  return true;
}

bool Arguments::accept_other_tensor(PyObject* o) {
  bool overrides = subclasses_enabled() && has_torch_function(o);
  overridden_ = overridden_ || overrides;
  return overrides || is_tensor(o);
}

bool Arguments::accept_integer(PyObject* o) const {
  return is_integer(o) ||
         (elements_are_integers_ && is_tensor(o) && is_integer_element(tensor_of(o)));
}

// What stands for a number in a traced program takes the call over.
bool Arguments::accept_override(PyObject* o) { return !is_tensor(o) && accept_other_tensor(o); }

static bool is_sparse_layout(PyObject* o) {
  return o && is_layout(o) && o != strided_layout() && to_layout(o) != Layout::Strided;
}

bool Arguments::accept(const Parameter& p, PyObject* o) {
  if (p.kind <= Kind::TensorList || p.kind == Kind::TensorOrNumber) {
    if (__builtin_expect(is_exact_tensor(o), 1)) return p.kind != Kind::TensorList;
  }
  if (o == Py_None) return p.none;
  switch (p.kind) {
    case Kind::Tensor: return accept_other_tensor(o);
    case Kind::TensorOrNumber: return is_number(o) || accept_other_tensor(o);
    case Kind::Scalar:
      return is_scalar(o) || (overload_->numbers_may_be_tensors && is_tensor(o) &&
                              tensor_of(o).dim() == 0 && !tensor_of(o).is_meta());
    case Kind::Int: return accept_integer(o) || accept_override(o);
    case Kind::Float: return is_real_number(o) || accept_override(o);
    case Kind::Bool:
      return PyBool_Check(o) || number_kind(o) == NumberKind::Bool || accept_override(o);
    case Kind::String: return PyUnicode_Check(o);
    case Kind::DType: return is_dtype_like(o) || accept_override(o);
    case Kind::Device: return is_device_like(o);
    case Kind::Layout:
      overridden_ = overridden_ || is_sparse_layout(o);  // such tensors are made in Python
      return is_layout(o);
    case Kind::MemoryFormat: return is_memory_format(o);
    case Kind::Generator: return is_generator(o);
    case Kind::Object: return true;
    default: return accept_list(p, o);
  }
}

// After a first integer truth values are taken too, as by torch: rand(2, flag).
bool Arguments::accept_integers(PyObject* const* items, Py_ssize_t count) const {
  for (Py_ssize_t k = 0; k < count; ++k)
    if (!PyLong_CheckExact(items[k]) && !accept_integer(items[k]) && !(k && PyBool_Check(items[k])))
      return false;
  return true;
}

bool Arguments::accept_list(const Parameter& p, PyObject* o) {
  if (p.kind == Kind::IntList && p.length > 0 && accept_integer(o)) return true;
  if (p.kind == Kind::FloatList && p.length > 0 && is_real_number(o)) return true;
  if (!is_list(o)) return p.kind == Kind::TensorList && !is_tensor(o) && accept_other_tensor(o);
  switch (p.kind) {
    case Kind::TensorList:
      return all_of(o, [&](PyObject* x) { return is_exact_tensor(x) || accept_other_tensor(x); });
    case Kind::OptionalTensorList:
      return all_of(o, [&](PyObject* x) {
        return x == Py_None || is_exact_tensor(x) || accept_other_tensor(x);
      });
    case Kind::IntList:
      return accept_integers(PySequence_Fast_ITEMS(o), PySequence_Fast_GET_SIZE(o));
    case Kind::FloatList: return all_of(o, is_real_number);
    default: return all_of(o, [](PyObject* x) { return PyBool_Check(x) != 0; });
  }
}

// ---- calls that do not fit ---------------------------------------------------------------------

bool Arguments::takes_count(const Overload& o, const Call& call) {
  const int self = call.self ? 1 : 0;
  int required = -self;
  for (int i = 0; i < o.count; ++i) required += !o.parameters[i].has_default;
  const Py_ssize_t given = call.count + call.keywords();
  return call.count <= o.positional - self && required <= given && given <= o.count - self;
}

bool Arguments::wants_one_element(const Call& call) const {
  if (!overload_->numbers_may_be_tensors) return false;
  for (Py_ssize_t i = 0; i < call.count && i < overload_->count; ++i)
    if (overload_->parameters[i].kind == Kind::Scalar && is_tensor(call.args[i]) &&
        tensor_of(call.args[i]).dim() > 0)
      return true;
  return false;
}

// Objects that are no tensors, and take over functions, may stand in lists of numbers too, where
// they are looked for when no form has fitted.
int Arguments::ask_others(const Call& call) {
  if (!subclasses_enabled()) return 0;
  Overriding found;
  for (Py_ssize_t i = 0; i < call.count + call.keywords(); ++i)
    collect_overriding(call.args[i], found);
  found.erase(std::remove_if(found.begin(), found.end(), is_tensor), found.end());
  return found.empty() ? 0 : hand_over(call, found);
}

int Arguments::refuse(const Call& call) {
  if (int answer = ask_others(call)) return answer;
  std::string text = std::string(spec_->name) + "()";
  std::string why;
  // Of several forms the ones that take as many arguments are meant: if it is one, it alone speaks.
  const Overload* meant = nullptr;
  int meant_count = 0;
  for (int k = 0; k < spec_->count; ++k)
    if (takes_count(spec_->overloads[k], call)) meant = &spec_->overloads[k], ++meant_count;
  if (spec_->count == 1) meant = spec_->overloads, meant_count = 1;
  if (meant_count == 1) {
    overload_ = meant;
    fit(call, &why);
    check(!wants_one_element(call), text, why, ": a tensor here must be 0-dimensional");
    check_type(false, text, why);
  }
  text += " received an invalid combination of arguments - got (";
  for (Py_ssize_t i = 0; i < call.count + call.keywords(); ++i) {
    if (i) text += ", ";
    if (i >= call.count) text += to_string(PyTuple_GET_ITEM(call.names, i - call.count)) + "=";
    text += type_name(call.args[i]);
  }
  text += "), but expected one of:";
  for (int k = 0; k < spec_->count; ++k) {
    overload_ = &spec_->overloads[k];
    fit(call, &why);
    text += std::string("\n * ") + overload_->signature + "\n     " + spec_->name + "()" + why;
  }
  fail(ErrorKind::Type, text);
}

void Arguments::overflow(int i) const {
  fail(ErrorKind::Value, spec_->name, "(): argument '", overload_->parameters[i].name,
       "' does not fit into 64 bits: Overflow when unpacking long long");
}

// ---- the subclass protocol
// -----------------------------------------------------------------------

namespace {

// A function that only the Python layer calls, "nn.functional._interpolate".
Object private_function(const std::string& path) {
  size_t dot = path.rfind('.');
  std::string module = dot == std::string::npos ? "" : path.substr(0, dot);
  Object all = import_attribute("rushlight._C", "_functions");
  Object functions = checked(PyMapping_GetItemString(all.get(), module.c_str()));
  return checked(PyMapping_GetItemString(functions.get(),
                                         path.c_str() + (dot == std::string::npos ? 0 : dot + 1)));
}

// A function of Python that a program has put in the place of the library's, which it may call.
bool is_patch(PyObject* function) {
  if (!function || !PyFunction_Check(function)) return false;
  PyObject* module = find_item(PyFunction_GET_GLOBALS(function), "__name__");
  const char* name = module ? PyUnicode_AsUTF8(module) : "";
  return name && std::strncmp(name, "rushlight", 9) != 0;
}

// rushlight.<qualified>, which users compare with; or the bare builtin while rushlight is being
// imported, and where a program has put another function there.
Object public_function(const char* qualified) {
  Object found = checked(PyImport_ImportModule("rushlight"));
  std::string path = qualified;
  for (size_t start = 0; start <= path.size();) {
    size_t end = std::min(path.find('.', start), path.size());
    PyObject* next = PyObject_GetAttrString(found.get(), path.substr(start, end - start).c_str());
    if (!next && end == path.size() && PyErr_ExceptionMatches(PyExc_AttributeError)) {
      PyErr_Clear();
      return private_function(path);
    }
    found = checked(next);
    start = end + 1;
  }
  return is_patch(found.get()) ? private_function(path) : std::move(found);
}

}  // namespace

// 0 if nobody overrides after all; -1 when result_ (or an error) is set.
int Arguments::ask_subclasses(const Call& call) {
  Overriding found;
  if (subclasses_enabled())
    for (int i = 0; i < overload_->count; ++i)  // what is any object is data: nobody is asked
      if (slots_[i] && overload_->parameters[i].kind != Kind::Object)
        collect_overriding(slots_[i], found);
  const bool taken = !found.empty() || function_mode_active();
  std::vector<PyObject*> slots(slots_, slots_ + overload_->count);
  if (!taken && std::none_of(slots.begin(), slots.end(), is_sparse_layout)) {
    if (!volatile_exists() || !any_volatile(spec_->name, slots)) return 0;
  }
  return hand_over(call, found, taken);
}

// What an operation in place would change, in a function that a transform of func runs.
void Arguments::check_what_changes() const {
  const std::string_view op = spec_->name;
  bool in_place = op.back() == '_' && op[op.size() - 2] != '_';
  for (int i = 0; i < overload_->count; ++i)
    in_place |=
        slots_[i] == Py_True && overload_->parameters[i].name == std::string_view("inplace");
  if (in_place && slots_[0] && is_tensor(slots_[0]))
    check_not_captured(tensor_of(slots_[0]), spec_->name);
}

// Who overrides a function that torch writes in Python gets the arguments as that gives them.
static void give_as_written_in_python(PyObject* function, Object& args, Object& kwargs) {
  Object overrides = checked(PyImport_ImportModule("rushlight.overrides"));
  Object pair = checked(PyObject_CallMethod(overrides.get(), "_handed_over_by_table", "OOO",
                                            function, args.get(), kwargs ? kwargs.get() : Py_None));
  args = Object::share(PyTuple_GetItem(pair.get(), 0));
  PyObject* named = PyTuple_GetItem(pair.get(), 1);
  kwargs = named == Py_None ? Object() : Object::share(named);
}

// The function where a new tensor of a sparse layout is asked for.
static PyObject* call_in_layout(PyObject* function, PyObject* args, PyObject* kwargs) {
  Object made = import_attribute("rushlight.sparse._make", "in_layout");
  return PyObject_CallFunctionObjArgs(made.get(), function, args, kwargs ? kwargs : Py_None,
                                      nullptr);
}

// -1, when result_ (or an error) is set: to those who override the function, to what makes tensors
// of a sparse layout, or to what volatile tensors do with it.
int Arguments::hand_over(const Call& call, const Overriding& found, bool taken) {
  Object function;
  if (call.self) {  // a method may have a name of its own: Tensor.orgqr
    function =
        Object(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), spec_->name));
    if (is_patch(function.get()))
      function = Object(
          PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type->tp_base), spec_->name));
    if (!function) clear_error();
  }
  if (!function) function = public_function(spec_->qualified);
  Py_ssize_t first = call.self ? 1 : 0;
  Object args = checked(PyTuple_New(call.count + first));
  if (call.self) PyTuple_SET_ITEM(args.get(), 0, Object::share(call.self).release());
  for (Py_ssize_t i = 0; i < call.count; ++i)
    PyTuple_SET_ITEM(args.get(), first + i, Object::share(call.args[i]).release());
  Object kwargs;
  if (call.keywords()) kwargs = checked(PyDict_New());
  for (Py_ssize_t j = 0; j < call.keywords(); ++j)
    checked(
        PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(call.names, j), call.args[call.count + j]));
  if (taken && std::strncmp(spec_->qualified, "nn.functional.", 14) == 0)
    give_as_written_in_python(function.get(), args, kwargs);
  const bool is_sparse =
      !taken && std::any_of(call.args, call.args + call.count + call.keywords(), is_sparse_layout);
  result_ = taken       ? call_torch_function(function.get(), found, args.get(), kwargs.get())
            : is_sparse ? call_in_layout(function.get(), args.get(), kwargs.get())
                        : call_volatile(function.get(), args.get(), kwargs.get());
  return -1;
}

// ---- readers
// -------------------------------------------------------------------------------------

Tensor Arguments::tensor_or_number(int i) const {
  PyObject* o = slots_[i];
  return is_tensor(o) ? tensor_of(o) : wrap_number(to_scalar(o));
}
void Arguments::need_tensor(int i, int j) const {
  if (is_tensor(slots_[i]) || is_tensor(slots_[j])) return;
  fail(ErrorKind::Type, spec_->name, "(): '", overload_->parameters[i].name, "' or '",
       overload_->parameters[j].name, "' must be Tensor, not ", type_name(slots_[i]), " and ",
       type_name(slots_[j]));
}
const Tensor& Arguments::tensor_or_none(int i) const {
  static const auto& none = *new Tensor;
  return given(i) ? tensor(i) : none;
}

TensorList Arguments::tensors(int i) const {
  if (!given(i)) return {};
  PyObject* list = slots_[i];
  TensorList out;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
  out.reserve(static_cast<size_t>(n));
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* member = PySequence_Fast_GET_ITEM(list, k);
    out.push_back(member == Py_None ? Tensor() : tensor_of(member));
  }
  return out;
}
std::vector<Tensor> Arguments::tensors_or_none(int i) const { return tensors(i); }
Scalar Arguments::scalar(int i) const { return to_scalar(slots_[i]); }
std::optional<Scalar> Arguments::scalar_or_none(int i) const {
  return given(i) ? std::optional<Scalar>(scalar(i)) : std::nullopt;
}

int64_t Arguments::integer(int i) const {
  PyObject* o = slots_[i];
  if (!PyLong_Check(o)) return to_int64(o);
  int overflows = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(o, &overflows);
  if (__builtin_expect(overflows, 0)) overflow(i);
  return value;
}
std::optional<int64_t> Arguments::integer_or_none(int i) const {
  return given(i) ? std::optional<int64_t>(integer(i)) : std::nullopt;
}

double Arguments::real(int i) const { return to_double(slots_[i]); }
std::optional<double> Arguments::real_or_none(int i) const {
  return given(i) ? std::optional<double>(real(i)) : std::nullopt;
}

bool Arguments::boolean(int i) const { return to_bool(slots_[i]); }
std::optional<bool> Arguments::boolean_or_none(int i) const {
  return given(i) ? std::optional<bool>(boolean(i)) : std::nullopt;
}

Dims Arguments::integers(int i) const {
  PyObject* o = slots_[i];
  bool spread = i == spread_;
  if (!spread && !is_list(o)) return Dims(overload_->parameters[i].length, integer(i));
  Py_ssize_t n = spread ? spread_count_ : PySequence_Fast_GET_SIZE(o);
  PyObject* const* items = spread ? spread_items_ : PySequence_Fast_ITEMS(o);
  Dims dims;
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* member = items[k];
    int overflows = 0;
    dims.push_back(PyLong_Check(member) ? PyLong_AsLongLongAndOverflow(member, &overflows)
                                        : to_int64(member));
    if (__builtin_expect(overflows, 0)) overflow(i);
  }
  int64_t length = overload_->parameters[i].length;
  return n == 1 && length > 1 ? Dims(length, dims[0]) : dims;
}
std::optional<Dims> Arguments::integers_or_none(int i) const {
  return given(i) ? std::optional<Dims>(integers(i)) : std::nullopt;
}

std::vector<double> Arguments::reals(int i) const {
  PyObject* o = slots_[i];
  if (!is_list(o))
    return std::vector<double>(static_cast<size_t>(overload_->parameters[i].length), real(i));
  std::vector<double> out;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
    out.push_back(to_double(PySequence_Fast_GET_ITEM(o, k)));
  return out;
}
std::optional<std::vector<double>> Arguments::reals_or_none(int i) const {
  return given(i) ? std::optional<std::vector<double>>(reals(i)) : std::nullopt;
}

std::string Arguments::text(int i) const { return to_string(slots_[i]); }
std::optional<std::string> Arguments::text_or_none(int i) const {
  return given(i) ? std::optional<std::string>(text(i)) : std::nullopt;
}

std::optional<rl::DType> Arguments::dtype_or_none(int i) const {
  return given(i) ? std::optional<rl::DType>(to_dtype(slots_[i])) : std::nullopt;
}
std::optional<rl::DType> Arguments::dtype_or_of(int i, int out) const {
  return !given(i) && given(out) ? std::optional<rl::DType>(tensor(out).dtype()) : dtype_or_none(i);
}
std::optional<rl::Device> Arguments::device_or_none(int i) const {
  return given(i) ? std::optional<rl::Device>(to_device(slots_[i])) : std::nullopt;
}
std::optional<rl::Device> Arguments::device_or_of(int i, int out) const {
  if (given(i) || !given(out)) return device_or_none(i);
  return tensor(out).device();
}
std::optional<MemoryFormat> Arguments::memory_format_or_none(int i) const {
  return given(i) ? std::optional<MemoryFormat>(to_memory_format(slots_[i])) : std::nullopt;
}
rl::Generator* Arguments::generator_or_none(int i) const {
  return given(i) ? to_generator(slots_[i]) : nullptr;
}
LayoutArgument Arguments::layout(int i) const {
  check_implemented(!given(i) || slots_[i] == strided_layout(), spec_->name,
                    ": only the layout torch.strided is supported");
  return {};
}
Tensor Arguments::pinned_if(bool asked, Tensor&& made) const {
  return asked && !made.is_meta() ? pinned(spec_->name, made) : std::move(made);
}

}  // namespace rl::bind
