#include "bind/python_calls.h"

#include <atomic>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bind/object.h"
#include "bind/python_link.h"
#include "core/observer.h"

namespace rl::bind {
namespace {

// The names of functions in C, by their definition and the type that they are called of.
struct Names {
  struct Hash {
    size_t operator()(const std::pair<PyMethodDef*, PyTypeObject*>& key) const {
      return reinterpret_cast<size_t>(key.first) * 31 + reinterpret_cast<size_t>(key.second);
    }
  };
  std::unordered_map<std::pair<PyMethodDef*, PyTypeObject*>, const char*, Hash> known;
  std::vector<Object> types;  // kept, so that no other has its address meanwhile
};
Names& names() {
  static auto* all = new Names;
  return *all;
}

const char* name_of(PyObject* function) {
  if (!PyCFunction_Check(function)) return "<built-in function>";
  PyMethodDef* definition = reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  PyObject* self = PyCFunction_GET_SELF(function);
  PyTypeObject* type = self && !PyModule_Check(self) ? Py_TYPE(self) : nullptr;
  LinkLock lock(&names());
  const char*& known = names().known[{definition, type}];
  if (!known) {
    std::string name = definition->ml_name;
    known = observer::intern(type ? "<built-in method " + name + " of " + type->tp_name + " object>"
                                  : "<built-in function " + name + ">");
    if (type) names().types.push_back(Object::share(reinterpret_cast<PyObject*>(type)));
  }
  return known;
}

// The calls under way on a thread, the outermost first. `what` is the code or the function.
struct Call {
  Event* event;
  const void* what;
};
struct Calls {
  std::vector<Call> open;
  int64_t watch = -1;  // of which they are
};
std::atomic<int64_t> watch{0};  // odd while calls are watched

Calls& calls_of_thread() {
  static thread_local Calls calls;
  const int64_t now = watch.load(std::memory_order_relaxed);
  if (calls.watch != now) {
    calls.open.clear();
    calls.watch = now;
  }
  return calls;
}

void begin(PyCodeObject* code) {  // takes over the reference
  Event* event = observer::begin_open(EventKind::Call, "");
  if (event) event->where = {code, -1};  // no instruction: the line of the definition
  else Py_DECREF(code);
  calls_of_thread().open.push_back({event, code});
}

void begin_c(PyObject* function) {
  Event* event = observer::begin_open(EventKind::Call, name_of(function));
  calls_of_thread().open.push_back({event, reinterpret_cast<PyCFunctionObject*>(function)->m_ml});
}

// What has begun before the watch ends unnoticed.
void end(const void* what) {
  std::vector<Call>& open = calls_of_thread().open;
  size_t at = open.size();
  while (at > 0 && open[at - 1].what != what) --at;
  if (at == 0) return;
  for (; open.size() >= at; open.pop_back())
    if (open.back().event) observer::end_open(open.back().event);
}

int on_call(PyObject*, PyFrameObject* frame, int event, PyObject* argument) {
  if (!(watch.load(std::memory_order_relaxed) & 1)) return 0;
  switch (event) {
    case PyTrace_CALL: begin(PyFrame_GetCode(frame)); break;
    case PyTrace_RETURN: {
      PyCodeObject* code = PyFrame_GetCode(frame);
      end(code);
      Py_DECREF(code);
      break;
    }
    case PyTrace_C_CALL:
      if (PyCFunction_Check(argument)) begin_c(argument);
      break;
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
      if (PyCFunction_Check(argument)) end(reinterpret_cast<PyCFunctionObject*>(argument)->m_ml);
      break;
    default: break;
  }
  return 0;
}

void begin_frames_under_way() {
  std::vector<PyCodeObject*> codes;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    codes.push_back(PyFrame_GetCode(frame));
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  for (size_t i = codes.size(); i > 0; --i) begin(codes[i - 1]);
}

#if PY_VERSION_HEX >= 0x030c0000
void set_for_all_threads(Py_tracefunc function) { PyEval_SetProfileAllThreads(function, nullptr); }
#else
void set_for_all_threads(Py_tracefunc function) {
  PyThreadState* own = PyThreadState_Get();
  PyThreadState* each = PyInterpreterState_ThreadHead(own->interp);
  for (; each; each = PyThreadState_Next(each)) {
    if (each->c_profilefunc && each->c_profilefunc != on_call) continue;  // another profiler's
    PyThreadState_Swap(each);
    PyEval_SetProfile(function, nullptr);
    PyThreadState_Swap(own);
  }
}
#endif

}  // namespace

bool watch_calls() {
  PyThreadState* own = PyThreadState_Get();
  if (own->c_profilefunc && own->c_profilefunc != on_call) return false;
  if (watch.load() & 1) return true;
  watch.fetch_add(1);
  begin_frames_under_way();
  set_for_all_threads(on_call);
  return true;
}

void leave_calls() {
  if (!(watch.load() & 1)) return;
  set_for_all_threads(nullptr);
  watch.fetch_add(1);  // what is under way ends with the profile
  std::vector<Object> types;
  LinkLock lock(&names());
  names().known.clear();
  types.swap(names().types);
}

}  // namespace rl::bind
