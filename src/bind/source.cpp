// Where in the user's program an op was called: the innermost frame outside this package.
#include <string>
#include <unordered_map>

#include "bind/convert.h"
#include "bind/graph.h"
#include "core/trace.h"

#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#endif

namespace rl::bind {

namespace {

std::string package_folder;  // ends in a slash; files below it are not the user's

// Code objects of one module share the object of their file name, so this is asked once per module.
bool is_ours(PyCodeObject* code) {
  static std::unordered_map<PyObject*, bool> known;
  auto [at, fresh] = known.try_emplace(code->co_filename, false);
  if (fresh) {
    Py_INCREF(code->co_filename);  // keeps the address from being reused
    const char* name = PyUnicode_AsUTF8(code->co_filename);
    if (!name) PyErr_Clear();
    at->second = name && !package_folder.empty() &&
                 std::string(name).compare(0, package_folder.size(), package_folder) == 0;
  }
  return at->second;
}

int32_t instruction_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030b0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti * 2;  // counts units of two bytes
#endif
}

SourceLocation here() {
  if (!PyGILState_Check()) return {};  // the engine at work
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    PyFrameObject* outer = is_ours(code) ? PyFrame_GetBack(frame) : nullptr;
    if (!outer) {
      SourceLocation found{code, instruction_of(frame)};
      Py_DECREF(frame);
      return found;
    }
    Py_DECREF(code);
    Py_DECREF(frame);
    frame = outer;
  }
  return {};
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
  WithGil gil;
  Py_DECREF(static_cast<PyObject*>(where.code));
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
  source_tracer = {here, describe_location, forget_location};
}

}  // namespace rl::bind
