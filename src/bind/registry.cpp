#include "bind/registry.h"

#include <deque>
#include <string>
#include <string_view>

#include "bind/convert.h"
#include "bind/function_type.h"
#include "bind/tensor_type.h"

namespace rl::bind {

namespace {

// Python keeps pointers to the definitions for as long as the process lives.
PyMethodDef* keep_definition(const char* name, FastFunction fn, const char* doc) {
  static auto& definitions = *new std::deque<PyMethodDef>;
  auto erased = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fn));
  definitions.push_back({name, erased, METH_FASTCALL | METH_KEYWORDS, doc});
  return &definitions.back();
}

}  // namespace

void Registry::method(const char* name, FastFunction fn, const char* doc) {
  Object descriptor = checked(PyDescr_NewMethod(tensor_base_type, keep_definition(name, fn, doc)));
  checked(PyDict_SetItemString(tensor_base_type->tp_dict, name, descriptor.get()));
}

PyObject* Registry::namespace_of(const char* module) {
  Object all = checked(PyObject_GetAttrString(module_, "_functions"));
  if (PyObject* found = find_item(all.get(), module)) return found;
  Object fresh = checked(PyDict_New());
  checked(PyDict_SetItemString(all.get(), module, fresh.get()));
  return fresh.get();
}

namespace {

// Those that torch writes in Python: programs mark them, and torch's own do.
bool takes_attributes(std::string_view module, std::string_view name) {
  return module == "nn.functional" ||
         (module.empty() && (name == "cdist" || name == "from_dlpack"));
}

}  // namespace

void Registry::function(const char* module, const char* name, FastFunction fn, const char* doc) {
  PyObject* target = namespace_of(module);
  std::string path = *module ? std::string("rushlight.") + module : "rushlight";
  if (takes_attributes(module, name)) {
    Object made = checked(make_function(name, path.c_str(), fn, doc));
    checked(PyDict_SetItemString(target, name, made.get()));
    return;
  }
  Object module_name = checked(PyUnicode_InternFromString(path.c_str()));
  // Without a self the function pickles by module and name, and `parse` sees no first argument.
  Object made =
      checked(PyCFunction_NewEx(keep_definition(name, fn, doc), nullptr, module_name.get()));
  checked(PyDict_SetItemString(target, name, made.get()));
}

}  // namespace rl::bind
