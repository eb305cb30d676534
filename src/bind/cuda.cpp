#include "bind/cuda.h"

#include <algorithm>
#include <memory>

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/storage_type.h"
#include "core/device_placement.h"
#include "core/interpreter.h"
#include "kernels/cuda/allocator.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/cublas.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/ipc.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/program.h"
#include "kernels/cuda/timeline.h"
#include "ops_create.h"

namespace rl::bind {
namespace {

const Tensor& checked_tensor(PyObject* o) {
  check_type(is_tensor(o), "expected a Tensor, got ", Py_TYPE(o)->tp_name);
  return tensor_of(o);
}

using cuda::CUevent;
using cuda::CUstream;

// Asks the package where NVIDIA's wheels and the simulator lie.
void prepare() {
  WithGil gil;
  Object found_in = import_attribute("rushlight.cuda._libraries", "folders");
  Object pair = checked(PyObject_CallNoArgs(found_in.get()));
  std::vector<std::string> folders;
  Object items = items_of(PyTuple_GET_ITEM(pair.get(), 0));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
    folders.push_back(to_string(PyTuple_GET_ITEM(items.get(), i)));
  cuda::set_library_folders(std::move(folders), to_string(PyTuple_GET_ITEM(pair.get(), 1)));
}

const BackendStart& lazy() { return *backend_starts[static_cast<int>(DeviceType::CUDA)]; }
void start() { lazy().start(); }
int lazy_count() { return lazy().count(); }

template <class F> PyObject* call(F&& f) {
  return guarded([&]() -> PyObject* {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      Py_RETURN_NONE;
    } else {
      return f();
    }
  });
}

struct Numbers {
  long long at[6] = {};
  // Takes as many integers as there are arguments.
  explicit Numbers(PyObject* args) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args) && i < 6; ++i) {
      PyObject* o = PyTuple_GET_ITEM(args, i);
      at[i] = static_cast<long long>(PyLong_AsUnsignedLongLongMask(o));
      if (PyErr_Occurred()) throw PythonError{};
    }
  }
  int integer(int i) const { return static_cast<int>(at[i]); }
  CUstream stream(int i) const { return reinterpret_cast<CUstream>(at[i]); }
  CUevent event(int i) const { return reinterpret_cast<CUevent>(at[i]); }
};

#define FUNCTION(name) PyObject* name(PyObject*, PyObject* args)
#define NUMBERS Numbers n(args)

FUNCTION(why_unavailable) {
  (void)args;
  return call([] {
    lazy_count();
    return PyUnicode_FromString(cuda::why_unavailable().c_str());
  });
}
FUNCTION(device_count) {
  (void)args;
  return call([] { return PyLong_FromLong(lazy_count()); });
}
FUNCTION(is_initialized) {
  (void)args;
  return PyBool_FromLong(cuda::was_initialized());
}
FUNCTION(is_simulated) {
  (void)args;
  return PyBool_FromLong(cuda::is_simulated());
}
FUNCTION(init) {
  (void)args;
  return call([] {
    start();
    cuda::use(cuda::current_device());
  });
}
FUNCTION(current_device) {
  (void)args;
  return PyLong_FromLong(cuda::current_device());
}
FUNCTION(set_device) {
  return call([&] {
    NUMBERS;
    start();
    cuda::set_device(n.integer(0));
  });
}
FUNCTION(properties) {
  return call([&] {
    NUMBERS;
    start();
    const cuda::Properties& p = cuda::properties(n.integer(0));
    return Py_BuildValue(
        "{s:s,s:i,s:i,s:n,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:y#}",
        "name", p.name.c_str(), "major", p.major, "minor", p.minor, "total_memory",
        static_cast<Py_ssize_t>(p.total_memory), "multi_processor_count", p.multiprocessors,
        "max_threads_per_multi_processor", p.threads_per_multiprocessor, "max_threads_per_block",
        p.threads_per_block, "warp_size", p.warp_size, "shared_memory_per_block", p.shared_bytes,
        "shared_memory_per_block_optin", p.shared_bytes_optin, "shared_memory_per_multiprocessor",
        p.shared_bytes_multiprocessor, "regs_per_multiprocessor", p.registers_multiprocessor,
        "L2_cache_size", p.l2_bytes, "clock_rate", p.clock_khz, "memory_clock_rate",
        p.memory_clock_khz, "memory_bus_width", p.memory_bus_bits, "pci_bus_id", p.pci_bus,
        "pci_device_id", p.pci_device, "pci_domain_id", p.pci_domain, "is_integrated", p.integrated,
        "uuid", reinterpret_cast<const char*>(p.uuid), static_cast<Py_ssize_t>(sizeof p.uuid));
  });
}
FUNCTION(synchronize) {
  return call([&] {
    NUMBERS;
    start();
    ScopedGilReleaseWait released(true);
    cuda::synchronize_device(n.integer(0));
  });
}
FUNCTION(set_blocking) {
  return call([&] {
    NUMBERS;
    cuda::set_blocking_launches(n.at[0] != 0);
  });
}

// ---- streams and events

FUNCTION(current_stream) {
  return call([&] {
    NUMBERS;
    return PyLong_FromVoidPtr(cuda::current_stream(n.integer(0)));
  });
}
FUNCTION(sync_debug_mode) {
  (void)args;
  return call([&] { return PyLong_FromLong(cuda::sync_debug_mode()); });
}
FUNCTION(set_sync_debug_mode) {
  return call([&] {
    NUMBERS;
    cuda::set_sync_debug_mode(n.integer(0));
  });
}
FUNCTION(set_stream) {
  return call([&] {
    NUMBERS;
    start();
    cuda::set_current_stream(n.integer(0), n.stream(1));
  });
}
FUNCTION(new_stream) {
  return call([&] {
    NUMBERS;
    start();
    return PyLong_FromVoidPtr(cuda::pooled_stream(n.integer(0), n.at[1] != 0));
  });
}
FUNCTION(stream_query) {
  return call([&] {
    NUMBERS;
    start();
    cuda::use(n.integer(0));
    int status = cuda::driver().cuStreamQuery(n.stream(1));
    if (status != cuda::CUDA_ERROR_NOT_READY) cuda::check_call(status, "cuStreamQuery");
    return PyBool_FromLong(status == 0);
  });
}
FUNCTION(stream_synchronize) {
  return call([&] {
    NUMBERS;
    start();
    ScopedGilReleaseWait released(true);
    cuda::synchronize_stream(n.integer(0), n.stream(1));
  });
}
FUNCTION(stream_wait_event) {
  return call([&] {
    NUMBERS;
    start();
    cuda::use(n.integer(0));
    RL_CUDA(cuStreamWaitEvent, n.stream(1), n.event(2), 0);
  });
}
FUNCTION(event_create) {
  return call([&] {
    NUMBERS;
    start();
    cuda::use(n.integer(0));
    CUevent event = nullptr;
    RL_CUDA(cuEventCreate, &event,
            n.at[1] ? cuda::CU_EVENT_DEFAULT : cuda::CU_EVENT_DISABLE_TIMING);
    return PyLong_FromVoidPtr(event);
  });
}
FUNCTION(event_destroy) {
  return call([&] {
    NUMBERS;
    RL_CUDA(cuEventDestroy_v2, n.event(0));
  });
}
FUNCTION(event_record) {
  return call([&] {
    NUMBERS;
    start();
    cuda::use(n.integer(0));
    RL_CUDA(cuEventRecord, n.event(2), n.stream(1));
  });
}
FUNCTION(event_query) {
  return call([&] {
    NUMBERS;
    int status = cuda::driver().cuEventQuery(n.event(0));
    if (status != cuda::CUDA_ERROR_NOT_READY) cuda::check_call(status, "cuEventQuery");
    return PyBool_FromLong(status == 0);
  });
}
FUNCTION(event_synchronize) {
  return call([&] {
    NUMBERS;
    {
      ScopedGilReleaseWait released(true);
      cuda::synchronize_event(n.event(1));
    }
    cuda::raise_fault(n.integer(0));
  });
}
FUNCTION(event_elapsed) {
  return call([&] {
    NUMBERS;
    float milliseconds = 0;
    int status = cuda::driver().cuEventElapsedTime(&milliseconds, n.event(0), n.event(1));
    check(status != cuda::CUDA_ERROR_NOT_READY,
          "Event.elapsed_time: both events must be completed before calculating elapsed time");
    check_value(status == 0,
                "Event.elapsed_time: both events must be recorded and created with "
                "enable_timing=True");
    return PyFloat_FromDouble(milliseconds);
  });
}

// ---- memory

void add(PyObject* dict, const std::string& key, int64_t value) {
  Object number = checked(PyLong_FromLongLong(value));
  checked(PyDict_SetItemString(dict, key.c_str(), number.get()));
}
FUNCTION(memory_stats) {
  return call([&] {
    NUMBERS;
    Object dict = checked(PyDict_New());
    cuda::AllocatorStats s = cuda::allocator_stats(n.integer(0));
    const char* pools[] = {"all", "small_pool", "large_pool"};
    struct Named {
      const char* name;
      cuda::Counter cuda::PoolStats::* counter;
    };
    const Named counters[] = {{"allocation", &cuda::PoolStats::allocations},
                              {"segment", &cuda::PoolStats::segments},
                              {"active", &cuda::PoolStats::active},
                              {"inactive_split", &cuda::PoolStats::inactive_split},
                              {"allocated_bytes", &cuda::PoolStats::allocated_bytes},
                              {"reserved_bytes", &cuda::PoolStats::reserved_bytes},
                              {"active_bytes", &cuda::PoolStats::active_bytes},
                              {"inactive_split_bytes", &cuda::PoolStats::inactive_split_bytes},
                              {"requested_bytes", &cuda::PoolStats::requested_bytes}};
    for (const Named& c : counters)
      for (int p = 0; p < 3; ++p) {
        const cuda::Counter& value = s.pools[p].*c.counter;
        std::string key = std::string(c.name) + "." + pools[p] + ".";
        add(dict.get(), key + "current", value.current);
        add(dict.get(), key + "peak", value.peak);
        add(dict.get(), key + "allocated", value.allocated);
        add(dict.get(), key + "freed", value.freed);
      }
    add(dict.get(), "num_alloc_retries", s.retries);
    add(dict.get(), "num_ooms", s.out_of_memory);
    add(dict.get(), "num_device_alloc", s.driver_allocations);
    add(dict.get(), "num_device_free", s.driver_frees);
    return dict.release();
  });
}
FUNCTION(reset_peak) {
  return call([&] {
    NUMBERS;
    start();
    cuda::reset_peak(n.integer(0));
  });
}
FUNCTION(reset_accumulated) {
  return call([&] {
    NUMBERS;
    start();
    cuda::reset_accumulated(n.integer(0));
  });
}
FUNCTION(empty_cache) {
  return call([&] {
    NUMBERS;
    cuda::empty_device_cache(n.integer(0));
  });
}
FUNCTION(empty_pinned_cache) {
  (void)args;
  return call([] { cuda::empty_pinned_cache(); });
}
FUNCTION(mem_get_info) {
  return call([&] {
    NUMBERS;
    start();
    cuda::use(n.integer(0));
    size_t free = 0, total = 0;
    RL_CUDA(cuMemGetInfo_v2, &free, &total);
    return Py_BuildValue("nn", static_cast<Py_ssize_t>(free), static_cast<Py_ssize_t>(total));
  });
}
FUNCTION(set_fraction) {
  return call([&] {
    double fraction;
    int device;
    if (!PyArg_ParseTuple(args, "id", &device, &fraction)) throw PythonError{};
    start();
    cuda::set_memory_fraction(device, fraction);
  });
}
FUNCTION(get_fraction) {
  return call([&] {
    NUMBERS;
    start();
    return PyFloat_FromDouble(cuda::memory_fraction(n.integer(0)));
  });
}
// The frames of the calling thread, for the history of memory.
cuda::Frames program_frames() {
  if (!Py_IsInitialized()) return nullptr;
  WithGil gil;
  auto frames = std::make_shared<std::vector<cuda::Frame>>();
  Object frame = Object::share(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.get()) {
    auto* at = reinterpret_cast<PyFrameObject*>(frame.get());
    Object code(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    auto* c = reinterpret_cast<PyCodeObject*>(code.get());
    frames->push_back(
        {to_string(c->co_name), to_string(c->co_filename), PyFrame_GetLineNumber(at)});
    frame = Object(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return frames;
}
Object frames_as_list(const cuda::Frames& frames) {
  Object list = checked(PyList_New(0));
  if (!frames) return list;
  for (const cuda::Frame& f : *frames) {
    Object one = checked(Py_BuildValue("{s:s,s:s,s:i}", "name", f.function.c_str(), "filename",
                                       f.file.c_str(), "line", f.line));
    checked(PyList_Append(list.get(), one.get()));
  }
  return list;
}
Object block_as_dict(const cuda::BlockInfo& b) {
  Object frames = frames_as_list(b.frames);
  const char* state = b.allocated ? "active_allocated"
                      : b.pending ? "active_pending_free"
                                  : "inactive";
  return checked(
      Py_BuildValue("{s:K,s:L,s:L,s:s,s:O}", "address", static_cast<unsigned long long>(b.address),
                    "size", static_cast<long long>(b.size), "requested_size",
                    static_cast<long long>(b.requested), "state", state, "frames", frames.get()));
}
Object segment_as_dict(const cuda::SegmentInfo& s) {
  Object blocks = checked(PyList_New(0));
  long long allocated = 0, active = 0, requested = 0;
  for (const cuda::BlockInfo& b : s.blocks) {
    checked(PyList_Append(blocks.get(), block_as_dict(b).get()));
    allocated += b.allocated ? b.size : 0;
    active += b.allocated || b.pending ? b.size : 0;
    requested += b.requested;
  }
  Object none = checked(PyList_New(0));
  return checked(Py_BuildValue(
      "{s:i,s:K,s:K,s:L,s:L,s:L,s:L,s:s,s:(iK),s:O,s:O,s:O}", "device", s.device, "address",
      static_cast<unsigned long long>(s.address), "stream",
      static_cast<unsigned long long>(s.stream), "total_size", static_cast<long long>(s.size),
      "allocated_size", allocated, "active_size", active, "requested_size", requested,
      "segment_type", s.small ? "small" : "large", "segment_pool_id", 0,
      static_cast<unsigned long long>(s.pool), "is_expandable", s.expandable ? Py_True : Py_False,
      "frames", none.get(), "blocks", blocks.get()));
}
FUNCTION(snapshot) {
  return call([&] {
    NUMBERS;
    start();
    Object list = checked(PyList_New(0));
    for (const cuda::SegmentInfo& s : cuda::memory_snapshot(n.integer(0)))
      checked(PyList_Append(list.get(), segment_as_dict(s).get()));
    return list.release();
  });
}
FUNCTION(memory_trace) {  // (device, clear)
  return call([&] {
    NUMBERS;
    start();
    Object list = checked(PyList_New(0));
    for (const cuda::MemoryEntry& e : cuda::memory_trace(n.integer(0), n.at[1] != 0)) {
      Object frames = frames_as_list(e.frames);
      Object entry = checked(Py_BuildValue(
          "{s:s,s:K,s:L,s:K,s:L,s:O}", "action", e.action, "addr",
          static_cast<unsigned long long>(e.address), "size", static_cast<long long>(e.size),
          "stream", static_cast<unsigned long long>(e.stream), "time_us",
          static_cast<long long>(e.microseconds), "frames", frames.get()));
      checked(PyList_Append(list.get(), entry.get()));
    }
    return list.release();
  });
}
FUNCTION(set_history) {  // (entries, of allocations, of frees, most)
  return call([&] {
    NUMBERS;
    cuda::program_frames = program_frames;
    cuda::set_history({n.at[0] != 0, n.at[1] != 0, n.at[2] != 0, static_cast<size_t>(n.at[3])});
  });
}
FUNCTION(set_allocator_settings) {
  return call([&] {
    const char* settings = nullptr;
    if (!PyArg_ParseTuple(args, "s", &settings)) throw PythonError{};
    start();
    cuda::set_allocator_settings(settings);
  });
}
FUNCTION(record_stream) {
  return call([&] {
    PyObject *tensor, *stream;
    if (!PyArg_ParseTuple(args, "OO", &tensor, &stream)) throw PythonError{};
    const Tensor& t = checked_tensor(tensor);
    check(t.device().type == DeviceType::CUDA,
          "record_stream: expected a tensor on CUDA, got one on ", t.device());
    // A lazy view's own memory too, in which its elements are read.
    for (const Storage* storage : {t.impl()->storage.get(), t.impl()->resolved.get()}) {
      while (storage && storage->alias_of) storage = storage->alias_of.get();
      if (storage && storage->data && storage->owned)
        cuda::record_stream(storage->data, t.device().index,
                            static_cast<CUstream>(PyLong_AsVoidPtr(stream)));
    }
  });
}

// ---- profiles

FUNCTION(timeline_start) {
  (void)args;
  return call([] { cuda::timeline::start(); });
}
// A list of (name, start, end, launched, thread, device, stream), times in nanoseconds.
FUNCTION(timeline_stop) {
  (void)args;
  return call([] {
    std::vector<cuda::timeline::Entry> entries;
    {
      ScopedGilReleaseWait released(true);
      entries = cuda::timeline::stop();
    }
    Object list = checked(PyList_New(0));
    for (const cuda::timeline::Entry& e : entries) {
      Object entry = checked(Py_BuildValue(
          "(sLLLLiK)", e.name, static_cast<long long>(e.start), static_cast<long long>(e.end),
          static_cast<long long>(e.launched), static_cast<long long>(e.thread), e.device,
          static_cast<unsigned long long>(e.stream)));
      checked(PyList_Append(list.get(), entry.get()));
    }
    return list.release();
  });
}

// ---- pinned memory

void release_pinned(void* data) { cuda::free_pinned(data); }

FUNCTION(pin_memory) {
  return call([&] {
    PyObject* o;
    if (!PyArg_ParseTuple(args, "O", &o)) throw PythonError{};
    return wrap(pinned("pin_memory", alias(checked_tensor(o))));
  });
}

FUNCTION(is_pinned) {
  return call([&] {
    PyObject* o;
    if (!PyArg_ParseTuple(args, "O", &o)) throw PythonError{};
    const Tensor& t = checked_tensor(o);
    return PyBool_FromLong(t.device().is_cpu() && t.impl()->data && cuda::was_initialized() &&
                           cuda::is_pinned(t.impl()->data));
  });
}

// ---- graphs

void destroy_graph(PyObject* capsule) {
  delete static_cast<cuda::Graph*>(PyCapsule_GetPointer(capsule, "rushlight.cuda.graph"));
}
cuda::Graph& graph_of(PyObject* args) {
  void* graph = PyCapsule_GetPointer(PyTuple_GetItem(args, 0), "rushlight.cuda.graph");
  if (!graph) throw PythonError{};
  return *static_cast<cuda::Graph*>(graph);
}
FUNCTION(graph_new) {
  (void)args;
  return call([] {
    start();
    auto graph = std::make_unique<cuda::Graph>();
    Object capsule = checked(PyCapsule_New(graph.get(), "rushlight.cuda.graph", destroy_graph));
    graph.release();
    return capsule.release();
  });
}
FUNCTION(graph_begin) {
  return call([&] {
    PyObject* capsule;
    unsigned long long pool;
    int mode;
    if (!PyArg_ParseTuple(args, "OKi", &capsule, &pool, &mode)) throw PythonError{};
    graph_of(args).begin(pool, mode);
  });
}
FUNCTION(graph_end) {
  return call([&] { graph_of(args).end(); });
}
FUNCTION(graph_replay) {
  return call([&] { graph_of(args).replay(); });
}
FUNCTION(graph_reset) {
  return call([&] { graph_of(args).reset(); });
}
FUNCTION(graph_pool) {
  return call([&] { return PyLong_FromUnsignedLongLong(graph_of(args).pool()); });
}
FUNCTION(new_pool) {
  (void)args;
  return call([] { return PyLong_FromUnsignedLongLong(cuda::new_private_pool()); });
}
FUNCTION(is_capturing) {
  (void)args;
  return call([] {
    return PyBool_FromLong(cuda::was_initialized() && cuda::is_capturing(cuda::current_device()));
  });
}

// ---- kernels

FUNCTION(kernel_counts) {
  (void)args;
  return call([] {
    cuda::KernelCounts c = cuda::kernel_counts();
    return Py_BuildValue("{s:L,s:L,s:L}", "compiled", static_cast<long long>(c.compiled),
                         "from_disk", static_cast<long long>(c.from_disk), "launches",
                         static_cast<long long>(c.launches));
  });
}
FUNCTION(nccl_is_available) {
  (void)args;
  return call([] { return PyBool_FromLong(lazy_count() > 0 && cuda::nccl() != nullptr); });
}
FUNCTION(nccl_id) {
  (void)args;
  return call([] {
    start();
    std::string id = cuda::nccl_id();
    return PyBytes_FromStringAndSize(id.data(), static_cast<Py_ssize_t>(id.size()));
  });
}
FUNCTION(nccl_version) {
  (void)args;
  return call([] {
    start();
    return PyLong_FromLong(cuda::nccl_version());
  });
}
cuda::ncclComm_t communicator_of(unsigned long long address) {
  return reinterpret_cast<cuda::ncclComm_t>(address);
}
FUNCTION(nccl_open) {  // (id, size, rank)
  return call([&] {
    PyObject* bytes = nullptr;
    int size = 0, rank = 0;
    if (!PyArg_ParseTuple(args, "Sii", &bytes, &size, &rank)) throw PythonError{};
    std::string id(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
    start();
    cuda::ncclComm_t made = nullptr;
    {
      WithoutGil waits;
      made = cuda::open_communicator(id, size, rank);
    }
    return PyLong_FromVoidPtr(made);
  });
}
FUNCTION(nccl_split) {  // (communicator, color, key): 0 for a negative color
  return call([&] {
    NUMBERS;
    cuda::ncclComm_t made = nullptr;
    {
      WithoutGil waits;
      made = cuda::split_communicator(communicator_of(static_cast<unsigned long long>(n.at[0])),
                                      n.integer(1), n.integer(2));
    }
    return PyLong_FromVoidPtr(made);
  });
}
FUNCTION(nccl_is_ready) {
  return call([&] {
    NUMBERS;
    return PyBool_FromLong(
        cuda::is_ready(communicator_of(static_cast<unsigned long long>(n.at[0]))));
  });
}
FUNCTION(nccl_close) {
  return call([&] {
    NUMBERS;
    WithoutGil waits;
    cuda::close_communicator(communicator_of(static_cast<unsigned long long>(n.at[0])));
  });
}
FUNCTION(nccl_abort) {
  return call([&] {
    NUMBERS;
    WithoutGil waits;
    cuda::abort_communicator(communicator_of(static_cast<unsigned long long>(n.at[0])));
  });
}
// (kind, communicator, operation, root, output, input, factor): `output` may be `input`; `factor`
// is None or a tensor of one element of the same dtype on the CPU.
FUNCTION(nccl_run) {
  return call([&] {
    int kind = 0, operation = 0, root = 0;
    unsigned long long communicator = 0;
    PyObject *output = nullptr, *input = nullptr, *factor = nullptr;
    if (!PyArg_ParseTuple(args, "iKiiOOO", &kind, &communicator, &operation, &root, &output, &input,
                          &factor))
      throw PythonError{};
    const Tensor &to = checked_tensor(output), &from = checked_tensor(input);
    check(to.device().type == DeviceType::CUDA && is_same_device(to.device(), from.device()) &&
              to.dtype() == from.dtype() && to.is_contiguous() && from.is_contiguous(),
          "nccl_run: expected contiguous tensors of one dtype on one GPU, got ", from.dtype(),
          " on ", from.device(), " and ", to.dtype(), " on ", to.device());
    void* number = nullptr;
    if (factor != Py_None) {
      const Tensor& one = checked_tensor(factor);
      check(one.device().type == DeviceType::CPU && one.dtype() == to.dtype() && one.numel() == 1,
            "nccl_run: expected a factor of dtype ", to.dtype(), ", got ", one.dtype());
      number = one.data<char>();
    }
    int device = to.device().index;
    cuda::use(device);
    cuda::CollectiveCall what{static_cast<cuda::Collective>(kind),
                              from.data<char>(),
                              to.data<char>(),
                              std::min(from.numel(), to.numel()),
                              to.dtype(),
                              operation,
                              root,
                              number};
    CUstream stream = cuda::current_stream(device);
    WithoutGil waits;
    cuda::run_collective(what, communicator_of(communicator), stream);
  });
}
// A list of (communicator, is_sent, peer, tensor), all of one GPU.
FUNCTION(nccl_exchange) {
  return call([&] {
    PyObject* list = nullptr;
    if (!PyArg_ParseTuple(args, "O", &list)) throw PythonError{};
    Object items = items_of(list);
    std::vector<cuda::Message> messages;
    int device = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      unsigned long long communicator = 0;
      int is_sent = 0, peer = 0;
      PyObject* tensor = nullptr;
      if (!PyArg_ParseTuple(PyTuple_GET_ITEM(items.get(), i), "KpiO", &communicator, &is_sent,
                            &peer, &tensor))
        throw PythonError{};
      const Tensor& t = checked_tensor(tensor);
      check(t.device().type == DeviceType::CUDA && t.is_contiguous(),
            "nccl_exchange: expected a contiguous tensor on a GPU, got one on ", t.device());
      check(!i || t.device().index == device, "nccl_exchange: tensors on several GPUs");
      device = t.device().index;
      messages.push_back({communicator_of(communicator), is_sent != 0, peer, t.data<char>(),
                          t.numel() * static_cast<int64_t>(itemsize(t.dtype()))});
    }
    if (messages.empty()) return;
    cuda::use(device);
    CUstream stream = cuda::current_stream(device);
    WithoutGil waits;
    cuda::exchange(messages, stream);
  });
}
// ---- memory and events of several processes

FUNCTION(ipc_export) {  // (storage): a handle and an offset, or None for what another process has
  return call([&]() -> PyObject* {
    PyObject* o = nullptr;
    if (!PyArg_ParseTuple(args, "O", &o)) throw PythonError{};
    const Storage& s = checked_storage(o);
    check(s.device.type == DeviceType::CUDA && s.data, "ipc_export: no memory of a GPU");
    if (cuda::is_opened(s)) Py_RETURN_NONE;
    cuda::ExportedMemory made = cuda::export_memory(s.data, s.device.index);
    return Py_BuildValue("(y#L)", made.handle.data(), static_cast<Py_ssize_t>(made.handle.size()),
                         static_cast<long long>(made.offset));
  });
}
FUNCTION(ipc_open) {  // (handle, device, offset, nbytes, flags, index)
  return call([&] {
    PyObject *handle = nullptr, *flags = nullptr;
    int device = 0;
    long long offset = 0, nbytes = 0, index = 0;
    if (!PyArg_ParseTuple(args, "SiLLOL", &handle, &device, &offset, &nbytes, &flags, &index))
      throw PythonError{};
    start();
    std::string text(PyBytes_AS_STRING(handle), static_cast<size_t>(PyBytes_GET_SIZE(handle)));
    return wrap(cuda::open_memory(text, device, offset, nbytes,
                                  Ref<Storage>::share(&checked_storage(flags)), index));
  });
}
FUNCTION(ipc_event) {  // (device): an event that other processes can open
  return call([&] {
    NUMBERS;
    start();
    return PyLong_FromVoidPtr(cuda::new_shared_event(n.integer(0)));
  });
}
FUNCTION(ipc_export_event) {
  return call([&] {
    NUMBERS;
    std::string handle = cuda::export_event(n.event(0));
    return PyBytes_FromStringAndSize(handle.data(), static_cast<Py_ssize_t>(handle.size()));
  });
}
FUNCTION(ipc_open_event) {  // (handle, device)
  return call([&] {
    PyObject* handle = nullptr;
    int device = 0;
    if (!PyArg_ParseTuple(args, "Si", &handle, &device)) throw PythonError{};
    start();
    std::string text(PyBytes_AS_STRING(handle), static_cast<size_t>(PyBytes_GET_SIZE(handle)));
    return PyLong_FromVoidPtr(cuda::open_event(text, device));
  });
}
FUNCTION(set_allow_tf32) {
  return call([&] {
    NUMBERS;
    cuda::set_allow_tf32(n.integer(0));
  });
}
FUNCTION(set_cudnn_switches) {
  return call([&] {
    NUMBERS;
    cuda::set_cudnn_switches({n.integer(0) != 0, n.integer(1) != 0, n.integer(2) != 0,
                              n.integer(3) != 0, static_cast<int>(n.integer(4))});
  });
}
// (major, minor) of the run-time compiler.
FUNCTION(compiler_version) {
  (void)args;
  return call([]() -> PyObject* {
    if (!lazy_count()) Py_RETURN_NONE;
    int major = 0, minor = 0;
    cuda::compiler_version(&major, &minor);
    return Py_BuildValue("(ii)", major, minor);
  });
}
FUNCTION(cudnn_version) {
  (void)args;
  return call([] { return PyLong_FromLongLong(lazy_count() ? cuda::cudnn_version() : 0); });
}
FUNCTION(kernels_asked_for) {
  (void)args;
  return call([] { return PyUnicode_FromString(cuda::kernels_asked_for().c_str()); });
}
FUNCTION(compile_check) {
  return call([&] {
    int arch;
    const char *header, *definitions, *expression;
    if (!PyArg_ParseTuple(args, "isss", &arch, &header, &definitions, &expression))
      throw PythonError{};
    lazy_count();
    return PyUnicode_FromString(cuda::compile_check(arch, header, definitions, expression).c_str());
  });
}

#define METHOD(name) {#name, name, METH_VARARGS, nullptr}
PyMethodDef methods[] = {METHOD(why_unavailable),
                         METHOD(device_count),
                         METHOD(is_initialized),
                         METHOD(is_simulated),
                         METHOD(init),
                         METHOD(current_device),
                         METHOD(set_device),
                         METHOD(properties),
                         METHOD(synchronize),
                         METHOD(set_blocking),
                         METHOD(current_stream),
                         METHOD(set_stream),
                         METHOD(new_stream),
                         METHOD(stream_query),
                         METHOD(stream_synchronize),
                         METHOD(stream_wait_event),
                         METHOD(event_create),
                         METHOD(event_destroy),
                         METHOD(event_record),
                         METHOD(event_query),
                         METHOD(event_synchronize),
                         METHOD(event_elapsed),
                         METHOD(memory_stats),
                         METHOD(reset_peak),
                         METHOD(reset_accumulated),
                         METHOD(empty_cache),
                         METHOD(empty_pinned_cache),
                         METHOD(mem_get_info),
                         METHOD(set_fraction),
                         METHOD(get_fraction),
                         METHOD(snapshot),
                         METHOD(memory_trace),
                         METHOD(set_history),
                         METHOD(set_allocator_settings),
                         METHOD(record_stream),
                         METHOD(timeline_start),
                         METHOD(timeline_stop),
                         METHOD(pin_memory),
                         METHOD(is_pinned),
                         METHOD(graph_new),
                         METHOD(graph_begin),
                         METHOD(graph_end),
                         METHOD(graph_replay),
                         METHOD(graph_reset),
                         METHOD(graph_pool),
                         METHOD(new_pool),
                         METHOD(is_capturing),
                         METHOD(kernel_counts),
                         METHOD(kernels_asked_for),
                         METHOD(compile_check),
                         METHOD(set_allow_tf32),
                         METHOD(set_cudnn_switches),
                         METHOD(compiler_version),
                         METHOD(cudnn_version),
                         METHOD(nccl_is_available),
                         METHOD(nccl_id),
                         METHOD(nccl_open),
                         METHOD(ipc_export),
                         METHOD(ipc_open),
                         METHOD(ipc_event),
                         METHOD(ipc_export_event),
                         METHOD(ipc_open_event),
                         METHOD(nccl_version),
                         METHOD(nccl_split),
                         METHOD(nccl_is_ready),
                         METHOD(nccl_close),
                         METHOD(nccl_abort),
                         METHOD(nccl_run),
                         METHOD(nccl_exchange),
                         METHOD(sync_debug_mode),
                         METHOD(set_sync_debug_mode),
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "rushlight._C._cuda",
                          "The CUDA backend.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

void init_cuda(PyObject* module) {
  cuda::install(prepare);
  Object own = checked(PyModule_Create(&definition));
  checked(PyModule_AddObjectRef(module, "_cuda", own.get()));
}

Tensor pinned(const char* who, const Tensor& t) {
  check(t.device().is_cpu(), who, ": only tensors of the CPU lie in page-locked memory, not of '",
        t.device(), "'");
  check(lazy_count() > 0, who,
        ": page-locked memory speeds up transfers to an accelerator, but no accelerator is "
        "available");
  start();
  int64_t bytes = t.numel() * itemsize(t.dtype());
  Tensor root = empty(Dims{0}, {t.dtype(), {}});
  void* data = cuda::allocate_pinned(static_cast<size_t>(bytes));
  root.impl()->storage = Storage::borrow(data, bytes, release_pinned, data);
  Tensor copy = alias(root, t.sizes(), empty_like(t).strides(), 0);
  {
    NoGradGuard guard;
    ops::copy_(copy, t);
  }
  copy.impl()->requires_grad = t.impl()->requires_grad;
  return copy;
}

}  // namespace rl::bind
