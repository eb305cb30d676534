// Switches and statistics: what _C exports besides types and ops.
#include "bind/modes.h"

#include "autograd/engine.h"
#include "bind/convert.h"
#include "bind/function_type.h"
#include "bind/object.h"
#include "bind/torch_function.h"
#include "bind/types.h"
#include "core/denormals.h"
#include "core/parallel.h"
#include "dispatch/uninitialized.h"
#include "kernels/gemm.h"
#include "kernels/instruction_set.h"

namespace rl::bind {

namespace {

bool to_flag(PyObject* o, const char* function, const char* argument) {
  check_type(PyBool_Check(o), function, "(): argument '", argument,
             "' (position 1) must be bool, not ", type_name(o));
  return o == Py_True;
}

void set_bit(ModeBit bit, bool on) {
  if (on) mode() |= bit;
  else mode() &= ~static_cast<uint32_t>(bit);
}

template <ModeBit bit>
PyObject* has_bit(PyObject*, PyObject*) {
  return PyBool_FromLong(mode() & bit);
}

// What no_grad() and enable_grad() set: true of enable_grad() in inference mode too, as in torch.
PyObject* is_grad_enabled(PyObject*, PyObject*) {
  const DerivativeLevels& levels = thread_state().levels;
  return PyBool_FromLong(!(mode() & NoGrad) && levels.least <= levels.current);
}

PyObject* set_grad_enabled(PyObject*, PyObject* enabled) {
  return guarded([&]() -> PyObject* {
    const bool on = to_flag(enabled, "set_grad_enabled", "enabled");
    const bool hides = mode() & Pushing;
    DerivativeLevels& levels = thread_state().levels;
    if (hides) levels.least = on ? levels.least_outside : levels.current + 1;
    if (on || !hides) set_bit(NoGrad, !on);
    Py_RETURN_NONE;
  });
}

PyObject* current_level(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLong(thread_state().levels.current);
}

PyObject* records(PyObject*, PyObject*) { return PyBool_FromLong(grad_enabled()); }

constexpr uint32_t bits_of_levels = NoGrad | Pushing | Transformed;

// _enter_level(level, pushes, is_pass): runs a function, or a backward pass for one, at that level;
// `pushes`: for derivatives in forward direction. Returns what _leave_level() takes.
PyObject* enter_level(PyObject*, PyObject* args) {
  unsigned level;
  int pushes, is_pass;
  if (!PyArg_ParseTuple(args, "Ipp", &level, &pushes, &is_pass)) return nullptr;
  DerivativeLevels& levels = thread_state().levels;
  const DerivativeLevels outer = levels;
  const uint32_t bits = mode() & bits_of_levels;
  if (bits & NoGrad) levels.least = levels.current + 1;
  levels.current = level;
  levels.least_outside = levels.least;
  levels.seeing = pushes && is_pass ? UINT32_MAX : level;
  set_bit(Transformed, !is_pass);
  if (!is_pass) {
    set_bit(NoGrad, false);
    if (pushes) set_bit(Pushing, true);
  }
  return Py_BuildValue("IIIII", bits, outer.current, outer.least, outer.least_outside,
                       outer.seeing);
}

PyObject* leave_level(PyObject*, PyObject* state) {
  unsigned bits;
  DerivativeLevels outer;
  if (!PyArg_ParseTuple(state, "IIIII", &bits, &outer.current, &outer.least, &outer.least_outside,
                        &outer.seeing))
    return nullptr;
  thread_state().levels = outer;
  mode() = (mode() & ~bits_of_levels) | bits;
  Py_RETURN_NONE;
}

// _set_level(tensor, level): in-place operations of a function that runs at that level may change
// it. Returns the level that it had.
PyObject* set_level(PyObject*, PyObject* args) {
  PyObject* tensor;
  DerivativeLevels given;
  if (!PyArg_ParseTuple(args, "OI", &tensor, &given.current)) return nullptr;
  return guarded([&] {
    uint8_t& level = tensor_of(tensor).impl()->level;
    return PyLong_FromUnsignedLong(std::exchange(level, given.counted()));
  });
}

PyObject* set_inference_mode(PyObject*, PyObject* enabled) {
  return guarded([&]() -> PyObject* {
    set_bit(Inference, to_flag(enabled, "set_inference_mode", "mode"));
    Py_RETURN_NONE;
  });
}

PyObject* set_anomaly_enabled(PyObject*, PyObject* args) {
  int on, nan = 1;
  if (!PyArg_ParseTuple(args, "p|p", &on, &nan)) return nullptr;
  set_bit(Anomaly, on);
  anomaly_checks_nan = nan;
  Py_RETURN_NONE;
}

PyObject* is_check_nan_enabled(PyObject*, PyObject*) { return PyBool_FromLong(anomaly_checks_nan); }

PyObject* get_default_dtype(PyObject*, PyObject*) {
  return guarded([] { return wrap(default_dtype()); });
}

PyObject* set_default_dtype(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    check_type(count + named == 1, "set_default_dtype: expected one argument, d, got ",
               count + named);
    check_type(!named || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "d") == 0,
               "set_default_dtype: got an unexpected keyword argument; the one there is is d");
    PyObject* o = args[0];
    check_type(is_dtype(o),
               "invalid dtype object: only floating-point types are supported as the default type");
    DType t = to_dtype(o);
    check_type(rl::is_floating(t), "only floating-point types are supported as the default type");
    rl::set_default_dtype(t);
    Py_RETURN_NONE;
  });
}

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(num_threads()); }

PyObject* set_num_threads(PyObject*, PyObject* n) {
  return guarded([&]() -> PyObject* {
    check(is_integer(n), "set_num_threads expects an int, but got ", type_name(n));
    int64_t count = to_int64(n);
    check(count > 0 && count <= 1024,
          "set_num_threads expects a positive integer (up to 1024), got ", count);
    rl::set_num_threads(static_cast<int>(count));
    Py_RETURN_NONE;
  });
}

// set_flush_denormal(mode): for this thread, and for what helps it.
PyObject* set_flush_denormal(PyObject*, PyObject* value) {
  return guarded([&]() -> PyObject* {
    set_denormal_mode(to_flag(value, "set_flush_denormal", "mode") ? flush_denormals : 0);
    return PyBool_FromLong(flush_denormals != 0);
  });
}

// Whether matrix products of float32 may round their factors to bfloat16.
PyObject* set_round_float_factors(PyObject*, PyObject* value) {
  return guarded([&]() -> PyObject* {
    kernels::round_float_factors = to_flag(value, "_set_round_float_factors", "mode");
    Py_RETURN_NONE;
  });
}

// For tests: loops over threads are split into parts of n even where that does not pay; 0 ends it.
PyObject* set_largest_grain(PyObject*, PyObject* n) {
  return guarded([&]() -> PyObject* {
    int64_t grain = to_int64(n);
    check(grain >= 0, "_set_largest_grain: ", grain);
    rl::detail::largest_grain = grain ? grain : INT64_MAX;
    Py_RETURN_NONE;
  });
}

PyObject* memory_statistics(PyObject*, PyObject*) {
  MemoryStats s = memory_stats();
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L}", "allocated", static_cast<long long>(s.allocated),
                       "peak", static_cast<long long>(s.peak), "cached",
                       static_cast<long long>(s.cached), "allocations",
                       static_cast<long long>(s.allocations), "system_allocations",
                       static_cast<long long>(s.system_allocations));
}

PyObject* empty_memory_cache(PyObject*, PyObject*) {
  empty_cache();
  Py_RETURN_NONE;
}

PyObject* reset_peak(PyObject*, PyObject*) {
  reset_peak_memory();
  Py_RETURN_NONE;
}

PyObject* count_tensors(PyObject*, PyObject*) { return PyLong_FromLongLong(live_tensors()); }
PyObject* count_nodes(PyObject*, PyObject*) { return PyLong_FromLongLong(live_nodes()); }
PyObject* count_storages(PyObject*, PyObject*) { return PyLong_FromLongLong(live_storages()); }

// ---- context managers over the mode word
// -------------------------------------------------------------

struct ModeScope {
  PyObject_HEAD uint32_t saved;
};

template <uint32_t set, uint32_t cleared>
PyObject* enter(PyObject* self, PyObject*) {
  reinterpret_cast<ModeScope*>(self)->saved = mode();
  mode() = (mode() | set) & ~cleared;
  return Object::share(self).release();
}

template <uint32_t touched>
PyObject* leave(PyObject* self, PyObject*) {
  mode() = (mode() & ~touched) | (reinterpret_cast<ModeScope*>(self)->saved & touched);
  Py_RETURN_NONE;
}

template <uint32_t set, uint32_t cleared>
void add_scope(PyObject* module, const char* name) {
  static PyMethodDef methods[] = {{"__enter__", enter<set, cleared>, METH_NOARGS, nullptr},
                                  {"__exit__", leave<set | cleared>, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  make_type(module, name, sizeof(ModeScope), Py_TPFLAGS_DEFAULT, slots);
}

// Found under these names in rushlight itself.
PyMethodDef public_functions[] = {
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "get_default_dtype()\n--\n\nThe dtype that Python floats get."},
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "get_num_threads()\n--\n\nHow many threads an op may use."},
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads(n)\n--\n\nSets how many threads an op may use. A child that was forked "
     "starts "
     "with one."},
    {"set_flush_denormal", set_flush_denormal, METH_O,
     "set_flush_denormal(mode)\n--\n\nMakes this thread, and the operations that it calls, take "
     "numbers below the normal range for zero. Returns True."},
    {"memory_stats", memory_statistics, METH_NOARGS,
     "memory_stats()\n--\n\nBytes held by tensors and by the cache of the CPU allocator."},
    {"empty_cache", empty_memory_cache, METH_NOARGS,
     "empty_cache()\n--\n\nGives cached memory back to the system."},
    {"reset_peak_memory_stats", reset_peak, METH_NOARGS,
     "reset_peak_memory_stats()\n--\n\nStarts the peak anew."},
    {nullptr, nullptr, 0, nullptr}};

PyObject* set_fills_uninitialized(PyObject*, PyObject* value) {
  return guarded([&]() -> PyObject* {
    fills_uninitialized = to_flag(value, "_set_fills_uninitialized", "value");
    Py_RETURN_NONE;
  });
}

PyObject* instruction_set(PyObject*, PyObject*) {
  return PyUnicode_FromString(kernels::instruction_set());
}

PyMethodDef functions[] = {
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "is_grad_enabled()\n--\n\nWhether ops are recorded for backward."},
    {"set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"_enter_level", enter_level, METH_VARARGS, nullptr},
    {"_leave_level", leave_level, METH_O, nullptr},
    {"_set_level", set_level, METH_VARARGS, nullptr},
    {"_current_level", current_level, METH_NOARGS, nullptr},
    {"_records", records, METH_NOARGS, nullptr},
    {"is_inference_mode_enabled", has_bit<Inference>, METH_NOARGS,
     "is_inference_mode_enabled()\n--\n\nWhether inference mode is on."},
    {"set_inference_mode", set_inference_mode, METH_O, nullptr},
    {"is_anomaly_enabled", has_bit<Anomaly>, METH_NOARGS, nullptr},
    {"is_anomaly_check_nan_enabled", is_check_nan_enabled, METH_NOARGS, nullptr},
    {"set_anomaly_enabled", set_anomaly_enabled, METH_VARARGS, nullptr},
    {"_set_fills_uninitialized", set_fills_uninitialized, METH_O, nullptr},
    {"_set_largest_grain", set_largest_grain, METH_O, nullptr},
    {"_set_round_float_factors", set_round_float_factors, METH_O, nullptr},
    {"_instruction_set", instruction_set, METH_NOARGS, nullptr},
    {"_live_tensors", count_tensors, METH_NOARGS, nullptr},
    {"_live_nodes", count_nodes, METH_NOARGS, nullptr},
    {"_live_storages", count_storages, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_modes(PyObject* module, PyObject* rushlight) {
  if (std::string text = kernels::complaint_of_chosen_set(); !text.empty())
    checked(PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1));
  checked(PyModule_AddFunctions(module, functions));
  for (PyMethodDef* d = public_functions; d->ml_name; ++d) {
    Object function =
        checked(PyCFunction_NewEx(d, nullptr, Object(PyUnicode_FromString("rushlight")).get()));
    checked(PyDict_SetItemString(rushlight, d->ml_name, function.get()));
  }
  Object with_attributes =
      checked(make_function("set_default_dtype", "rushlight", set_default_dtype,
                            "set_default_dtype(d)\n--\n\nSets the dtype that Python floats get."));
  checked(PyDict_SetItemString(rushlight, "set_default_dtype", with_attributes.get()));
  add_scope<DispatchAlone, 0>(module, "rushlight._C.DisableTorchFunctionSubclass");
  add_scope<NoTorchFunction, 0>(module, "rushlight._C._SubclassesOff");
  add_scope<NoTorchFunction, FunctionMode>(module, "rushlight._C.DisableTorchFunction");
}

}  // namespace rl::bind
