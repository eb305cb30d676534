#include <memory>

#include "bind/args.h"
#include "bind/convert.h"
#include "bind/types.h"
#include "core/device_placement.h"
#include "core/generator.h"
#include "dispatch/host_elements.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/runtime.h"

namespace rl::bind {

namespace {

struct PyGenerator {
  PyObject_HEAD Generator* generator;  // null: the default one
  bool owned;                          // false for the default ones
};

PyTypeObject* generator_type = nullptr;

// What keeps the calling thread's own generator alive.
thread_local PyObject* thread_generator = nullptr;

Generator& generator_of(PyObject* o) {
  Generator* generator = reinterpret_cast<PyGenerator*>(o)->generator;
  return generator ? *generator : default_generator();
}

PyObject* make(Generator* generator, bool owned, PyTypeObject* type = generator_type) {
  auto* o = reinterpret_cast<PyGenerator*>(type->tp_alloc(type, 0));
  if (!o) throw PythonError{};
  o->generator = generator;
  o->owned = owned;
  return reinterpret_cast<PyObject*>(o);
}
PyObject* make(std::unique_ptr<Generator> generator, PyTypeObject* type = generator_type) {
  PyObject* made = make(generator.get(), true, type);
  generator.release();
  return made;
}

std::unique_ptr<Generator> new_generator(Device device) {
  if (device.is_cpu()) return std::make_unique<Generator>();
  check(device.type == DeviceType::CUDA, "Device type ", name(device.type),
        " is not supported for torch.Generator() api.");
  return std::make_unique<cuda::PhiloxGenerator>(placed(device).index);
}
cuda::PhiloxGenerator& philox_of(PyObject* o, const char* method) {
  Generator& generator = generator_of(o);
  check(generator.device().type == DeviceType::CUDA, method, ": a generator of '",
        generator.device(), "' does not share its state; one of CUDA does");
  return static_cast<cuda::PhiloxGenerator&>(generator);
}

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"device", nullptr};
  PyObject* device = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names),
                                   &device))
    return nullptr;
  return guarded([&] {
    check_type(!device || is_device_like(device),
               "Generator(): argument 'device' must be torch.device, not ",
               type_name(device ? device : Py_None));
    return make(new_generator(device ? to_device(device) : Device{}), type);
  });
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* own = reinterpret_cast<PyGenerator*>(self);
  if (own->owned) delete own->generator;
  type->tp_free(self);
  Py_DECREF(type);
}

// Seeds lie in [-2^63, 2^64); a negative one counts back from 2^64, as torch has it.
uint64_t to_seed(PyObject* o) {
  check_type(
      PyLong_Check(o) || number_kind(o) == NumberKind::Int || number_kind(o) == NumberKind::Float,
      "manual_seed expected a long, but got ", type_name(o));
  Object whole = checked(PyNumber_Long(o));
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(whole.get(), &overflow);
  if (!overflow) return static_cast<uint64_t>(value);
  uint64_t large = overflow > 0 ? PyLong_AsUnsignedLongLong(whole.get()) : 0;
  bool fits = overflow > 0 && !PyErr_Occurred();
  PyErr_Clear();
  check_value(fits, "Overflow when unpacking long long: a seed must fit into 64 bits");
  return large;
}

PyObject* manual_seed(PyObject* self, PyObject* seed) {
  return guarded([&] {
    uint64_t value = to_seed(seed);
    std::lock_guard<std::mutex> lock(generator_of(self).mutex);
    generator_of(self).manual_seed(value);
    return Object::share(self).release();
  });
}

PyObject* seed(PyObject* self, PyObject*) {
  std::lock_guard<std::mutex> lock(generator_of(self).mutex);
  return PyLong_FromUnsignedLongLong(generator_of(self).seed());
}

PyObject* initial_seed(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(generator_of(self).initial_seed());
}

PyObject* get_state(PyObject* self, PyObject*) {
  return guarded([&] {
    std::lock_guard<std::mutex> lock(generator_of(self).mutex);
    std::vector<uint8_t> state = generator_of(self).get_state();
    const int64_t n = static_cast<int64_t>(state.size());
    Tensor t = empty(Dims{n}, {DType::UInt8, {}});
    std::copy(state.begin(), state.end(), t.data<uint8_t>());
    return wrap(std::move(t));
  });
}

PyObject* set_state(PyObject* self, PyObject* state) {
  return guarded([&] {
    check_type(is_tensor(state), "expected a torch.ByteTensor, but got ", type_name(state));
    const Tensor t = on_host(tensor_of(state));
    check_type(t.dtype() == DType::UInt8 && !t.is_meta(), "RNG state must be a torch.ByteTensor");
    check(t.is_contiguous(), "RNG state must be contiguous");
    std::lock_guard<std::mutex> lock(generator_of(self).mutex);
    generator_of(self).set_state(t.data<uint8_t>(), t.numel());
    return Object::share(self).release();
  });
}

PyObject* clone_state(PyObject* self, PyObject*) {
  return guarded([&] {
    std::lock_guard<std::mutex> lock(generator_of(self).mutex);
    return make(generator_of(self).clone());
  });
}

PyObject* graphsafe_get_state(PyObject* self, PyObject*) {
  return guarded([&] {
    cuda::PhiloxGenerator& own = philox_of(self, "graphsafe_get_state");
    return make(std::make_unique<cuda::PhiloxGenerator>(own.device().index, own.state()));
  });
}

PyObject* graphsafe_set_state(PyObject* self, PyObject* other) {
  return guarded([&] {
    check_type(is_generator(other), "graphsafe_set_state: expected a Generator, got ",
               type_name(other));
    cuda::PhiloxGenerator &own = philox_of(self, "graphsafe_set_state"),
                          &given = philox_of(other, "graphsafe_set_state");
    check(own.device() == given.device(), "graphsafe_set_state: expected a generator of '",
          own.device(), "', got one of '", given.device(), "'");
    own.share(given.state());
    return Object::share(self).release();
  });
}

PyObject* get_device(PyObject* self, void*) {
  return guarded([&] { return wrap(generator_of(self).device()); });
}

// Pickles as a new generator and (seed, None, state) to give it, as in torch.
PyObject* reduce(PyObject* self, PyObject*) {
  Object state(get_state(self, nullptr)), device(get_device(self, nullptr)),
      seed(initial_seed(self, nullptr));
  if (!state || !device || !seed) return nullptr;
  return Py_BuildValue("O(N)(NON)", Py_TYPE(self), device.release(), seed.release(), Py_None,
                       state.release());
}

PyObject* restore(PyObject* self, PyObject* pickled) {
  return guarded([&] {
    check_type(PyTuple_Check(pickled) && PyTuple_GET_SIZE(pickled) == 3,
               "Generator: expected (seed, offset, state), got ", type_name(pickled));
    return set_state(self, PyTuple_GET_ITEM(pickled, 2));
  });
}

// (index): the generator from which the kernels of a GPU draw.
PyObject* default_of_cuda(PyObject*, PyObject* index) {
  return guarded([&] {
    long device = PyLong_AsLong(index);
    if (PyErr_Occurred()) throw PythonError{};
    cuda::properties(static_cast<int>(device));  // checks it
    return make(&cuda::default_philox(static_cast<int>(device)), false);
  });
}

PyObject* set_for_thread(PyObject*, PyObject* o) {
  return guarded([&] {
    check_type(o == Py_None || is_generator(o), "_set_thread_generator: expected a Generator, got ",
               type_name(o));
    PyObject* before = thread_generator;
    thread_generator = o == Py_None ? nullptr : Object::share(o).release();
    set_thread_generator(
        thread_generator ? reinterpret_cast<PyGenerator*>(thread_generator)->generator : nullptr);
    Py_XDECREF(before);
    return Object::share(Py_None).release();
  });
}

PyMethodDef functions[] = {
    {"_set_thread_generator", set_for_thread, METH_O,
     "_set_thread_generator(generator)\n--\n\nMakes a generator the default one of the calling "
     "thread; None takes it away."},
    {"_default_cuda_generator", default_of_cuda, METH_O,
     "_default_cuda_generator(index)\n--\n\nThe generator from which the kernels of a GPU draw."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef attributes[] = {{"device", get_device, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O,
     "manual_seed($self, seed)\n--\n\nStarts the sequence of this seed."},
    {"seed", seed, METH_NOARGS,
     "seed($self)\n--\n\nStarts a sequence that nobody can predict and returns its seed."},
    {"initial_seed", initial_seed, METH_NOARGS,
     "initial_seed($self)\n--\n\nThe seed the sequence started from."},
    {"get_state", get_state, METH_NOARGS,
     "get_state($self)\n--\n\nThe state as a tensor of bytes."},
    {"set_state", set_state, METH_O, "set_state($self, state)\n--\n\nContinues from a state."},
    {"__setstate__", restore, METH_O, nullptr},
    {"clone_state", clone_state, METH_NOARGS,
     "clone_state($self)\n--\n\nAnother generator in the same state."},
    {"graphsafe_get_state", graphsafe_get_state, METH_NOARGS,
     "graphsafe_get_state($self)\n--\n\nA generator with this one's state, which both go on to "
     "share."},
    {"graphsafe_set_state", graphsafe_set_state, METH_O,
     "graphsafe_set_state($self, state)\n--\n\nShares the state of another generator from now "
     "on."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool is_generator(PyObject* o) { return PyObject_TypeCheck(o, generator_type); }
rl::Generator* to_generator(PyObject* o) { return &generator_of(o); }

void init_generator(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(construct)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_getset, attributes},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  generator_type = make_type(module, "rushlight.Generator", sizeof(PyGenerator),
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots);
  Object standard = checked(make(nullptr, false));
  checked(PyModule_AddFunctions(module, functions));
  checked(PyModule_AddObjectRef(module, "default_generator", standard.get()));
}

}  // namespace rl::bind
