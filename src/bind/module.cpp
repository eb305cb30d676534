// rushlight._C
#include "bind/convert.h"
#include "bind/cuda.h"
#include "bind/errors.h"
#include "bind/factory.h"
#include "bind/function_type.h"
#include "bind/gradient_batch.h"
#include "bind/graph.h"
#include "bind/modes.h"
#include "bind/nn_module_type.h"
#include "bind/profiler.h"
#include "bind/registry.h"
#include "bind/sparse.h"
#include "bind/storage_type.h"
#include "bind/tensor_type.h"
#include "bind/torch_function.h"
#include "bind/types.h"
#include "dispatch/install.h"

namespace rl::bind {

void register_all(Registry& registry);  // generated

namespace {

// Types and constants that appear under the same name in rushlight: a dict of its own, with which
// the package fills its namespace.
void init_types(PyObject* module) {
  Object before = checked(PyDict_Copy(PyModule_GetDict(module)));
  init_errors(module);
  init_dtype(module);
  init_device(module);
  init_size(module);
  init_formats(module);
  init_generator(module);
  init_storage_type(module);
  init_tensor_type(module);
  init_nn_module_type(module);
  Object types = checked(PyDict_Copy(PyModule_GetDict(module)));
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(before.get(), &at, &name, &value);)
    checked(PyDict_DelItem(types.get(), name));
  for (const char* internal : {"_TensorBase", "_TensorMeta", "_tensor_on_storage", "_without_base"})
    checked(PyDict_DelItemString(types.get(), internal));
  Object disabled = checked(PyObject_GetAttrString(module, "_disabled_torch_function_impl"));
  checked(PyDict_SetItemString(types.get(), "_disabled_torch_function_impl", disabled.get()));
  checked(PyModule_AddObjectRef(module, "_types", types.get()));
}

void init_module(PyObject* module) {
  use_the_gil();
  Object functions = checked(PyDict_New()), own = checked(PyDict_New());
  checked(PyDict_SetItemString(functions.get(), "", own.get()));
  checked(PyModule_AddObjectRef(module, "_functions", functions.get()));
  init_torch_function(module);
  init_function_type(module);
  init_types(module);
  init_exchange(module);
  init_modes(module, own.get());
  init_node_type(module);
  init_saved_hooks(module);
  init_backward(module);
  init_gradient_batch(module);
  init_optimizer(module);
  init_source_tracing();
  init_profiler(module);
  install_ops();
  init_sparse(module);
  init_cuda(module);
  Registry registry(module);
  register_tensor_methods(registry);
  register_factory(registry);
  register_exchange(registry);
  register_backward(registry);
  register_all(registry);
  PyType_Modified(tensor_base_type);
}

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "rushlight._C",
                          "The native half of rushlight.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

}  // namespace rl::bind

PyMODINIT_FUNC PyInit__C() {
  using namespace rl::bind;
  return guarded([]() -> PyObject* {
    Object module = checked(PyModule_Create(&definition));
#ifdef Py_GIL_DISABLED
    checked(PyUnstable_Module_SetGIL(module.get(), Py_MOD_GIL_NOT_USED));
#endif
    init_module(module.get());
    return module.release();
  });
}
