#include "bind/profiler.h"

#include <cstring>
#include <string>
#include <unordered_map>

#include "bind/convert.h"
#include "bind/object.h"
#include "bind/python_calls.h"
#include "bind/python_link.h"
#include "bind/types.h"
#include "core/memory_blocks.h"
#include "core/ranges.h"
#include "dispatch/trap.h"
#include "tensor/physical_layout.h"

namespace rl::bind {

namespace {

// ---- paths of modules
// ----------------------------------------------------------------------------

// Of the modules that have been met while something was observed; they live that long.
struct ModulePaths {
  std::unordered_map<PyObject*, const char*> paths;
  Object kept;
};
ModulePaths& module_paths() {
  static auto* paths = new ModulePaths;
  return *paths;
}

const char* find_path(PyObject* module) {
  LinkLock lock(&module_paths());
  auto found = module_paths().paths.find(module);
  return found == module_paths().paths.end() ? nullptr : found->second;
}

// The paths of a module that is called by the program, and of those inside of it.
void learn_paths(PyObject* root) {
  static Imported paths("rushlight.profiler.modules", "paths_of");
  Object pairs = checked(PyObject_CallOneArg(paths.get(), root));  // a list of (path, module)
  std::vector<std::pair<PyObject*, const char*>> found;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(pairs.get(), i);
    found.emplace_back(PyTuple_GET_ITEM(pair, 1),
                       observer::intern(to_string(PyTuple_GET_ITEM(pair, 0))));
  }
  Object fresh = checked(PyList_New(0));
  PyObject* kept;
  {
    LinkLock lock(&module_paths());
    if (!module_paths().kept) module_paths().kept = std::move(fresh);
    kept = module_paths().kept.get();
    for (auto& [module, path] : found) module_paths().paths.emplace(module, path);
  }
  checked(PyList_Append(kept, pairs.get()));
}

PyObject* forget_paths(PyObject*, PyObject*) {
  Object kept;
  {
    LinkLock lock(&module_paths());
    module_paths().paths.clear();
    kept = std::move(module_paths().kept);
  }
  Py_RETURN_NONE;
}

// ---- profiles
// ------------------------------------------------------------------------------------

class Collector final : public observer::Visitor {
 public:
  Collector() : events_(checked(PyList_New(0))) {}
  void thread(int64_t id) override { thread_ = id; }
  void event(Event& e) override {
    if (!failed_) {
      try {
        checked(PyList_Append(events_.get(), describe(e).get()));
      } catch (const PythonError&) {
        failed_ = true;
      }
    }
    forget(e.where);
    if (e.stack)
      for (int64_t i = 0; i < e.stack[1]; ++i) Py_DECREF(code(e.stack, i));
  }
  PyObject* finish() {
    if (failed_) throw PythonError{};
    return events_.release();
  }

 private:
  using Details = observer::Details;
  static PyObject* code(const int64_t* stack, int64_t i) {
    return reinterpret_cast<PyObject*>(stack[2 + 2 * i]);
  }

  Object describe(const Event& e) {
    Object where = e.where.code ? line_of(static_cast<PyObject*>(e.where.code), e.where.instruction)
                                : Object::share(Py_None);
    Object inputs = decode_all(e.given), results = decode_all(e.result), stack = stack_of(e.stack);
    PyObject* module = e.where.module ? text(e.where.module) : Py_None;
    return checked(
        Py_BuildValue("(iOLLLLLLIOOOOOOii)", static_cast<int>(e.kind), text(e.name),
                      static_cast<long long>(e.start), static_cast<long long>(e.end),
                      static_cast<long long>(thread_), static_cast<long long>(e.sequence),
                      static_cast<long long>(e.memory), static_cast<long long>(e.bytes), e.depth,
                      e.in_backward ? Py_True : Py_False, where.get(), inputs.get(), results.get(),
                      stack.get(), module, e.device, e.stream));
  }

  PyObject* text(const char* name) {  // borrowed
    Object& known = names_[name];
    if (!known) known = checked(PyUnicode_FromString(name));
    return known.get();
  }

  // (file, line, function)
  Object line_of(PyObject* code, int32_t instruction) {
    Object& known = lines_[{code, instruction}];
    if (!known) {
      auto* c = reinterpret_cast<PyCodeObject*>(code);
      known = checked(
          Py_BuildValue("(OiO)", c->co_filename, PyCode_Addr2Line(c, instruction), c->co_name));
    }
    return Object::share(known.get());
  }

  Object stack_of(const int64_t* at) {
    if (!at) return Object::share(Py_None);
    Object all = checked(PyTuple_New(at[1]));
    for (int64_t i = 0; i < at[1]; ++i)
      PyTuple_SET_ITEM(all.get(), i,
                       line_of(code(at, i), static_cast<int32_t>(at[3 + 2 * i])).release());
    return all;
  }

  Object decode_all(const int64_t* at) {
    if (!at) return Object::share(Py_None);
    Object all = checked(PyList_New(0));
    while (*at != Details::End) checked(PyList_Append(all.get(), decode(at).get()));
    return all;
  }

  Object decode_sizes(const int64_t*& at, int64_t n) {
    Object sizes = checked(PyList_New(n));
    for (int64_t d = 0; d < n; ++d)
      PyList_SET_ITEM(sizes.get(), d, checked(PyLong_FromLongLong(*at++)).release());
    return sizes;
  }

  // A tensor as (dtype, sizes, strides), numbers as they are, None for what has no shape.
  Object decode(const int64_t*& at) {
    switch (*at++) {
      case Details::Tensor: {
        DType dtype = static_cast<DType>(*at++);
        int64_t n = *at++;
        Object sizes = decode_sizes(at, n), strides = decode_sizes(at, n);
        return checked(Py_BuildValue("(sOO)", name(dtype), sizes.get(), strides.get()));
      }
      case Details::Tensors: {
        int64_t n = *at++;
        Object all = checked(PyList_New(n));
        for (int64_t i = 0; i < n; ++i) PyList_SET_ITEM(all.get(), i, decode(at).release());
        return all;
      }
      case Details::Integers: {
        int64_t n = *at++;
        return decode_sizes(at, n);
      }
      case Details::Integer: return checked(PyLong_FromLongLong(*at++));
      case Details::Flag: return checked(PyBool_FromLong(static_cast<long>(*at++)));
      case Details::Real: {
        double value;
        std::memcpy(&value, at++, sizeof value);
        return checked(PyFloat_FromDouble(value));
      }
      default: return Object::share(Py_None);
    }
  }

  struct Place {
    PyObject* code;
    int32_t instruction;
    bool operator==(const Place& o) const { return code == o.code && instruction == o.instruction; }
  };
  struct Hash {
    size_t operator()(const Place& p) const {
      return reinterpret_cast<size_t>(p.code) * 31 + static_cast<size_t>(p.instruction);
    }
  };
  Object events_;
  int64_t thread_ = 0;
  bool failed_ = false;
  std::unordered_map<const char*, Object> names_;
  std::unordered_map<Place, Object, Hash> lines_;
};

PyObject* start(PyObject*, PyObject* args) {
  int memory, shapes, stacks, modules;
  if (!PyArg_ParseTuple(args, "pppp", &memory, &shapes, &stacks, &modules)) return nullptr;
  return guarded([&]() -> PyObject* {
    observer::Options options;
    options.memory = memory;
    options.shapes = shapes;
    options.stacks = stacks;
    options.modules = modules;
    return wrap(observer::start(options));
  });
}

PyObject* stop(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    leave_calls();
    Collector collector;
    observer::stop(collector);
    return collector.finish();
  });
}

PyObject* calls(PyObject*, PyObject*) { return PyBool_FromLong(watch_calls()); }
PyObject* is_active(PyObject*, PyObject*) { return PyBool_FromLong(observer::is_recording()); }
PyObject* now(PyObject*, PyObject*) { return PyLong_FromLongLong(observer::now()); }

PyObject* begin_span(PyObject*, PyObject* name) {
  if (!observer::is_recording()) return PyLong_FromLong(0);
  return guarded([&]() -> PyObject* {
    const char* kept = observer::intern(to_string(name));
    return PyLong_FromLongLong(observer::begin_span(EventKind::Span, kept));
  });
}

PyObject* end_span(PyObject*, PyObject* span) {
  return guarded([&]() -> PyObject* {
    observer::end_span(to_int64(span));
    Py_RETURN_NONE;
  });
}

// _profiler_external(name, start, end, device, stream): for collectives and for other devices.
PyObject* external(PyObject*, PyObject* args) {
  const char* name;
  long long begin, end;
  int device, stream;
  if (!PyArg_ParseTuple(args, "sLLii", &name, &begin, &end, &device, &stream)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (observer::is_recording())
      observer::external(observer::intern(name), begin, end, device, stream);
    Py_RETURN_NONE;
  });
}

// _profiler_ranges(push, pop): the addresses of two C functions, int push(const char*) and int
// pop(); zeros end the ranges. False where a profile is under way.
PyObject* set_ranges(PyObject*, PyObject* args) {
  unsigned long long push, pop;
  if (!PyArg_ParseTuple(args, "KK", &push, &pop)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (!push || !pop) {
      observer::stop_ranges();
      Py_RETURN_TRUE;
    }
    observer::Ranges ranges;
    ranges.push = reinterpret_cast<int (*)(const char*)>(push);
    ranges.pop = reinterpret_cast<int (*)()>(pop);
    return wrap(observer::start_ranges(ranges));
  });
}

// ---- the NaN trap
// --------------------------------------------------------------------------------

PyObject* start_trap(PyObject*, PyObject* infinity) {
  return guarded([&]() -> PyObject* {
    trap::start(to_bool(infinity));
    Py_RETURN_NONE;
  });
}
PyObject* stop_trap(PyObject*, PyObject*) {
  trap::stop();
  Py_RETURN_NONE;
}
PyObject* is_trapping(PyObject*, PyObject*) { return PyBool_FromLong(mode() & Trapped); }

PyObject* check_values(PyObject*, PyObject* args) {
  const char* what;
  PyObject* tensor;
  if (!PyArg_ParseTuple(args, "sO", &what, &tensor)) return nullptr;
  return guarded([&]() -> PyObject* {
    check_type(is_tensor(tensor), "_trap_check: expected a Tensor, got ", type_name(tensor));
    trap::check_values(what, tensor_of(tensor));
    Py_RETURN_NONE;
  });
}

PyObject* describe_values(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    check_type(is_tensor(tensor), "describe_values: expected a Tensor, got ", type_name(tensor));
    return PyUnicode_FromString(trap::describe_values(tensor_of(tensor)).c_str());
  });
}

// ---- memory
// ---------------------------------------------------------------------------------------

// _memory_blocks(): (address, size, (file, line, function) or None, is of backward) of each block
// that is known by its line.
PyObject* memory_blocks(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    Object all = checked(PyList_New(0));
    std::vector<MemoryBlock> blocks = live_blocks();
    for (MemoryBlock& b : blocks) Py_XINCREF(static_cast<PyObject*>(b.where.code));
    for (MemoryBlock& b : blocks) {
      Object code(static_cast<PyObject*>(b.where.code)), where;
      if (code) {
        auto* c = reinterpret_cast<PyCodeObject*>(code.get());
        where = checked(Py_BuildValue("(OiO)", c->co_filename,
                                      PyCode_Addr2Line(c, b.where.instruction), c->co_name));
      }
      Object row = checked(Py_BuildValue(
          "(KnOO)", reinterpret_cast<unsigned long long>(b.data), static_cast<Py_ssize_t>(b.size),
          where ? where.get() : Py_None, b.in_backward ? Py_True : Py_False));
      checked(PyList_Append(all.get(), row.get()));
    }
    return all.release();
  });
}

// _block_limit(bytes): from how many bytes on blocks are known; returns the limit before.
PyObject* set_limit(PyObject*, PyObject* bytes) {
  return guarded([&]() -> PyObject* {
    int64_t limit = to_int64(bytes);
    check(limit >= 0, "_block_limit: expected a number of bytes, got ", limit);
    return PyLong_FromSize_t(set_block_limit(static_cast<size_t>(limit)));
  });
}

// _memory_address(tensor): of the bytes of its storage as they are, 0 where there are none.
PyObject* memory_address(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    check_type(is_tensor(o), "_memory_address: expected a Tensor, got ", type_name(o));
    const Tensor& t = tensor_of(o);
    const void* data = nullptr;
    if (!t.is_sparse() && !t.is_meta() && t.storage()) {
      data = t.storage()->data;
      Ref<ChannelsLastContents> contents = data ? nullptr : channels_last_contents(t);
      if (contents && contents->is_computed()) data = PhysicalView(t).view().data;
    }
    return PyLong_FromVoidPtr(const_cast<void*>(data));
  });
}

PyMethodDef functions[] = {{"_profiler_start", start, METH_VARARGS, nullptr},
                           {"_profiler_stop", stop, METH_NOARGS, nullptr},
                           {"_profiler_watch_calls", calls, METH_NOARGS, nullptr},
                           {"_profiler_active", is_active, METH_NOARGS, nullptr},
                           {"_profiler_now", now, METH_NOARGS, nullptr},
                           {"_profiler_external", external, METH_VARARGS, nullptr},
                           {"_profiler_ranges", set_ranges, METH_VARARGS, nullptr},
                           {"_memory_blocks", memory_blocks, METH_NOARGS, nullptr},
                           {"_block_limit", set_limit, METH_O, nullptr},
                           {"_memory_address", memory_address, METH_O, nullptr},
                           {"_span_begin", begin_span, METH_O, nullptr},
                           {"_span_end", end_span, METH_O, nullptr},
                           {"_forget_module_paths", forget_paths, METH_NOARGS, nullptr},
                           {"_trap_start", start_trap, METH_O, nullptr},
                           {"_trap_stop", stop_trap, METH_NOARGS, nullptr},
                           {"_trap_active", is_trapping, METH_NOARGS, nullptr},
                           {"_trap_check", check_values, METH_VARARGS, nullptr},
                           {"_describe_values", describe_values, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

ModuleScope::ModuleScope(PyObject* module) : outer_(thread_state().module) {
  const bool wanted = (mode() & Trapped) || observer::options().modules;
  if (!wanted) return;
  const char* path = find_path(module);
  if (!path && !outer_) {
    learn_paths(module);
    path = find_path(module);
  }
  if (!path)  // made on the way
    path = observer::intern(std::string(outer_ ? outer_ : "") + "." + Py_TYPE(module)->tp_name);
  thread_state().module = path;
  if ((mode() & Profiled) && observer::options().modules)
    event_ = observer::begin(EventKind::Module, path);
}

ModuleScope::~ModuleScope() {
  if (event_) observer::end(event_);
  thread_state().module = outer_;
}

void init_profiler(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace rl::bind
