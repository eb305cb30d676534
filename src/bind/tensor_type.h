// The Tensor type: how its objects live and die.
#pragma once
#include "bind/object.h"
#include "bind/python.h"

namespace rl::bind {

class Registry;

extern PyTypeObject* tensor_base_type;  // static; holds the slots, methods and attributes
extern PyTypeObject* tensor_meta_type;  // the class of Tensor and of all its subclasses

// A new object of `type`, a Tensor or a subclass, for an impl that has none.
PyObject* wrap_as(PyTypeObject* type, Tensor t);

// What repr() gives, by whoever takes that over.
PyObject* tensor_repr(PyObject* self);

// Fill in parts of the static type before it is made ready.
void add_number_slots(PyTypeObject& type);
void add_index_slots(PyTypeObject& type);
PyGetSetDef* tensor_attributes();
PyMethodDef* tensor_methods();
void init_tensor_type(PyObject* module);
void register_tensor_methods(Registry& registry);

// Once, of a number that is taken from a tensor with a gradient to follow.
void warn_of_lost_gradient(const Tensor& t);

// Tensor(...): the constructor that predates torch.tensor.
Tensor construct_legacy(PyObject* args, PyObject* kwargs);
// A view of all elements; gradients pass through it.
Tensor view_of_all(const Tensor& t);

}  // namespace rl::bind
