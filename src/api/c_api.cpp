#include "api/c_api.h"

#include <cstring>

#include "api/rushlight.h"
#include "core/generator.h"
#include "core/parallel.h"
#include "program/model.h"
#include "program/operation.h"

struct rl_tensor {
  rl::Tensor value;
};
struct rl_model {
  rl::program::Model value;
};

namespace {

using rl::Tensor;
using rl::program::Value;
using rl::program::ValueList;

thread_local std::string last_error;

// Runs f; what it throws becomes the error of the thread.
template <class F> int guarded(F&& f) {
  try {
    rushlight::initialize();
    f();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "an unknown error";
  }
  return -1;
}

const Tensor& of(const rl_tensor* t, const char* what) {
  rl::check_value(t != nullptr, what, ": a tensor is NULL");
  return t->value;
}

rl_tensor* handle(Tensor t) { return new rl_tensor{std::move(t)}; }

Value value_of(const rl_value& v, const char* what) {
  const bool is_list = v.kind >= RL_INT_LIST;
  rl::check_value(!is_list || v.count == 0 || (v.count > 0 && v.as.integers), what, ": a list of ",
                  v.count, " elements at NULL");
  ValueList list;
  switch (v.kind) {
    case RL_NONE: return Value();
    case RL_TENSOR: return Value(of(v.as.tensor, what));
    case RL_BOOL: return Value(v.as.boolean != 0);
    case RL_INT: return Value(v.as.integer);
    case RL_FLOAT: return Value(v.as.real);
    case RL_STRING:
      rl::check_value(v.as.string != nullptr, what, ": a string is NULL");
      return Value(std::string(v.as.string));
    case RL_DTYPE:
      rl::check_value(v.as.dtype >= 0 && v.as.dtype < rl::dtype_count, what, ": dtype ",
                      static_cast<int>(v.as.dtype));
      return Value(static_cast<rl::DType>(v.as.dtype));
    case RL_INT_LIST:
      for (int64_t i = 0; i < v.count; ++i) list.push_back(Value(v.as.integers[i]));
      return Value(std::move(list));
    case RL_FLOAT_LIST:
      for (int64_t i = 0; i < v.count; ++i) list.push_back(Value(v.as.reals[i]));
      return Value(std::move(list));
    case RL_TENSOR_LIST:
      for (int64_t i = 0; i < v.count; ++i) list.push_back(Value(of(v.as.tensors[i], what)));
      return Value(std::move(list));
  }
  rl::fail(rl::ErrorKind::Value, what, ": a value of kind ", static_cast<int>(v.kind));
}

void give(const ValueList& values, rl_tensor** results, int64_t capacity, int64_t* count,
          const char* what) {
  const int64_t found = values.size();
  rl::check_value(count && (results || found == 0) && found <= capacity, what, ": has ", found,
                  " results, and room for ", capacity);
  for (const Value& v : values)
    rl::check_type(v.is_tensor() || v.is_none(), what, ": a result is a ", v.type_name());
  for (int64_t i = 0; i < found; ++i)
    results[i] = values[i].is_none() ? nullptr : handle(*values[i].get<Tensor>());
  *count = found;
}

}  // namespace

int rl_abi_version(void) { return RL_C_ABI_VERSION; }
const char* rl_version(void) { return RUSHLIGHT_VERSION; }
const char* rl_last_error(void) { return last_error.c_str(); }

int rl_manual_seed(uint64_t seed) {
  return guarded([&] { rushlight::manual_seed(seed); });
}
int rl_set_num_threads(int threads) {
  return guarded([&] {
    rl::check_value(threads > 0, "set_num_threads: expected a positive number, got ", threads);
    rl::set_num_threads(threads);
  });
}

int rl_tensor_new(const void* data, rl_dtype dtype, const int64_t* sizes, int64_t ndim,
                  rl_tensor** result) {
  return guarded([&] {
    rl::check_value(result && ndim >= 0 && (sizes || ndim == 0), "rl_tensor_new: bad arguments");
    rl::check_value(dtype >= 0 && dtype < rl::dtype_count, "rl_tensor_new: dtype ",
                    static_cast<int>(dtype));
    rl::Dims dims;
    for (int64_t d = 0; d < ndim; ++d) {
      rl::check_value(sizes[d] >= 0, "rl_tensor_new: size ", sizes[d]);
      dims.push_back(sizes[d]);
    }
    Tensor t = rl::empty(dims, {static_cast<rl::DType>(dtype), rl::Device{}});
    const size_t bytes = t.numel() * rl::itemsize(t.dtype());
    if (bytes && data) std::memcpy(t.view().data, data, bytes);
    else if (bytes) std::memset(t.view().data, 0, bytes);
    *result = handle(std::move(t));
  });
}
void rl_tensor_free(rl_tensor* t) { delete t; }
rl_dtype rl_tensor_dtype(const rl_tensor* t) { return static_cast<rl_dtype>(t->value.dtype()); }
int64_t rl_tensor_ndim(const rl_tensor* t) { return t->value.dim(); }
int64_t rl_tensor_numel(const rl_tensor* t) { return t->value.numel(); }
int64_t rl_tensor_size(const rl_tensor* t, int64_t dim) {
  return dim < 0 || dim >= t->value.dim() ? -1 : t->value.sizes()[dim];
}
int rl_tensor_read(const rl_tensor* t, void* data, int64_t bytes) {
  return guarded([&] {
    rl::NoGradGuard guard;
    const Tensor plain = rl::ops::contiguous(of(t, "rl_tensor_read"));
    const int64_t needed = plain.numel() * rl::itemsize(plain.dtype());
    rl::check_value(bytes == needed && (data || !bytes), "rl_tensor_read: the elements take ",
                    needed, " bytes, not ", bytes);
    if (bytes) std::memcpy(data, plain.view().data, bytes);
  });
}
int rl_tensor_item(const rl_tensor* t, double* value) {
  return guarded([&] {
    const Tensor& x = of(t, "rl_tensor_item");
    rl::check_value(x.numel() == 1 && !x.is_complex(), "rl_tensor_item: needs one real element");
    *value = rl::item<double>(x);
  });
}

int rl_tensor_set_requires_grad(rl_tensor* t, int requires_grad) {
  return guarded([&] { rushlight::set_requires_grad(of(t, "requires_grad"), requires_grad != 0); });
}
int rl_tensor_grad(const rl_tensor* t, rl_tensor** result) {
  return guarded([&] {
    Tensor grad = rushlight::grad(of(t, "rl_tensor_grad"));
    *result = grad.defined() ? handle(std::move(grad)) : nullptr;
  });
}
int rl_tensor_zero_grad(rl_tensor* t) {
  return guarded([&] { rushlight::zero_grad(of(t, "rl_tensor_zero_grad")); });
}
int rl_backward(const rl_tensor* loss) {
  return guarded([&] { rushlight::backward(of(loss, "rl_backward")); });
}
int rl_set_grad_enabled(int enabled) {
  const int before = !(rl::mode() & rl::NoGrad);
  rl::mode() = enabled ? rl::mode() & ~rl::NoGrad : rl::mode() | rl::NoGrad;
  return before;
}

int rl_call(const char* operation, const rl_value* arguments, int64_t argument_count,
            const char* const* names, rl_tensor** results, int64_t capacity, int64_t* count) {
  return guarded([&] {
    rl::check_value(operation && (arguments || argument_count == 0), "rl_call: bad arguments");
    const rl::program::Operation* found = rl::program::find_operation(operation);
    rl::check_value(found, "rl_call: there is no operation '", operation, "'");
    ValueList positional;
    std::vector<std::pair<std::string, Value>> named;
    for (int64_t i = 0; i < argument_count; ++i) {
      Value value = value_of(arguments[i], operation);
      if (names && names[i]) {
        named.emplace_back(names[i], std::move(value));
      } else {
        rl::check_value(named.empty(), operation,
                        ": an argument without a name follows named ones");
        positional.push_back(std::move(value));
      }
    }
    Value result = found->call(positional, named);
    if (result.is_none()) return give({}, results, capacity, count, operation);
    if (const ValueList* list = result.get<ValueList>())
      return give(*list, results, capacity, count, operation);
    give({result}, results, capacity, count, operation);
  });
}
const char* rl_operation_name(int64_t i) {
  const int64_t known = rl::program::operations_end() - rl::program::operations_begin();
  return i < 0 || i >= known ? nullptr : rl::program::operations_begin()[i].key;
}

int rl_model_load(const char* path, rl_model** result) {
  return guarded([&] {
    rl::check_value(path && result, "rl_model_load: bad arguments");
    *result = new rl_model{rl::program::Model::load(path)};
  });
}
void rl_model_free(rl_model* model) { delete model; }
int64_t rl_model_input_count(const rl_model* model) { return model->value.inputs().size(); }
int64_t rl_model_output_count(const rl_model* model) { return model->value.output_count(); }
int rl_model_run(const rl_model* model, rl_tensor* const* inputs, int64_t input_count,
                 rl_tensor** results, int64_t capacity, int64_t* count) {
  return guarded([&] {
    rl::check_value(model && (inputs || input_count == 0), "rl_model_run: bad arguments");
    ValueList values;
    for (int64_t i = 0; i < input_count; ++i)
      values.push_back(Value(of(inputs[i], "rl_model_run")));
    give(model->value.run(values), results, capacity, count, "rl_model_run");
  });
}
