// Lists and named tuples of tensors as results.
#include <deque>
#include <string>
#include <vector>

#include "bind/convert.h"

namespace rl::bind {

namespace {

// torch.return_types.max(
// values=tensor(3.),
// indices=tensor(2))
PyObject* repr(PyObject* self) {
  return guarded([&]() -> PyObject* {
    Object fields = checked(PyObject_GetAttrString(self, "__match_args__"));
    std::string text = std::string(Py_TYPE(self)->tp_name) + "(";
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
      Object shown = checked(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
      text += (i ? ",\n" : "\n") + to_string(PyTuple_GET_ITEM(fields.get(), i)) + "=" +
              to_string(shown.get());
    }
    return PyUnicode_FromString((text + ")").c_str());
  });
}

// Names and field tables are kept: a struct sequence type points into them.
struct Description {
  std::string name;
  std::vector<PyStructSequence_Field> fields;
};

}  // namespace

PyTypeObject* make_return_type(const char* name, const char* const* fields, int count) {
  static auto& descriptions = *new std::deque<Description>;
  Description& d = descriptions.emplace_back();
  d.name = std::string("torch.return_types.") + name;
  for (int i = 0; i < count; ++i) d.fields.push_back({fields[i], nullptr});
  d.fields.push_back({nullptr, nullptr});
  PyStructSequence_Desc desc = {d.name.c_str(), nullptr, d.fields.data(), count};
  PyTypeObject* type = PyStructSequence_NewType(&desc);
  if (!type) throw PythonError{};
  type->tp_repr = repr;
  return type;
}

PyObject* wrap_named(PyTypeObject* type, std::initializer_list<Tensor> values) {
  Object made = checked(type ? PyStructSequence_New(type)
                             : PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  Py_ssize_t at = 0;  // a struct sequence is a tuple too
  for (const Tensor& t : values) PyTuple_SET_ITEM(made.get(), at++, wrap(t));
  return made.release();
}

PyObject* wrap(const TensorList& list) {
  Object made = checked(PyTuple_New(static_cast<Py_ssize_t>(list.size())));
  for (size_t i = 0; i < list.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), wrap(list[i]));
  return made.release();
}

}  // namespace rl::bind
