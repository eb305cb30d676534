// ThreadStack: Python objects that a thread has put on each other, such as modes. It is made of
// pairs (top, pairs below), so that to take one away, or to go back to an earlier state, takes no
// memory: whoever leaves a scope can do it.
#pragma once
#include "bind/convert.h"
#include "bind/object.h"

namespace rl::bind {

// What Python keeps for this thread; borrowed.
inline PyObject* thread_dict() {
  PyObject* dict = PyThreadState_GetDict();
  if (dict) return dict;
  PyErr_NoMemory();
  throw PythonError{};
}

class ThreadStack {
 public:
  constexpr explicit ThreadStack(const char* name) : name_(name) {}
  void init() { key_ = checked(PyUnicode_InternFromString(name_)).release(); }

  // Its pairs, or null; borrowed.
  PyObject* pairs() const {
    PyObject* found = PyDict_GetItemWithError(thread_dict(), key_);
    return found == Py_None ? nullptr : found;
  }
  void set(PyObject* pairs) const {
    if (PyDict_SetItem(thread_dict(), key_, pairs ? pairs : Py_None) < 0) throw PythonError{};
  }
  void push(PyObject* o) const {
    PyObject* below = pairs();
    set(checked(PyTuple_Pack(2, o, below ? below : Py_None)).get());
  }
  // Null where it is empty; borrowed.
  PyObject* top() const {
    PyObject* all = pairs();
    return all ? PyTuple_GET_ITEM(all, 0) : nullptr;
  }
  Object pop() const {  // of one that is not empty
    Object all = Object::share(pairs());
    set(below(all.get()));
    return Object::share(PyTuple_GET_ITEM(all.get(), 0));
  }
  Object as_list() const {  // the first that was pushed is first
    Object list = checked(PyList_New(0));
    for (PyObject* all = pairs(); all; all = below(all))
      checked(PyList_Append(list.get(), PyTuple_GET_ITEM(all, 0)));
    checked(PyList_Reverse(list.get()));
    return list;
  }

  // None at the end is told by null.
  static PyObject* below(PyObject* pairs) {
    PyObject* rest = PyTuple_GET_ITEM(pairs, 1);
    return rest == Py_None ? nullptr : rest;
  }

 private:
  const char* const name_;
  PyObject* key_ = nullptr;
};

}  // namespace rl::bind
