// Where in the user's program an op was called: the innermost frame outside this package.
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/current_node.h"
#include "bind/convert.h"
#include "bind/graph.h"
#include "bind/python_link.h"
#include "core/memory_blocks.h"
#include "core/trace.h"

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

namespace rl::bind {

namespace {

// Ends in a slash; files below it are not the user's.
std::string& package_folder = *new std::string;

bool lies_in_package(PyObject* file) {
  static auto& known = *new std::unordered_map<PyObject*, bool>;
  {
    LinkLock lock(&known);
    auto at = known.find(file);
    if (at != known.end()) return at->second;
  }
  const char* name = PyUnicode_AsUTF8(file);
  if (!name) PyErr_Clear();
  bool ours = name && !package_folder.empty() &&
              std::strncmp(name, package_folder.c_str(), package_folder.size()) == 0;
  Py_INCREF(file);  // keeps its address from being reused
  try {
    LinkLock lock(&known);
    if (!known.try_emplace(file, ours).second) Py_DECREF(file);
  } catch (const std::bad_alloc&) {
    // It is asked again. Nothing is thrown, as callers have frames to give back.
  }
  return ours;
}

// Code objects of one module share the object of their file name, so this is asked once per module;
// calls walk the same few files again and again.
bool is_ours(PyCodeObject* code) {
  struct Answer {
    PyObject* file;
    bool ours;
  };
  constexpr size_t kept = 16;
#ifdef Py_GIL_DISABLED
  static __thread Answer answers[kept] = {};
#else
  static Answer answers[kept] = {};
#endif
  PyObject* file = code->co_filename;
  Answer& answer = answers[reinterpret_cast<uintptr_t>(file) / 64 % kept];
  if (__builtin_expect(answer.file != file, 0)) answer = {file, lies_in_package(file)};
  return answer.ours;
}

// References that threads without the GIL take and give up, counted by the next one that has it.
class DeferredCounts {
 public:
  void add(PyObject* code) { defer(code, more_); }
  void drop(PyObject* code) {
    try {
      defer(code, fewer_);
    } catch (const std::bad_alloc&) {
      // A destructor calls this: the code object stays.
    }
  }
  // With the interpreter: counts up what waits before it counts down, so that whoever has a
  // reference may hand out another one without the interpreter.
  void release_deferred() {
    if (__builtin_expect(!any_.load(std::memory_order_relaxed), 1)) return;
    std::vector<PyObject*> more, fewer;
    {
      ForkLock lock(mutex_);
      more.swap(more_);
      fewer.swap(fewer_);
      any_.store(false, std::memory_order_relaxed);
    }
    for (PyObject* code : more) Py_INCREF(code);
    for (PyObject* code : fewer) Py_DECREF(code);
  }

 private:
  void defer(PyObject* code, std::vector<PyObject*>& list) {
    ForkLock lock(mutex_);
    list.push_back(code);
    any_.store(true, std::memory_order_relaxed);
  }

  ForkMutex mutex_{ForkRank::Sources};
  std::vector<PyObject*> more_, fewer_;
  std::atomic<bool> any_{false};
};
DeferredCounts& deferred = *new DeferredCounts;

int32_t instruction_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030b0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti * 2;  // counts units of two bytes
#endif
}

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000

// The interpreter's own frames: the public functions make a frame object first, which doubles the
// time of a small op that is recorded. Later versions hide what this reads.
SourceLocation innermost_frame() {
  for (auto* frame = PyThreadState_Get()->cframe->current_frame; frame; frame = frame->previous)
    if (!is_ours(frame->f_code) || !frame->previous) {
      Py_INCREF(frame->f_code);
      return {frame->f_code,
              _PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(_Py_CODEUNIT)),
              thread_state().module};
    }
  return {};
}

#else

SourceLocation innermost_frame() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    PyFrameObject* outer = is_ours(code) ? PyFrame_GetBack(frame) : nullptr;
    if (!outer) {
      SourceLocation found{code, instruction_of(frame), thread_state().module};
      Py_DECREF(frame);
      return found;
    }
    Py_DECREF(code);
    Py_DECREF(frame);
    frame = outer;
  }
  return {};
}

#endif

// All frames from the user's line outwards, those of this package left out.
int user_frames(SourceLocation* found, int most) {
  int count = 0;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (count < most && !is_ours(code)) found[count++] = {code, instruction_of(frame)};
    else Py_DECREF(code);
    PyFrameObject* outer = count < most ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = outer;
  }
  return count;
}

SourceLocation here() {
  if (!has_gil()) return {};  // the engine at work
  deferred.release_deferred();
  return innermost_frame();
}

// In backward the line of the forward op: where backward was called says little.
SourceLocation work() {
  const bool gil = has_gil();
  if (gil) deferred.release_deferred();
  Node* node = mode() & InBackward ? current_node() : nullptr;
  if (!node || !node->where.code) return gil ? innermost_frame() : SourceLocation{};
  auto* code = static_cast<PyObject*>(node->where.code);
  if (gil) Py_INCREF(code);
  else deferred.add(code);
  return node->where;
}

int stack(SourceLocation* found, int most) {
  if (!has_gil()) return 0;
  deferred.release_deferred();
  return user_frames(found, most);
}

std::string describe_location(SourceLocation where) {
  WithGil gil;
  auto* code = static_cast<PyCodeObject*>(where.code);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const char* function = PyUnicode_AsUTF8(code->co_name);
  int line = PyCode_Addr2Line(code, where.instruction);
  if (!file || !function) {
    PyErr_Clear();
    return {};
  }
  std::string text = "line " + std::to_string(line) + " of " + file;
  return std::string(function) == "<module>" ? text : text + ", in " + function;
}

void forget_location(SourceLocation where) {
  if (!Py_IsInitialized()) return;
  auto* code = static_cast<PyObject*>(where.code);
  if (!has_gil()) return deferred.drop(code);
  deferred.release_deferred();
  Py_DECREF(code);
}

}  // namespace

void init_source_tracing() {
  // The extension module lies in the package: <folder>/_C.so
  Object file(PyImport_GetModule(Object(PyUnicode_FromString("rushlight")).get()));
  Object path(file ? PyObject_GetAttrString(file.get(), "__file__") : nullptr);
  PyErr_Clear();
  if (path && PyUnicode_Check(path.get())) {
    std::string text = to_string(path.get());
    package_folder = text.substr(0, text.rfind('/') + 1);
  }
  source_tracer = {here, describe_location, forget_location, stack, work};
}

}  // namespace rl::bind
