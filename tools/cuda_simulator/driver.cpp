// A libcuda.so.1 that runs kernels in the emulator, for machines without a GPU.
//
// It is at most as kind as the driver: with RUSHLIGHT_SIMULATOR_SEED=n above 0 a stream's work
// waits until something needs it, and streams that do not wait for each other run in an order that
// the seed chooses. Other variables:
//   RUSHLIGHT_SIMULATOR_GUARD=1    device memory is unreadable except while device work runs
//   RUSHLIGHT_SIMULATOR_BOUNDS=1   each allocation ends at a page that nobody may touch
//   RUSHLIGHT_SIMULATOR_IDLE=1     kernels are not run: a launch returns at once
//   RUSHLIGHT_SIMULATOR_CAPABILITY=90  the compute capability that the devices tell
//   RUSHLIGHT_SIMULATOR_MEMORY=n   MiB of each device, 4096 by default
//   RUSHLIGHT_SIMULATOR_FAIL=cuMemAlloc_v2:17   the 17th such call fails
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator.h"
#include "kernels/cuda/api.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

using rl::cuda::CUcontext;
using rl::cuda::CUdevice;
using rl::cuda::CUdeviceptr;
using rl::cuda::CUevent;
using rl::cuda::CUfunction;
using rl::cuda::CUgraph;
using rl::cuda::CUgraphExec;
using rl::cuda::CUmodule;
using rl::cuda::CUresult;
using rl::cuda::CUstream;
using rl::cuda::CUuuid;

namespace {
constexpr int devices = 2;
constexpr size_t spacing = size_t(512) << 30;  // between the addresses of devices
size_t arena_bytes = spacing;                  // of addresses, per device; less under a limit
constexpr size_t page = 4096;

enum : int {
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  InvalidDevice = 101,
  InvalidContext = 201,
  InvalidImage = 200,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchFailed = 719,
  CaptureUnsupported = 900,
  CaptureInvalidated = 901,
  CaptureMerge = 902,
  CaptureUnjoined = 904,
  CaptureIsolation = 905,
  CaptureImplicit = 906,
  CapturedEvent = 907
};

double now() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}
}  // namespace

namespace rl::cuda {
struct CUctx_st {
  int device;
};
struct Capture;
// How many operations of a capture a stream has behind it, by the streams that were given them.
using Passed = std::map<CUstream, size_t>;
// One record of an event. Who waits for it waits for that record, though the event be recorded
// again meanwhile, on whatever stream.
struct Record {
  bool done = false;
  double time = 0;
  std::shared_ptr<Capture> capture{};  // of a stream that was captured: nothing runs
  Passed passed{};
};
struct CUevent_st {
  std::shared_ptr<Record> last;  // null: never recorded
  bool timed = true, shared = false;
};
struct Operation {
  std::function<void()> run;
  std::shared_ptr<Record> wait;
};
struct CUstream_st {
  int device = 0;
  std::deque<Operation> queue;
  bool legacy = false;
  std::shared_ptr<Capture> capture;  // what becomes of what it is given, or null
  Passed passed;
};
// What a stream was given while it was captured, and those that waited for it meanwhile.
struct Captured {
  Operation operation;
  CUstream stream;
  Passed after;
};
struct Capture {
  CUstream origin;
  std::vector<Captured> operations{};
};
struct CUfunc_st {
  const emulator::KernelDescription* kernel;
  unsigned dynamic_limit = 48 << 10;
};
struct CUmod_st {
  void* handle;
  std::map<std::string, CUfunc_st> functions;
};
struct CUgraph_st {
  std::vector<Captured> operations;
};
struct CUgraphExec_st {
  std::vector<Operation> operations;
};
}  // namespace rl::cuda

using rl::cuda::Capture;
using rl::cuda::Captured;
using rl::cuda::CUctx_st;
using rl::cuda::CUevent_st;
using rl::cuda::CUfunc_st;
using rl::cuda::CUgraph_st;
using rl::cuda::CUgraphExec_st;
using rl::cuda::CUmod_st;
using rl::cuda::CUstream_st;
using rl::cuda::Operation;
using rl::cuda::Passed;
using rl::cuda::Record;

namespace {

struct Device {
  CUctx_st context;
  CUstream_st legacy;
  char* arena = nullptr;
  size_t next = 0, used = 0;
};

std::recursive_mutex mutex;
Device device_list[devices];
std::vector<CUstream> streams;
std::map<CUevent, std::shared_ptr<CUevent_st>> events;
std::map<uintptr_t, size_t> pinned, allocations;
std::map<std::string, int> calls;
size_t total_bytes;
uint64_t seed, state;
int last_error = 0;  // sticky, as on a real device
bool initialized = false, guarded = false, bounds = false, idle = false;
int capability = 90;
thread_local CUcontext current_context = nullptr;
thread_local int capture_mode = 0;

unsigned random_below(unsigned n) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<unsigned>((state >> 33) % n);
}

int protect_depth = 0;
void protect(int how) {
  for (const auto& [at, size] : allocations) {
    uintptr_t begin = at / page * page, end = (at + size + page - 1) / page * page;
    mprotect(reinterpret_cast<void*>(begin), end - begin, how);
  }
}
struct Opened {
  Opened() {
    if (guarded && protect_depth++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  ~Opened() {
    if (guarded && --protect_depth == 0) protect(PROT_NONE);
  }
};

bool runnable(CUstream s) {
  if (s->queue.empty()) return false;
  const Operation& o = s->queue.front();
  return !o.wait || o.wait->done;
}
void step(CUstream s) {
  Operation o = std::move(s->queue.front());
  s->queue.pop_front();
  if (o.run) {
    Opened opened;
    o.run();
  }
}
template <class Predicate> bool run_until(Predicate done) {
  while (!done()) {
    std::vector<CUstream> ready;
    for (CUstream s : streams)
      if (runnable(s)) ready.push_back(s);
    if (ready.empty()) return false;
    step(ready[random_below(static_cast<unsigned>(ready.size()))]);
  }
  return true;
}
// A lazy device: no more is sure to run than what `s` needs.
void drain(CUstream s) {
  while (!s->queue.empty()) {
    if (runnable(s)) {
      step(s);
      continue;
    }
    std::shared_ptr<Record> record = s->queue.front().wait;
    if (!run_until([&] { return record->done; })) {
      std::fprintf(stderr, "simulator: a stream waits for an event that nothing records\n");
      std::abort();
    }
  }
}
void drain_all() {
  for (CUstream s : streams) drain(s);
}
CUstream resolve(CUstream s) {
  int device = current_context ? current_context->device : 0;
  return s ? s : &device_list[device].legacy;
}
int push(CUstream s, Operation o) {
  s = resolve(s);
  if (s->capture) {
    s->capture->operations.push_back({std::move(o), s, s->passed});
    ++s->passed[s];
    return 0;
  }
  s->queue.push_back(std::move(o));
  if (!seed) drain(s);
  else
    while (random_below(4) == 0) {
      CUstream t = streams[random_below(static_cast<unsigned>(streams.size()))];
      if (runnable(t)) step(t);
    }
  return last_error;
}
bool capturing_anywhere() {
  for (CUstream s : streams)
    if (s->capture) return true;
  return false;
}

void merge(Passed& passed, const Passed& more) {
  for (const auto& [stream, count] : more) passed[stream] = std::max(passed[stream], count);
}
// A stream waits for an event of a capture, and so becomes part of it.
int join(CUstream s, const Record& record) {
  if (s->legacy) return CaptureImplicit;
  if (s->capture && s->capture != record.capture) return CaptureMerge;
  if (!record.capture->origin) return CapturedEvent;  // that has ended
  s->capture = record.capture;
  merge(s->passed, record.passed);
  return 0;
}

// What a graph's streams have still to run, each in its order.
using Waiting = std::map<CUstream, std::deque<const Captured*>>;
std::vector<CUstream> ready_streams(const Waiting& waiting, const Passed& done) {
  auto reached = [&](const std::pair<const CUstream, size_t>& needed) {
    auto at = done.find(needed.first);
    return at != done.end() && at->second >= needed.second;
  };
  std::vector<CUstream> ready;
  for (const auto& [stream, list] : waiting)
    if (!list.empty() &&
        std::all_of(list.front()->after.begin(), list.front()->after.end(), reached))
      ready.push_back(stream);
  return ready;
}
// An order in which a graph may run: that of the calls or, by the seed, one in which a stream runs
// on until it has to wait, or another need not any more.
std::vector<Operation> order(const std::vector<Captured>& captured) {
  std::vector<Operation> result;
  if (!seed) {
    for (const Captured& c : captured) result.push_back(c.operation);
    return result;
  }
  Waiting waiting;
  for (const Captured& c : captured) waiting[c.stream].push_back(&c);
  Passed done;
  std::vector<CUstream> ready, before;
  CUstream chosen = nullptr;
  while (!(ready = ready_streams(waiting, done)).empty()) {
    if (ready != before) chosen = ready[random_below(static_cast<unsigned>(ready.size()))];
    before = ready;
    result.push_back(waiting[chosen].front()->operation);
    waiting[chosen].pop_front();
    ++done[chosen];
  }
  return result;
}
bool must_fail(const char* name) {
  static const char* wish = std::getenv("RUSHLIGHT_SIMULATOR_FAIL");
  int count = ++calls[name];
  if (!wish) return false;
  std::string text = wish;
  size_t colon = text.find(':');
  return text.substr(0, colon) == name && std::atoi(text.c_str() + colon + 1) == count;
}
// The allocation that an address lies in, if `size` bytes from there are all inside it.
bool inside(CUdeviceptr p, size_t size) {
  auto it = allocations.upper_bound(static_cast<uintptr_t>(p));
  if (it == allocations.begin()) return false;
  --it;
  return p + size <= it->first + it->second;
}
bool is_pinned(const void* p) {
  auto it = pinned.upper_bound(reinterpret_cast<uintptr_t>(p));
  if (it == pinned.begin()) return false;
  --it;
  return reinterpret_cast<uintptr_t>(p) < it->first + it->second;
}
std::shared_ptr<CUevent_st> shared(CUevent e) {
  auto it = events.find(e);
  return it == events.end() ? nullptr : it->second;
}
}  // namespace

#define API extern "C" __attribute__((visibility("default"))) CUresult
#define ENTER(name)                                  \
  std::lock_guard<std::recursive_mutex> lock(mutex); \
  if (!initialized) return NotInitialized;           \
  if (must_fail(name)) return OutOfMemory
#define ENTER_CONTEXT(name) \
  ENTER(name);              \
  if (!current_context) return InvalidContext

API cuInit(unsigned flags) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  if (flags) return InvalidValue;
  if (initialized) return 0;
  auto number = [](const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  seed = number("RUSHLIGHT_SIMULATOR_SEED", 0);
  state = seed * 77 + 5;
  guarded = number("RUSHLIGHT_SIMULATOR_GUARD", 0);
  idle = number("RUSHLIGHT_SIMULATOR_IDLE", 0);
  capability = static_cast<int>(number("RUSHLIGHT_SIMULATOR_CAPABILITY", 90));
  bounds = number("RUSHLIGHT_SIMULATOR_BOUNDS", 0);
  total_bytes = number("RUSHLIGHT_SIMULATOR_MEMORY", 4096) << 20;
  for (int i = 0; i < devices; ++i) {
    Device& d = device_list[i];
    d.context.device = d.legacy.device = i;
    d.legacy.legacy = true;
    void* address = reinterpret_cast<void*>(0x300000000000ull + i * spacing);
    void* arena = MAP_FAILED;
    for (;; arena_bytes /= 2) {
      if (arena_bytes < size_t(256) << 20) return OutOfMemory;
      arena =
          mmap(address, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (arena != MAP_FAILED) break;
    }
    d.arena = static_cast<char*>(arena);
    streams.push_back(&d.legacy);
  }
  initialized = true;
  return 0;
}
API cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
API cuGetErrorName(CUresult error, const char** name) {
  static const std::map<int, const char*> names = {{0, "CUDA_SUCCESS"},
                                                   {1, "CUDA_ERROR_INVALID_VALUE"},
                                                   {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                                   {101, "CUDA_ERROR_INVALID_DEVICE"},
                                                   {200, "CUDA_ERROR_INVALID_IMAGE"},
                                                   {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                   {500, "CUDA_ERROR_NOT_FOUND"},
                                                   {600, "CUDA_ERROR_NOT_READY"},
                                                   {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                   {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                   {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                                   {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                                                   {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
                                                   {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
                                                   {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
                                                   {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
                                                   {907, "CUDA_ERROR_CAPTURED_EVENT"}};
  auto it = names.find(error);
  if (it == names.end()) return InvalidValue;
  *name = it->second;
  return 0;
}
API cuGetErrorString(CUresult error, const char** text) { return cuGetErrorName(error, text); }
API cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  *count = devices;
  return 0;
}
API cuDeviceGet(CUdevice* device, int i) {
  ENTER("cuDeviceGet");
  if (i < 0 || i >= devices) return InvalidDevice;
  *device = i;
  return 0;
}
API cuDeviceGetName(char* name, int size, CUdevice) {
  ENTER("cuDeviceGetName");
  std::snprintf(name, static_cast<size_t>(size), "rushlight simulator");
  return 0;
}
API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  ENTER("cuDeviceGetUuid_v2");
  std::memset(uuid, 0, sizeof *uuid);
  uuid->bytes[15] = static_cast<unsigned char>(device + 1);
  return 0;
}
API cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  ENTER("cuDeviceTotalMem_v2");
  *bytes = total_bytes;
  return 0;
}
API cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  ENTER("cuDeviceGetAttribute");
  switch (attribute) {
    case rl::cuda::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 227 << 10; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = 228 << 10;
      break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: *value = 64 << 10; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case rl::cuda::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1000000; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1000000; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 64; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = device + 1; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = capability / 10; break;
    case rl::cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = capability % 10; break;
    default: *value = 0;
  }
  return 0;
}
API cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  ENTER("cuDeviceCanAccessPeer");
  *can = 0;
  return 0;
}
API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER("cuDevicePrimaryCtxRetain");
  *context = &device_list[device].context;
  return 0;
}
API cuCtxSetCurrent(CUcontext context) {
  ENTER("cuCtxSetCurrent");
  current_context = context;
  return 0;
}
API cuCtxSynchronize() {
  ENTER_CONTEXT("cuCtxSynchronize");
  if (capturing_anywhere()) return CaptureUnsupported;
  for (CUstream s : streams)
    if (s->device == current_context->device) drain(s);
  return last_error;
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER_CONTEXT("cuMemGetInfo_v2");
  *free = total_bytes - device_list[current_context->device].used;
  *total = total_bytes;
  return 0;
}
API cuMemAlloc_v2(CUdeviceptr* p, size_t size) {
  ENTER_CONTEXT("cuMemAlloc_v2");
  if (!size) return InvalidValue;
  if (capturing_anywhere() && capture_mode != rl::cuda::CU_STREAM_CAPTURE_MODE_RELAXED)
    return CaptureUnsupported;
  Device& d = device_list[current_context->device];
  if (d.used + size > total_bytes) return OutOfMemory;
  size_t rounded = (size + page - 1) / page * page;
  if (d.next + rounded + page > arena_bytes) return OutOfMemory;
  char* begin = d.arena + d.next;
  d.next += rounded + page;  // the page between stays closed
  mprotect(begin, rounded, PROT_READ | PROT_WRITE);
  char* at = begin + (bounds ? (rounded - size) & ~size_t(15) : 0);
  std::memset(begin, 0xff, rounded);
  allocations[reinterpret_cast<uintptr_t>(at)] = size;
  d.used += size;
  if (guarded && !protect_depth) mprotect(begin, rounded, PROT_NONE);
  *p = reinterpret_cast<CUdeviceptr>(at);
  return 0;
}
// ---- memory and events of several processes
//
// Memory that is exported becomes a file without a name, at the same addresses; others map it by
// /proc. Of an exported event, work that it marks is done when it is recorded: a process that waits
// for its turn in another would hang, where GPUs go on by themselves.

namespace {

struct Handle {
  pid_t process;
  int descriptor;
  size_t size;
};
std::map<uintptr_t, int> exported;   // to descriptors
std::map<uintptr_t, size_t> opened;  // sizes

template <class H> void pack(H* handle, const Handle& from) {
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &from, sizeof from);
}
template <class H> Handle unpack(const H& handle) {
  Handle to;
  std::memcpy(&to, &handle, sizeof to);
  return to;
}

// What others still see of memory that is freed is garbage: to free it was too early.
void spoil_exported(uintptr_t begin, size_t size) {
  auto it = exported.find(begin);
  if (it == exported.end()) return;
  std::memset(reinterpret_cast<void*>(begin), 0xff, size);
  close(it->second);
  exported.erase(it);
}

}  // namespace

API cuPointerGetAttribute(void* value, int attribute, CUdeviceptr p) {
  ENTER_CONTEXT("cuPointerGetAttribute");
  if (attribute != rl::cuda::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL || !inside(p, 1))
    return InvalidValue;
  for (int i = 0; i < devices; ++i) {
    auto arena = reinterpret_cast<uintptr_t>(device_list[i].arena);
    if (arena <= p && p < arena + arena_bytes) *static_cast<int*>(value) = i;
  }
  return 0;
}
API cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr p) {
  ENTER_CONTEXT("cuMemGetAddressRange_v2");
  auto it = allocations.upper_bound(static_cast<uintptr_t>(p));
  if (it == allocations.begin()) return InvalidValue;
  --it;
  if (p >= it->first + it->second) return InvalidValue;
  if (base) *base = it->first;
  if (size) *size = it->second;
  return 0;
}
API cuIpcGetMemHandle(rl::cuda::CUipcMemHandle* handle, CUdeviceptr p) {
  ENTER_CONTEXT("cuIpcGetMemHandle");
  auto it = allocations.find(static_cast<uintptr_t>(p));
  if (it == allocations.end() || bounds || opened.count(it->first)) return InvalidValue;
  uintptr_t begin = it->first;
  size_t size = (it->second + page - 1) / page * page;
  if (!exported.count(begin)) {
    drain_all();
    int file = memfd_create("rushlight-simulator", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(size))) return OutOfMemory;
    void* at = reinterpret_cast<void*>(begin);
    if (guarded) mprotect(at, size, PROT_READ | PROT_WRITE);
    if (pwrite(file, at, size, 0) != static_cast<ssize_t>(size)) return OutOfMemory;
    int protection = guarded && !protect_depth ? PROT_NONE : PROT_READ | PROT_WRITE;
    mmap(at, size, protection, MAP_SHARED | MAP_FIXED, file, 0);
    exported[begin] = file;
  }
  pack(handle, {getpid(), exported[begin], it->second});
  return 0;
}
API cuIpcOpenMemHandle_v2(CUdeviceptr* p, rl::cuda::CUipcMemHandle handle, unsigned flags) {
  ENTER_CONTEXT("cuIpcOpenMemHandle_v2");
  Handle h = unpack(handle);
  if (flags != rl::cuda::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return InvalidValue;
  if (h.process == getpid()) return InvalidContext;  // as the driver: of other processes alone
  std::string path = "/proc/" + std::to_string(h.process) + "/fd/" + std::to_string(h.descriptor);
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return InvalidValue;
  Device& d = device_list[current_context->device];
  size_t rounded = (h.size + page - 1) / page * page;
  char* begin = d.arena + d.next;
  d.next += rounded + page;
  void* at = mmap(begin, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  close(file);
  if (at == MAP_FAILED) return OutOfMemory;
  if (guarded && !protect_depth) mprotect(at, rounded, PROT_NONE);
  opened[reinterpret_cast<uintptr_t>(begin)] = rounded;
  allocations[reinterpret_cast<uintptr_t>(begin)] = h.size;
  *p = reinterpret_cast<CUdeviceptr>(begin);
  return 0;
}
API cuIpcCloseMemHandle(CUdeviceptr p) {
  ENTER_CONTEXT("cuIpcCloseMemHandle");
  auto it = opened.find(static_cast<uintptr_t>(p));
  if (it == opened.end()) return InvalidValue;
  drain_all();
  mmap(reinterpret_cast<void*>(it->first), it->second, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  allocations.erase(it->first);
  opened.erase(it);
  return 0;
}
API cuMemFree_v2(CUdeviceptr p) {
  ENTER_CONTEXT("cuMemFree_v2");
  auto it = allocations.find(static_cast<uintptr_t>(p));
  if (it == allocations.end()) return InvalidValue;
  drain_all();
  uintptr_t begin = it->first / page * page;
  size_t size = (it->first + it->second + page - 1) / page * page - begin;
  if (opened.count(begin)) return InvalidValue;  // another process's
  spoil_exported(begin, size);
  // Gives the pages back and leaves the addresses closed for good.
  mmap(reinterpret_cast<void*>(begin), size, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  for (Device& d : device_list)
    if (reinterpret_cast<uintptr_t>(d.arena) <= begin &&
        begin < reinterpret_cast<uintptr_t>(d.arena) + arena_bytes)
      d.used -= it->second;
  allocations.erase(it);
  return 0;
}
// ---- addresses, and memory that is mapped there

namespace {

std::map<unsigned long long, size_t> created;            // memory by handle
std::map<uintptr_t, unsigned long long> mapped_handles;  // by address

// Takes [begin, begin + size) out of the allocations.
void cut_out(uintptr_t begin, size_t size) {
  auto it = std::prev(allocations.upper_bound(begin));
  uintptr_t from = it->first, to = it->first + it->second;
  allocations.erase(it);
  if (from < begin) allocations[from] = begin - from;
  if (begin + size < to) allocations[begin + size] = to - begin - size;
}
// Adds it, and makes it one with what lies beside it.
void add_mapped(uintptr_t begin, size_t size) {
  auto next = allocations.find(begin + size);
  if (next != allocations.end() && mapped_handles.count(next->first)) {
    size += next->second;
    allocations.erase(next);
  }
  auto at = allocations.lower_bound(begin);
  if (at != allocations.begin()) {
    auto before = std::prev(at);
    if (before->first + before->second == begin && mapped_handles.count(before->first)) {
      before->second += size;
      return;
    }
  }
  allocations[begin] = size;
}

}  // namespace

API cuMemAddressReserve(CUdeviceptr* p, size_t size, size_t, CUdeviceptr, unsigned long long) {
  ENTER_CONTEXT("cuMemAddressReserve");
  if (!size || size % (size_t(2) << 20)) return InvalidValue;
  Device& d = device_list[current_context->device];
  if (d.next + size + page > arena_bytes) return OutOfMemory;
  *p = reinterpret_cast<CUdeviceptr>(d.arena + d.next);
  d.next += size + page;
  return 0;
}
API cuMemAddressFree(CUdeviceptr p, size_t size) {
  ENTER_CONTEXT("cuMemAddressFree");
  auto it = mapped_handles.lower_bound(p);
  return it != mapped_handles.end() && it->first < p + size ? InvalidValue : 0;
}
API cuMemCreate(unsigned long long* handle, size_t size, const rl::cuda::CUmemAllocationProp* kind,
                unsigned long long) {
  ENTER_CONTEXT("cuMemCreate");
  if (!size || size % (size_t(2) << 20) || kind->type != rl::cuda::CU_MEM_ALLOCATION_TYPE_PINNED)
    return InvalidValue;
  if (capturing_anywhere() && capture_mode != rl::cuda::CU_STREAM_CAPTURE_MODE_RELAXED)
    return CaptureUnsupported;
  Device& d = device_list[kind->location.id];
  if (d.used + size > total_bytes) return OutOfMemory;
  d.used += size;
  static unsigned long long next = 1;
  created[*handle = next++] = size;
  return 0;
}
API cuMemMap(CUdeviceptr p, size_t size, size_t offset, unsigned long long handle,
             unsigned long long) {
  ENTER_CONTEXT("cuMemMap");
  auto it = created.find(handle);
  if (it == created.end() || offset || size != it->second || inside(p, 1)) return InvalidValue;
  mapped_handles[p] = handle;
  return 0;
}
API cuMemSetAccess(CUdeviceptr p, size_t size, const rl::cuda::CUmemAccessDesc* access, size_t) {
  ENTER_CONTEXT("cuMemSetAccess");
  if (access->flags != rl::cuda::CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return InvalidValue;
  for (CUdeviceptr at = p; at < p + size;) {
    auto it = mapped_handles.find(at);
    if (it == mapped_handles.end()) return InvalidValue;
    at += created[it->second];
  }
  mprotect(reinterpret_cast<void*>(p), size, PROT_READ | PROT_WRITE);
  std::memset(reinterpret_cast<void*>(p), 0xff, size);
  add_mapped(p, size);
  if (guarded && !protect_depth) mprotect(reinterpret_cast<void*>(p), size, PROT_NONE);
  return 0;
}
API cuMemUnmap(CUdeviceptr p, size_t size) {
  ENTER_CONTEXT("cuMemUnmap");
  auto it = mapped_handles.find(p);
  if (it == mapped_handles.end() || created[it->second] != size) return InvalidValue;
  cut_out(p, size);
  mapped_handles.erase(it);
  mmap(reinterpret_cast<void*>(p), size, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return 0;
}
API cuMemRelease(unsigned long long handle) {
  ENTER_CONTEXT("cuMemRelease");
  auto it = created.find(handle);
  if (it == created.end()) return InvalidValue;
  device_list[current_context->device].used -= it->second;
  created.erase(it);
  return 0;
}
API cuMemHostAlloc(void** p, size_t size, unsigned) {
  ENTER_CONTEXT("cuMemHostAlloc");
  if (posix_memalign(p, page, size ? size : 1)) return OutOfMemory;
  pinned[reinterpret_cast<uintptr_t>(*p)] = size;
  return 0;
}
API cuMemFreeHost(void* p) {
  ENTER_CONTEXT("cuMemFreeHost");
  if (!pinned.count(reinterpret_cast<uintptr_t>(p))) return InvalidValue;
  drain_all();
  pinned.erase(reinterpret_cast<uintptr_t>(p));
  std::free(p);
  return 0;
}
API cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* p, unsigned) {
  ENTER_CONTEXT("cuMemHostGetDevicePointer_v2");
  if (!is_pinned(p)) return InvalidValue;
  *device = reinterpret_cast<CUdeviceptr>(p);
  return 0;
}
API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream s) {
  ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
  if (size && !inside(to, size)) return InvalidValue;
  if (is_pinned(from))
    return push(s, {[=] { std::memcpy(reinterpret_cast<void*>(to), from, size); }, nullptr});
  if (resolve(s)->capture) return CaptureUnsupported;
  const char* begin = static_cast<const char*>(from);  // pageable: staged at the call
  auto staged = std::make_shared<std::vector<char>>(begin, begin + size);
  return push(s,
              {[=] { std::memcpy(reinterpret_cast<void*>(to), staged->data(), size); }, nullptr});
}
API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream s) {
  ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
  if (size && !inside(from, size)) return InvalidValue;
  if (!is_pinned(to) && resolve(s)->capture) return CaptureUnsupported;
  int result = push(s, {[=] { std::memcpy(to, reinterpret_cast<void*>(from), size); }, nullptr});
  if (!is_pinned(to)) drain(resolve(s));
  return last_error ? last_error : result;
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream s) {
  ENTER_CONTEXT("cuMemcpyDtoDAsync_v2");
  if (size && (!inside(to, size) || !inside(from, size))) return InvalidValue;
  return push(
      s, {[=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size); },
          nullptr});
}
API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size,
                      CUstream s) {
  return cuMemcpyDtoDAsync_v2(to, from, size, s);
}
API cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream s) {
  ENTER_CONTEXT("cuMemsetD8Async");
  if (size && !inside(to, size)) return InvalidValue;
  return push(s, {[=] { std::memset(reinterpret_cast<void*>(to), value, size); }, nullptr});
}
API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream s) {
  ENTER_CONTEXT("cuMemsetD32Async");
  if (to % 4 || (count && !inside(to, 4 * count))) return InvalidValue;
  return push(s, {[=] {
                    auto* at = reinterpret_cast<unsigned*>(to);
                    for (size_t i = 0; i < count; ++i) at[i] = value;
                  },
                  nullptr});
}
API cuLaunchHostFunc(CUstream s, void (*function)(void*), void* data) {
  ENTER_CONTEXT("cuLaunchHostFunc");
  return push(s, {[=] { function(data); }, nullptr});
}
API cuStreamCreateWithPriority(CUstream* s, unsigned, int) {
  ENTER_CONTEXT("cuStreamCreateWithPriority");
  *s = new CUstream_st;
  (*s)->device = current_context->device;
  streams.push_back(*s);
  return 0;
}
API cuStreamDestroy_v2(CUstream s) {
  ENTER_CONTEXT("cuStreamDestroy_v2");
  drain(s);
  for (size_t i = 0; i < streams.size(); ++i)
    if (streams[i] == s) streams.erase(streams.begin() + static_cast<long>(i));
  delete s;
  return 0;
}
API cuStreamSynchronize(CUstream s) {
  ENTER_CONTEXT("cuStreamSynchronize");
  if (resolve(s)->capture) return CaptureUnsupported;
  drain(resolve(s));
  return last_error;
}
API cuStreamQuery(CUstream s) {
  ENTER_CONTEXT("cuStreamQuery");
  s = resolve(s);
  if (s->capture) return CaptureUnsupported;
  if (runnable(s) && random_below(2)) step(s);
  return s->queue.empty() ? last_error : NotReady;
}
API cuStreamWaitEvent(CUstream s, CUevent e, unsigned) {
  ENTER_CONTEXT("cuStreamWaitEvent");
  std::shared_ptr<CUevent_st> event = shared(e);
  if (!event) return InvalidValue;
  if (!event->last) return 0;
  if (event->last->capture) return join(resolve(s), *event->last);
  if (resolve(s)->capture) return CaptureIsolation;
  return push(s, {nullptr, event->last});
}
API cuEventCreate(CUevent* e, unsigned flags) {
  ENTER_CONTEXT("cuEventCreate");
  auto event = std::make_shared<CUevent_st>();
  event->timed = !(flags & rl::cuda::CU_EVENT_DISABLE_TIMING);
  event->shared = flags & rl::cuda::CU_EVENT_INTERPROCESS;
  if (event->shared && event->timed) return InvalidValue;
  *e = event.get();
  events[*e] = event;
  return 0;
}
API cuEventDestroy_v2(CUevent e) {
  ENTER("cuEventDestroy_v2");
  return events.erase(e) ? 0 : InvalidValue;
}
API cuEventRecord(CUevent e, CUstream s) {
  ENTER_CONTEXT("cuEventRecord");
  std::shared_ptr<CUevent_st> event = shared(e);
  if (!event) return InvalidValue;
  auto record = std::make_shared<Record>();
  event->last = record;
  if (CUstream captured = resolve(s); captured->capture) {
    record->capture = captured->capture;
    record->passed = captured->passed;
    return 0;
  }
  CUresult pushed = push(s, {[=] {
                               record->done = true;
                               record->time = now();
                             },
                             nullptr});
  if (event->shared && !pushed) drain(resolve(s));
  return pushed;
}
API cuIpcGetEventHandle(rl::cuda::CUipcEventHandle* handle, CUevent e) {
  ENTER("cuIpcGetEventHandle");
  std::shared_ptr<CUevent_st> event = shared(e);
  if (!event || !event->shared) return InvalidValue;
  pack(handle, {getpid(), 0, 0});
  return 0;
}
API cuIpcOpenEventHandle(CUevent* e, rl::cuda::CUipcEventHandle handle) {
  ENTER_CONTEXT("cuIpcOpenEventHandle");
  if (unpack(handle).process == getpid()) return InvalidContext;
  auto event = std::make_shared<CUevent_st>();  // what it marks is done
  event->shared = true;
  *e = event.get();
  events[*e] = event;
  return 0;
}
API cuEventQuery(CUevent e) {
  ENTER("cuEventQuery");
  std::shared_ptr<CUevent_st> event = shared(e);
  if (!event) return InvalidValue;
  if (event->last && event->last->capture) return CapturedEvent;
  if (event->last && !event->last->done) {
    CUstream s = streams[random_below(static_cast<unsigned>(streams.size()))];
    if (runnable(s)) step(s);
  }
  return !event->last || event->last->done ? last_error : NotReady;
}
API cuEventSynchronize(CUevent e) {
  ENTER("cuEventSynchronize");
  std::shared_ptr<CUevent_st> event = shared(e);
  if (!event) return InvalidValue;
  std::shared_ptr<Record> record = event->last;
  if (!record) return last_error;
  if (record->capture) return CapturedEvent;
  return run_until([&] { return record->done; }) ? last_error : LaunchFailed;
}
API cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  ENTER("cuEventElapsedTime");
  std::shared_ptr<CUevent_st> a = shared(begin), b = shared(end);
  if (!a || !b || !a->timed || !b->timed || !a->last || !b->last) return InvalidValue;
  if (!a->last->done || !b->last->done) return NotReady;
  *milliseconds = static_cast<float>(b->last->time - a->last->time);
  return 0;
}
// An image is a length and the ELF file that the simulator's libnvrtc made.
API cuModuleLoadData(CUmodule* module, const void* image) {
  ENTER_CONTEXT("cuModuleLoadData");
  if (capturing_anywhere() && capture_mode != rl::cuda::CU_STREAM_CAPTURE_MODE_RELAXED)
    return CaptureUnsupported;
  uint64_t size;
  std::memcpy(&size, image, 8);
  if (idle) {
    *module = new CUmod_st{nullptr, {}};
    return 0;
  }
  // A name of its own for each: the dynamic linker takes equal names for one library.
  char path[] = "/tmp/rushlight-module-XXXXXX";
  int file = mkstemp(path);
  if (file < 0) return OutOfMemory;
  bool written =
      write(file, static_cast<const char*>(image) + 8, size) == static_cast<ssize_t>(size);
  close(file);
  void* handle = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path);
  if (!handle) {
    std::fprintf(stderr, "simulator: %s\n", dlerror());
    return InvalidImage;
  }
  *module = new CUmod_st{handle, {}};
  return 0;
}
API cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER_CONTEXT("cuModuleGetFunction");
  if (idle) {
    *function = &module->functions[name];
    return 0;
  }
  void* symbol = dlsym(module->handle, name);
  if (!symbol) return NotFound;
  auto describe = reinterpret_cast<const emulator::KernelDescription* (*)()>(symbol);
  CUfunc_st& found = module->functions[name];
  found.kernel = describe();
  *function = &found;
  return 0;
}
API cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  ENTER("cuFuncSetAttribute");
  if (attribute != rl::cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return InvalidValue;
  if (value < 0 || value > 227 << 10) return InvalidValue;
  function->dynamic_limit = static_cast<unsigned>(value);
  return 0;
}
API cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   CUstream s, void** parameters, void** extra) {
  if (idle) return 0;
  ENTER_CONTEXT("cuLaunchKernel");
  if (extra || !grid_x || !grid_y || !grid_z || grid_y > 65535 || grid_z > 65535)
    return InvalidValue;
  uint64_t threads = uint64_t(block_x) * block_y * block_z;
  if (!threads || threads > 1024 || block_z > 64) return InvalidValue;
  if (grid_x > 0x7fffffffu || shared_bytes > function->dynamic_limit) return InvalidValue;
  if (resolve(s)->device != current_context->device) return InvalidContext;
  const emulator::KernelDescription* kernel = function->kernel;
  size_t parameter_bytes = 0;
  auto values = std::make_shared<std::vector<std::vector<char>>>();  // read now, by value
  for (int i = 0; i < kernel->arguments; ++i) {
    const char* value = static_cast<const char*>(parameters[i]);
    values->emplace_back(value, value + kernel->sizes[i]);
    parameter_bytes += (kernel->sizes[i] + 7) / 8 * 8;
  }
  if (parameter_bytes > 4096) return InvalidValue;
  auto run = [=] {
    std::vector<void*> arguments;
    for (std::vector<char>& v : *values) arguments.push_back(v.data());
    try {
      emulator::run_grid(kernel->call, arguments.data(), {grid_x, grid_y, grid_z},
                         {block_x, block_y, block_z}, shared_bytes, seed);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "simulator: %s: %s\n", kernel->name, e.what());
      last_error = LaunchFailed;
    }
  };
  return push(s, {run, nullptr});
}
API cuStreamBeginCapture_v2(CUstream s, int) {
  ENTER_CONTEXT("cuStreamBeginCapture_v2");
  if (!s) return CaptureUnsupported;  // never the legacy stream
  if (s->capture) return CaptureInvalidated;
  s->capture = std::make_shared<Capture>(Capture{s});
  s->passed.clear();
  return 0;
}
API cuStreamEndCapture(CUstream s, CUgraph* graph) {
  ENTER_CONTEXT("cuStreamEndCapture");
  if (!s || !s->capture || s->capture->origin != s) return CaptureInvalidated;
  std::shared_ptr<Capture> capture = s->capture;
  bool joined = true;
  for (CUstream other : streams) {
    if (other->capture != capture) continue;
    joined = joined && s->passed[other] >= other->passed[other];
    other->capture = nullptr;
    if (other != s) other->passed.clear();
  }
  s->passed.clear();
  capture->origin = nullptr;
  if (!joined) return CaptureUnjoined;
  *graph = new CUgraph_st{std::move(capture->operations)};
  return 0;
}
API cuStreamIsCapturing(CUstream s, int* status) {
  ENTER_CONTEXT("cuStreamIsCapturing");
  *status = resolve(s)->capture != nullptr;
  return 0;
}
API cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return 0;
}
API cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  ENTER_CONTEXT("cuGraphInstantiateWithFlags");
  *executable = new CUgraphExec_st{order(graph->operations)};
  return 0;
}
API cuGraphLaunch(CUgraphExec executable, CUstream s) {
  ENTER_CONTEXT("cuGraphLaunch");
  int result = 0;
  for (const Operation& o : executable->operations) result = push(s, o);
  return result;
}
API cuGraphDestroy(CUgraph graph) {
  delete graph;
  return 0;
}
API cuGraphExecDestroy(CUgraphExec executable) {
  ENTER("cuGraphExecDestroy");
  delete executable;
  return 0;
}
