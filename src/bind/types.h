// The small value types: dtype, device, layout, memory_format, Size, Generator, return_types.
#pragma once
#include "bind/python.h"

namespace rl::bind {

struct PyDType {
  PyObject_HEAD DType value;
};
extern PyTypeObject* dtype_type;
extern PyObject* dtype_objects[dtype_count];  // one object per dtype, compared by identity
inline bool is_dtype(PyObject* o) { return Py_TYPE(o) == dtype_type; }
bool is_dtype_like(PyObject* o);  // also float, int, bool and complex
DType to_dtype(PyObject* o);

extern PyTypeObject* device_type;
bool is_device_like(PyObject* o);  // also "cpu" and a number
Device to_device(PyObject* o);

extern PyTypeObject* size_type;
PyObject* wrap_size(IntSpan sizes);

bool is_layout(PyObject* o);
bool is_memory_format(PyObject* o);
MemoryFormat to_memory_format(PyObject* o);
PyObject* strided_layout();  // borrowed
PyObject* wrap(Layout layout);
Layout to_layout(PyObject* o);

bool is_generator(PyObject* o);
rl::Generator* to_generator(PyObject* o);

void init_dtype(PyObject* module);
void init_device(PyObject* module);
void init_size(PyObject* module);
void init_formats(PyObject* module);
void init_generator(PyObject* module);

// A heap type from slots; `name` is "rushlight.dtype".
PyTypeObject* make_type(PyObject* module, const char* name, int basicsize, unsigned flags,
                        PyType_Slot* slots, PyTypeObject* base = nullptr);

}  // namespace rl::bind
