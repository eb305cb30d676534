// libcudnn.so.9 of the simulator: convolutions of the backend's graphs as work of the simulated streams.
//
// Stricter than NVIDIA's: each attribute must be of its descriptor and its type, be set before the
// descriptor is finalized, and what a descriptor is made of must be finalized before. Two engines are
// recommended: one that says so rounds operands of float32 to eleven bits, the other does not.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/number.h"
#include "kernels/cuda/api.h"
#include "tf32.h"

namespace rl::cuda {
struct cudnnContext {
  CUstream stream = nullptr;
};
}  // namespace rl::cuda

extern "C" int cuLaunchHostFunc(rl::cuda::CUstream, void (*)(void*), void*);

namespace {
using namespace rl::cuda;
enum : int { Success = 0, BadParameter = 2000, NotSupported = 3000 };
constexpr int64_t workspace_bytes = 4096;

thread_local std::string last_error;
int refuse(const std::string& why) {
  last_error = why;
  return BadParameter;
}

struct Value {
  int type = 0;
  int64_t count = 0;
  std::vector<char> bytes;
};
struct Descriptor {
  int type = 0;
  bool final = false;
  std::map<int, Value> values;
  int engine = -1;  // of configurations, engines and plans
  const Descriptor* graph = nullptr;

  const int64_t* numbers(int name) const {
    return reinterpret_cast<const int64_t*>(values.at(name).bytes.data());
  }
  int kind(int name) const { return *reinterpret_cast<const int*>(values.at(name).bytes.data()); }
  const Descriptor* part(int name) const {
    return *reinterpret_cast<Descriptor* const*>(values.at(name).bytes.data());
  }
};

size_t size_of(int type) {
  switch (type) {
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_NUMERICAL_NOTE:
    case CUDNN_TYPE_FLOAT: return 4;
    default: return 8;
  }
}

// The attributes that each type of descriptor needs, and their types; scalars are float or double.
constexpr int scalar_type = -1;
const std::map<int, std::map<int, int>>& needed() {
  static const std::map<int, std::map<int, int>> table = {
      {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
       {{CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64}}},
      {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
       {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE},
        {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64}}},
      {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE},
        {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR}}},
      {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
       {{CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE}}},
      {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
       {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE},
        {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR}}},
      {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
       {{CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR},
        {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR}}},
#define OPERATION(type, kind, x, y, w)                                                        \
  {type,                                                                                      \
   {{CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_ALPHA, scalar_type},                           \
    {CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_BETA, scalar_type},                            \
    {CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},     \
    {CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##x, CUDNN_TYPE_BACKEND_DESCRIPTOR},           \
    {CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##y, CUDNN_TYPE_BACKEND_DESCRIPTOR},           \
    {CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##w, CUDNN_TYPE_BACKEND_DESCRIPTOR}}}
      OPERATION(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, FORWARD, X, Y, W),
      OPERATION(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, BWD_DATA, DX, DY, W),
      OPERATION(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, BWD_FILTER, X, DY,
                DW),
#undef OPERATION
  };
  return table;
}

// ---- a convolution: the weight takes images x to positions y

struct Array {
  int dtype;
  std::vector<int64_t> sizes, strides;
  char* data;

  Array(const Descriptor& d, void* memory)
      : dtype(d.kind(CUDNN_ATTR_TENSOR_DATA_TYPE)), data(static_cast<char*>(memory)) {
    int64_t n = d.values.at(CUDNN_ATTR_TENSOR_DIMENSIONS).count;
    sizes.assign(d.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS),
                 d.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS) + n);
    strides.assign(d.numbers(CUDNN_ATTR_TENSOR_STRIDES), d.numbers(CUDNN_ATTR_TENSOR_STRIDES) + n);
    while (sizes.size() < 5) {
      sizes.insert(sizes.begin() + 2, 1);
      strides.insert(strides.begin() + 2, 0);
    }
  }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
  int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (size_t d = sizes.size(); d-- > 0; i /= sizes[d]) at += i % sizes[d] * strides[d];
    return at;
  }
  double load(int64_t i) const {
    int64_t at = offset(i);
    switch (dtype) {
      case CUDNN_DATA_HALF: return static_cast<float>(reinterpret_cast<rl::half*>(data)[at]);
      case CUDNN_DATA_BFLOAT16:
        return static_cast<float>(reinterpret_cast<rl::bfloat16*>(data)[at]);
      case CUDNN_DATA_FLOAT: return reinterpret_cast<float*>(data)[at];
      default: return reinterpret_cast<double*>(data)[at];
    }
  }
  void store(int64_t i, double v) const {
    int64_t at = offset(i);
    auto narrow = static_cast<float>(v);
    switch (dtype) {
      case CUDNN_DATA_HALF: reinterpret_cast<rl::half*>(data)[at] = rl::half(narrow); break;
      case CUDNN_DATA_BFLOAT16:
        reinterpret_cast<rl::bfloat16*>(data)[at] = rl::bfloat16(narrow);
        break;
      case CUDNN_DATA_FLOAT: reinterpret_cast<float*>(data)[at] = narrow; break;
      default: reinterpret_cast<double*>(data)[at] = v;
    }
  }
};

struct Work {
  Array x, y, w;
  int operation;
  bool rounds;
  void* workspace;
  int64_t padding[3] = {0, 0, 0}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};

  std::vector<double> read(const Array& a) const {
    std::vector<double> values(static_cast<size_t>(a.numel()));
    for (size_t i = 0; i < values.size(); ++i) {
      double v = a.load(static_cast<int64_t>(i));
      values[i] = rounds && a.dtype == CUDNN_DATA_FLOAT ? to_tf32(static_cast<float>(v)) : v;
    }
    return values;
  }
  void run() const {
    std::memset(workspace, 0xff, workspace_bytes);
    bool of_x = operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    bool of_w = operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
    const Array& to = of_x ? x : of_w ? w : y;
    std::vector<double> xs, ys, ws, sums(static_cast<size_t>(to.numel()));
    if (!of_x) xs = read(x);
    if (of_x || of_w) ys = read(y);
    if (!of_w) ws = read(w);
    int64_t each = w.sizes[1], outputs = w.sizes[0], groups = x.sizes[1] / each;
    int64_t taps = w.sizes[2] * w.sizes[3] * w.sizes[4], in = x.sizes[2] * x.sizes[3] * x.sizes[4],
            out = y.sizes[2] * y.sizes[3] * y.sizes[4];
    for (int64_t n = 0; n < x.sizes[0]; ++n)
      for (int64_t o = 0; o < outputs; ++o)
        for (int64_t p = 0; p < out; ++p)
          for (int64_t t = 0; t < taps; ++t) {
            int64_t at = place(p, t);
            if (at < 0) continue;
            for (int64_t c = 0; c < each; ++c) {
              auto i = static_cast<size_t>(
                  (n * x.sizes[1] + o / (outputs / groups) * each + c) * in + at);
              auto j = static_cast<size_t>((n * outputs + o) * out + p);
              auto k = static_cast<size_t>((o * each + c) * taps + t);
              if (of_x) sums[i] += ys[j] * ws[k];
              else if (of_w) sums[k] += ys[j] * xs[i];
              else sums[j] += xs[i] * ws[k];
            }
          }
    for (int64_t i = 0; i < to.numel(); ++i) to.store(i, sums[static_cast<size_t>(i)]);
  }
  // Where position p has tap t in the image, or -1.
  int64_t place(int64_t p, int64_t t) const {
    int64_t at = 0, scale = 1;
    for (int d = 2; d >= 0; --d) {
      auto s = static_cast<size_t>(2 + d);
      int64_t i = p % y.sizes[s] * stride[d] - padding[d] + t % w.sizes[s] * dilation[d];
      if (i < 0 || i >= x.sizes[s]) return -1;
      at += i * scale;
      scale *= x.sizes[s];
      p /= y.sizes[s];
      t /= w.sizes[s];
    }
    return at;
  }
};

Descriptor* of(void* handle) { return static_cast<Descriptor*>(handle); }
}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED size_t cudnnGetVersion() { return 90000; }
EXPORTED const char* cudnnGetErrorString(int status) {
  return status == Success ? "success" : status == NotSupported ? "not supported" : "bad parameter";
}
EXPORTED void cudnnGetLastErrorString(char* text, size_t size) {
  std::snprintf(text, size, "%s", last_error.c_str());
}
EXPORTED int cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return Success;
}
EXPORTED int cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
  handle->stream = stream;
  return Success;
}
EXPORTED int cudnnBackendCreateDescriptor(int type, void** made) {
  auto* d = new Descriptor;
  d->type = type;
  *made = d;
  return Success;
}
EXPORTED int cudnnBackendDestroyDescriptor(void* handle) {
  delete of(handle);
  return Success;
}
EXPORTED int cudnnBackendSetAttribute(void* handle, int name, int type, int64_t count,
                                      const void* values) {
  Descriptor* d = of(handle);
  if (d->final) return refuse("the descriptor is finalized");
  auto table = needed().find(d->type);
  if (table == needed().end()) return refuse("a descriptor of this type has no attributes to set");
  auto wanted = table->second.find(name);
  if (wanted == table->second.end()) return refuse("an attribute of another descriptor");
  bool scalar = wanted->second == scalar_type &&
                (type == CUDNN_TYPE_FLOAT || type == CUDNN_TYPE_DOUBLE);
  if (!scalar && wanted->second != type) return refuse("an attribute of another type");
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (int64_t i = 0; i < count; ++i)
      if (!static_cast<Descriptor* const*>(values)[i]->final)
        return refuse("a part is not finalized");
  auto* bytes = static_cast<const char*>(values);
  d->values[name] = {type, count, {bytes, bytes + static_cast<size_t>(count) * size_of(type)}};
  return Success;
}
EXPORTED int cudnnBackendFinalize(void* handle) {
  Descriptor* d = of(handle);
  if (d->final) return refuse("the descriptor is finalized");
  for (auto& [name, type] : needed().at(d->type))
    if (!d->values.count(name)) return refuse("attribute " + std::to_string(name) + " is missing");
  if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR &&
      d->values[CUDNN_ATTR_TENSOR_DIMENSIONS].count < 4)
    return refuse("a tensor of less than 4 dims");
  if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
    d->graph = d->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const Descriptor* config = d->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    d->engine = config->engine;
    d->graph = config->graph;
  }
  d->final = true;
  return Success;
}
EXPORTED int cudnnBackendGetAttribute(void* handle, int name, int type, int64_t wanted,
                                      int64_t* count, void* values) {
  Descriptor* d = of(handle);
  if (!d->final) return refuse("the descriptor is not finalized");
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    *count = 2;
    for (int64_t i = 0; i < wanted && i < 2; ++i) {
      Descriptor* config = static_cast<Descriptor**>(values)[i];
      if (config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || config->final)
        return refuse("results are new engine configurations");
      config->engine = static_cast<int>(i);
      config->graph = d->graph;
      config->final = true;
    }
    return Success;
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR && wanted == 1) {
    Descriptor* engine = *static_cast<Descriptor**>(values);
    if (engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR) return refuse("the result is an engine");
    engine->engine = d->engine;
    engine->final = true;
    *count = 1;
    return Success;
  }
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE) {
    *count = 1;
    *static_cast<int*>(values) = d->engine == 0 ? int(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
                                                : int(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    return Success;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
    *count = 1;
    *static_cast<int64_t*>(values) = workspace_bytes;
    return Success;
  }
  return refuse("an attribute that nobody asks for");
}
EXPORTED int cudnnBackendExecute(cudnnHandle_t handle, void* plan_handle, void* pack_handle) {
  const Descriptor *plan = of(plan_handle), *pack = of(pack_handle);
  if (!plan->final || !pack->final) return refuse("a plan or pack is not finalized");
  const Descriptor* o = plan->graph->part(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  auto* workspace = *reinterpret_cast<void* const*>(
      pack->values.at(CUDNN_ATTR_VARIANT_PACK_WORKSPACE).bytes.data());
  if (!workspace) return refuse("no workspace");
  auto pointers = reinterpret_cast<void* const*>(
      pack->values.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).bytes.data());
  const int64_t* ids = pack->numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  int64_t n = pack->values.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count;
  auto array = [&](const Descriptor* d) {
    void* data = nullptr;
    for (int64_t i = 0; i < n; ++i)
      if (ids[i] == *d->numbers(CUDNN_ATTR_TENSOR_UNIQUE_ID)) data = pointers[i];
    return Array(*d, data);
  };
#define WORK(kind, x, y, w)                                              \
  Work{array(o->part(CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##x)),    \
       array(o->part(CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##y)),    \
       array(o->part(CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##w)),    \
       o->type,                                                          \
       plan->engine == 0,                                                \
       workspace}
  bool forward = o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  bool data = o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  auto work = std::make_unique<Work>(forward ? WORK(FORWARD, X, Y, W)
                                     : data  ? WORK(BWD_DATA, DX, DY, W)
                                             : WORK(BWD_FILTER, X, DY, DW));
#undef WORK
  for (const Array* a : {&work->x, &work->y, &work->w})
    if (!a->data || reinterpret_cast<uintptr_t>(a->data) % 16) return refuse("no or unaligned data");
  const Descriptor* c = o->part(forward ? int(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC)
                                : data ? int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC)
                                       : int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC));
  int64_t dims = *c->numbers(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  for (int64_t d = 0; d < dims; ++d) {
    work->padding[3 - dims + d] = c->numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[d];
    work->stride[3 - dims + d] = c->numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[d];
    work->dilation[3 - dims + d] = c->numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS)[d];
  }
  return cuLaunchHostFunc(
      handle->stream,
      [](void* p) {
        std::unique_ptr<Work> own(static_cast<Work*>(p));
        own->run();
      },
      work.release());
}
