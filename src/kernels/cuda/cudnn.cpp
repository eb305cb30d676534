#include "kernels/cuda/cudnn.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/library.h"

namespace rl::cuda {
namespace {

using kernels::ConvGeometry;

constexpr size_t most_workspace = size_t(1) << 30;
constexpr int most_dims = 5;

std::mutex mutex;  // of the switches, the plans, and the handles, whose stream each call sets
CudnnSwitches switches;
cudnnHandle_t handles[max_devices] = {};

// RUSHLIGHT_CUDNN_LOG=1: why cuDNN does not take a convolution, and which engine does.
bool logs() {
  static const bool asked = std::getenv("RUSHLIGHT_CUDNN_LOG");
  return asked;
}

void check_status(cudnnStatus_t status, const char* call) {
  if (status) fail(ErrorKind::Runtime, call, ": cuDNN gave ", cudnn()->cudnnGetErrorString(status));
}
#define RL_CUDNN(call, ...) check_status(cudnn()->call(__VA_ARGS__), #call)

// A descriptor of the backend's graphs. `good` is false once cuDNN refused something of it, and
// what is built on it is not tried any more.
class Descriptor {
 public:
  explicit Descriptor(int type) : type_(type) {
    good = !cudnn()->cudnnBackendCreateDescriptor(type, &made_);
  }
  ~Descriptor() {
    if (made_) cudnn()->cudnnBackendDestroyDescriptor(made_);
  }
  Descriptor(Descriptor&& d) noexcept : good(d.good), type_(d.type_), made_(d.made_) {
    d.made_ = nullptr;
  }
  Descriptor& operator=(Descriptor&& d) noexcept {
    std::swap(good, d.good);
    std::swap(type_, d.type_);
    std::swap(made_, d.made_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;

  cudnnBackendDescriptor_t get() const { return made_; }
  Descriptor& set(int name, int type, int64_t count, const void* values) {
    if (good) note(cudnn()->cudnnBackendSetAttribute(made_, name, type, count, values), name);
    return *this;
  }
  Descriptor& set_number(int name, int64_t value) { return set(name, CUDNN_TYPE_INT64, 1, &value); }
  // An enumerator, of an enumeration type of its own.
  Descriptor& set_kind(int name, int type, int value) { return set(name, type, 1, &value); }
  Descriptor& set_numbers(int name, int64_t count, const int64_t* values) {
    return set(name, CUDNN_TYPE_INT64, count, values);
  }
  Descriptor& set(int name, const Descriptor& other) {
    good = good && other.good;
    cudnnBackendDescriptor_t handle = other.get();
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
  }
  bool finalize() {
    if (good) note(cudnn()->cudnnBackendFinalize(made_), -1);
    return good;
  }
  int64_t number(int name) const {
    int64_t value = 0, count = 0;
    cudnn()->cudnnBackendGetAttribute(made_, name, CUDNN_TYPE_INT64, 1, &count, &value);
    return value;
  }

  bool good = true;

 private:
  void note(cudnnStatus_t status, int name) {
    good = status == 0;
    if (good || !logs()) return;
    char text[512] = "";
    cudnn()->cudnnGetLastErrorString(text, sizeof text);
    std::fprintf(stderr, "cuDNN: descriptor %d, attribute %d: %s (%s)\n", type_, name,
                 cudnn()->cudnnGetErrorString(status), text);
  }
  int type_;
  cudnnBackendDescriptor_t made_ = nullptr;
};

// All that a plan depends on.
struct Problem {
  int64_t device, of, dtype, dims, groups, switches;
  int64_t images[most_dims], positions[most_dims], weight[most_dims];
  int64_t channels_last;
  int64_t padding[3], stride[3], dilation[3];
};
struct ProblemHash {
  size_t operator()(const Problem& p) const {
    uint64_t h = 14695981039346656037ull;
    int64_t numbers[sizeof p / sizeof(int64_t)];
    std::memcpy(numbers, &p, sizeof p);
    for (int64_t v : numbers) h = (h ^ static_cast<uint64_t>(v)) * 1099511628211ull;
    return h ^ h >> 32;
  }
};
bool operator==(const Problem& x, const Problem& y) { return !std::memcmp(&x, &y, sizeof x); }

struct ConvolutionGraph;
// Of what a plan is made has to live as long as it.
struct Plan {
  std::shared_ptr<ConvolutionGraph> graph;
  std::optional<Descriptor> config, plan;  // none: the plain way
  size_t workspace = 0;
};
auto& plans = *new std::unordered_map<Problem, Plan, ProblemHash>;

int data_type(int64_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::Float16: return CUDNN_DATA_HALF;
    case DType::BFloat16: return CUDNN_DATA_BFLOAT16;
    case DType::Float32: return CUDNN_DATA_FLOAT;
    default: return CUDNN_DATA_DOUBLE;
  }
}

// Strides of elements without gaps.
std::array<int64_t, most_dims> dense_strides(const int64_t* sizes, int64_t dims,
                                             bool channels_last) {
  std::array<int64_t, most_dims> strides{};
  int64_t step = 1;
  auto take = [&](int64_t d) {
    strides[static_cast<size_t>(d)] = step;
    step *= sizes[d];
  };
  if (channels_last) take(1);
  for (int64_t d = dims - 1; d >= 0; --d)
    if (d != 1 || !channels_last) take(d);
  return strides;
}

Descriptor tensor(const Problem& p, const int64_t* sizes, int64_t id) {
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  auto strides = dense_strides(sizes, p.dims, p.channels_last);
  made.set_kind(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type(p.dtype))
      .set_numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, p.dims, sizes)
      .set_numbers(CUDNN_ATTR_TENSOR_STRIDES, p.dims, strides.data())
      .set_number(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set_number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16)
      .finalize();
  return made;
}

enum Id : int64_t { ImagesId = 1, PositionsId, WeightId };

// The graph of one convolution, which keeps alive what it is made of.
struct ConvolutionGraph {
  Descriptor images, positions, weight, convolution, operation, graph;

  explicit ConvolutionGraph(const Problem& p)
      : images(tensor(p, p.images, ImagesId)),
        positions(tensor(p, p.positions, PositionsId)),
        weight(tensor(p, p.weight, WeightId)),
        convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
        operation(operation_type(p)),
        graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    bool wide = static_cast<DType>(p.dtype) == DType::Float64;
    int64_t spatial = p.dims - 2;
    convolution
        .set_kind(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                  wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
        .set_kind(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                  CUDNN_CROSS_CORRELATION)
        .set_number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, spatial)
        .set_numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial, p.padding)
        .set_numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spatial, p.padding)
        .set_numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial, p.stride)
        .set_numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial, p.dilation)
        .finalize();
    float one = 1, zero = 0;
    double wide_one = 1, wide_zero = 0;
    const void* alpha = wide ? static_cast<void*>(&wide_one) : &one;
    const void* beta = wide ? static_cast<void*>(&wide_zero) : &zero;
    struct Names {
      int alpha, beta, convolution, images, positions, weight;
    };
#define RL_NAMES(kind, x, y, w)                              \
  {                                                          \
    CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_ALPHA,         \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_BETA,      \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_CONV_DESC, \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##x,       \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##y,       \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##w        \
  }
    static constexpr Names names[] = {RL_NAMES(FORWARD, X, Y, W), RL_NAMES(BWD_DATA, DX, DY, W),
                                      RL_NAMES(BWD_FILTER, X, DY, DW)};
#undef RL_NAMES
    const Names& n = names[p.of];
    int scalar = wide ? int(CUDNN_TYPE_DOUBLE) : int(CUDNN_TYPE_FLOAT);
    operation.set(n.convolution, convolution)
        .set(n.images, images)
        .set(n.positions, positions)
        .set(n.weight, weight)
        .set(n.alpha, scalar, 1, alpha)
        .set(n.beta, scalar, 1, beta)
        .finalize();
    cudnnHandle_t handle = handles[p.device];
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle)
        .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
        .finalize();
  }
  static int operation_type(const Problem& p) {
    return p.of == int64_t(ConvolutionOf::Positions)
               ? CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
           : p.of == int64_t(ConvolutionOf::Images)
               ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
               : CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  }
};

// The engines that cuDNN recommends, the best first.
std::vector<Descriptor> recommended(const Descriptor& graph, int mode) {
  std::vector<Descriptor> found;
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set_kind(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  int64_t count = 0;
  if (!heuristic.finalize() ||
      cudnn()->cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr))
    return found;
  std::vector<cudnnBackendDescriptor_t> handles_of;
  for (int64_t i = 0; i < count; ++i) {
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles_of.push_back(found.back().get());
  }
  int64_t got = 0;
  if (count && cudnn()->cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &got,
                                                 handles_of.data()))
    got = 0;
  while (static_cast<int64_t>(found.size()) > got) found.pop_back();
  return found;
}

// Whether what the engine notes about its numbers is allowed.
bool is_allowed(const Descriptor& config, const Problem& p) {
  bool exact = static_cast<DType>(p.dtype) == DType::Float32 && !(p.switches & 1);
  bool deterministic = p.switches & 2;
  if (!exact && !deterministic) return true;
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  int64_t count = 0;
  int notes[32] = {};
  if (cudnn()->cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle) ||
      cudnn()->cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                        CUDNN_TYPE_NUMERICAL_NOTE, 32, &count, notes))
    return false;
  for (int64_t i = 0; i < count; ++i) {
    if (exact && (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                  notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS))
      return false;
    if (deterministic && notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
  }
  return true;
}

void execute(const Plan& plan, int device, void* images, void* positions, void* weight) {
  std::optional<Scratch> workspace;
  if (plan.workspace) workspace.emplace(plan.workspace, device);
  void* memory = workspace ? workspace->get() : nullptr;
  void* pointers[] = {images, positions, weight};
  int64_t ids[] = {ImagesId, PositionsId, WeightId};
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers)
      .set_numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &memory);
  check(pack.finalize(), "convolution: cuDNN does not take the operands of a plan that it made");
  RL_CUDNN(cudnnBackendExecute, handles[device], plan.plan->get(), pack.get());
}

// The milliseconds of a run, of which the second is measured.
float time_of(const Plan& plan, int device, CUstream stream, void* const (&operands)[3]) {
  CUevent begin = nullptr, end = nullptr;
  RL_CUDA(cuEventCreate, &begin, CU_EVENT_DEFAULT);
  RL_CUDA(cuEventCreate, &end, CU_EVENT_DEFAULT);
  float milliseconds = 0;
  for (int turn = 0; turn < 2; ++turn) {
    RL_CUDA(cuEventRecord, begin, stream);
    execute(plan, device, operands[0], operands[1], operands[2]);
    RL_CUDA(cuEventRecord, end, stream);
    RL_CUDA(cuEventSynchronize, end);
    RL_CUDA(cuEventElapsedTime, &milliseconds, begin, end);
  }
  RL_CUDA(cuEventDestroy_v2, begin);
  RL_CUDA(cuEventDestroy_v2, end);
  return milliseconds;
}

// The first engine that makes a plan, or the quickest of several where they are to be timed.
Plan make_plan(const Problem& p, CUstream stream, void* const (&operands)[3]) {
  auto graph = std::make_shared<ConvolutionGraph>(p);
  Plan best;
  float best_time = 0;
  int tried = 0, device = static_cast<int>(p.device);
  bool times = p.switches & 4;
  for (int mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!graph->graph.good || best.plan) break;
    for (Descriptor& config : recommended(graph->graph, mode)) {
      if (!is_allowed(config, p)) continue;
      Plan plan;
      plan.graph = graph;
      Descriptor& made = plan.plan.emplace(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      cudnnHandle_t handle = handles[p.device];
      made.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      if (!made.finalize()) continue;
      plan.workspace = static_cast<size_t>(made.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
      if (plan.workspace > most_workspace) continue;
      plan.config.emplace(std::move(config));
      if (!times) return plan;
      float time = time_of(plan, device, stream, operands);
      if (!best.plan || time < best_time) {
        best = std::move(plan);
        best_time = time;
      }
      if (++tried >= switches.benchmark_limit) break;
    }
  }
  if (logs())
    std::fprintf(stderr, "cuDNN: convolution %d of %d dims: %s\n", int(p.of), int(p.dims),
                 best.plan ? "timed" : "no engine");
  return best;
}

// A view in one of the dense orders: itself, or a copy that is written back at the end if it is the
// result.
class Ordered {
 public:
  Ordered(const Context& context, const View& view, bool channels_last, bool result)
      : context_(context), view_(view), result_(result) {
    strides_ = dense_strides(view.sizes, view.ndim, channels_last);
    bool dense = reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
    for (int64_t d = 0; d < view.ndim; ++d)
      dense = dense && (view.sizes[d] == 1 || view.strides[d] == strides_[static_cast<size_t>(d)]);
    if (dense) return;
    memory_.emplace(static_cast<size_t>(view.numel * itemsize(view.dtype)), context.device.index);
    if (!result) copy(context, view, placed());
  }
  void* data() const { return memory_ ? memory_->get() : view_.data; }
  void finish() const {
    if (memory_ && result_) copy(context_, placed(), view_);
  }

 private:
  View placed() const {
    return View{memory_->get(), view_.sizes, strides_.data(), view_.ndim,
                view_.numel,    view_.dtype, view_.device};
  }
  const Context& context_;
  const View& view_;
  bool result_;
  std::array<int64_t, most_dims> strides_;
  std::optional<Scratch> memory_;
};

bool lies_channels_last(const View& v) {
  auto strides = dense_strides(v.sizes, v.ndim, true);
  bool plain = true, last = true;
  auto usual = dense_strides(v.sizes, v.ndim, false);
  for (int64_t d = 0; d < v.ndim; ++d) {
    if (v.sizes[d] == 1) continue;
    last = last && v.strides[d] == strides[static_cast<size_t>(d)];
    plain = plain && v.strides[d] == usual[static_cast<size_t>(d)];
  }
  return last && !plain;
}

// A view of one spatial dim has another one of size 1 in front of it: cuDNN knows two and three.
struct Widened {
  View view;
  int64_t sizes[most_dims], strides[most_dims];

  explicit Widened(const View& v) : view(v) {
    int shift = v.ndim == 3;
    for (int64_t d = 0; d < v.ndim; ++d) {
      int64_t to = d < 2 ? d : d + shift;
      sizes[to] = v.sizes[d];
      strides[to] = v.strides[d];
    }
    if (shift) {
      sizes[2] = 1;
      strides[2] = v.sizes[2] * v.strides[2];
    }
    view.sizes = sizes;
    view.strides = strides;
    view.ndim = v.ndim + shift;
  }
  Widened(const Widened&) = delete;
};

Problem problem_of(int device, ConvolutionOf of, const View& images, const View& positions,
                   const View& weight, const ConvGeometry& g, bool channels_last) {
  Problem p{};
  p.device = device;
  p.of = static_cast<int64_t>(of);
  p.dtype = static_cast<int64_t>(images.dtype);
  p.dims = images.ndim;
  p.groups = g.groups;
  p.switches = int64_t(switches.allow_tf32) | int64_t(switches.deterministic) << 1;
  p.channels_last = channels_last;
  for (int64_t d = 0; d < p.dims; ++d) {
    p.images[d] = images.sizes[d];
    p.positions[d] = positions.sizes[d];
    p.weight[d] = weight.sizes[d];
  }
  int64_t shift = p.dims - 2 - g.dims;
  for (int64_t d = 0; d < 3; ++d) {
    bool own = d >= shift && d < p.dims - 2;
    p.padding[d] = own ? g.padding[d - shift] : 0;
    p.stride[d] = own ? g.stride[d - shift] : 1;
    p.dilation[d] = own ? g.dilation[d - shift] : 1;
  }
  return p;
}

}  // namespace

void set_cudnn_switches(const CudnnSwitches& given) {
  std::lock_guard<std::mutex> lock(mutex);
  switches = given;
}
int64_t cudnn_version() { return cudnn() ? static_cast<int64_t>(cudnn()->cudnnGetVersion()) : 0; }

bool cudnn_convolution(const Context& context, ConvolutionOf of, const View& given_images,
                       const View& given_positions, const View& given_weight,
                       const ConvGeometry& g) {
  DType t = given_images.dtype;
  bool known = is_floating(t) && given_positions.dtype == t && given_weight.dtype == t;
  if (!known || !given_images.numel || !given_positions.numel || !given_weight.numel || !cudnn())
    return false;
  std::lock_guard<std::mutex> lock(mutex);
  if (!switches.enabled) return false;
  int device = context.device.index;
  use(device);
  Widened images(given_images), positions(given_positions), weight(given_weight);
  bool last = of == ConvolutionOf::Images ? lies_channels_last(positions.view)
                                          : lies_channels_last(images.view);
  CUstream stream = current_stream(device);
  if (!handles[device]) RL_CUDNN(cudnnCreate, &handles[device]);
  RL_CUDNN(cudnnSetStream, handles[device], stream);
  Problem p = problem_of(device, of, images.view, positions.view, weight.view, g, last);
  if (switches.benchmark && !is_capturing(device)) p.switches |= 4;
  auto found = plans.find(p);
  if (found != plans.end() && !found->second.plan) return false;
  Ordered x(context, images.view, last, of == ConvolutionOf::Images);
  Ordered y(context, positions.view, last, of == ConvolutionOf::Positions);
  Ordered w(context, weight.view, last, of == ConvolutionOf::Weight);
  void* const operands[] = {x.data(), y.data(), w.data()};
  if (found == plans.end()) found = plans.emplace(p, make_plan(p, stream, operands)).first;
  if (!found->second.plan) return false;
  note_launch("convolution");
  launch_count.fetch_add(1, std::memory_order_relaxed);
  {
    timeline::Piece piece("convolution", device, stream);
    execute(found->second, device, operands[0], operands[1], operands[2]);
  }
  for (const Ordered* o : {&x, &y, &w}) o->finish();
  if (__builtin_expect(blocking_launches(), 0)) synchronize_stream(device, stream);
  return true;
}

}  // namespace rl::cuda
