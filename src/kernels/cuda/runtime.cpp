#include "kernels/cuda/runtime.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/device_streams.h"
#include "core/warning.h"
#include "kernels/cuda/allocator.h"
#include "kernels/cuda/device/fault.h"
#include "kernels/cuda/fault.h"

namespace rl::cuda {
namespace {

constexpr int streams_per_pool = 32;

struct DeviceState {
  CUdevice handle = 0;
  CUcontext context = nullptr;
  Properties properties{};
  Fault* fault = nullptr;
  CUdeviceptr fault_address = 0;
  std::mutex mutex;
  std::vector<CUstream> streams[2];
  unsigned next_stream[2] = {0, 0};
  std::vector<CUevent> events;
};

DeviceState* states = nullptr;
std::atomic<int> count{-1};
std::atomic<bool> forked{false}, blocking{false};
std::mutex start_mutex;

struct ThreadSelection {
  int device = 0, context_device = -1;
  CUstream streams[max_devices] = {};
};
// Behind a key, as bytes of the module's own thread storage are few.
ThreadSelection& own_selection() {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    check(!pthread_key_create(&made, [](void* p) { delete static_cast<ThreadSelection*>(p); }),
          "no key for the state of a thread is left");
    return made;
  }();
  void* found = pthread_getspecific(key);
  if (__builtin_expect(!found, 0)) {
    found = new ThreadSelection;
    pthread_setspecific(key, found);
  }
  return *static_cast<ThreadSelection*>(found);
}

constexpr int remembered_launches = 16;
std::atomic<const char*> launches[remembered_launches];
std::atomic<unsigned> next_launch{0};

void after_fork_in_child() {
  if (count.load() > 0) forked = true;
}

int attribute(int which, CUdevice device) {
  int value = 0;
  RL_CUDA(cuDeviceGetAttribute, &value, which, device);
  return value;
}

void read_properties(DeviceState& s) {
  Properties& p = s.properties;
  char name[256] = "";
  RL_CUDA(cuDeviceGetName, name, sizeof name, s.handle);
  p.name = name;
  CUuuid uuid;
  RL_CUDA(cuDeviceGetUuid_v2, &uuid, s.handle);
  std::memcpy(p.uuid, uuid.bytes, sizeof p.uuid);
  RL_CUDA(cuDeviceTotalMem_v2, &p.total_memory, s.handle);
  p.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, s.handle);
  p.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, s.handle);
  p.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, s.handle);
  p.threads_per_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, s.handle);
  p.threads_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, s.handle);
  p.warp_size = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, s.handle);
  p.shared_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, s.handle);
  p.shared_bytes_optin = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, s.handle);
  p.shared_bytes_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, s.handle);
  p.registers_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, s.handle);
  p.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, s.handle);
  p.clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, s.handle);
  p.memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, s.handle);
  p.memory_bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, s.handle);
  p.pci_domain = attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, s.handle);
  p.pci_bus = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, s.handle);
  p.pci_device = attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, s.handle);
  p.integrated = attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED, s.handle);
  p.multi_gpu_board = attribute(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, s.handle);
}

std::atomic<int> debug_mode{0};

// Streams, as layers that know no CUDA ask for them.
void* current_of(Device d) { return current_stream(d.index); }
void set_current_of(Device d, void* stream) {
  own_selection().streams[d.index] = static_cast<CUstream>(stream);
}
void wait_of(Device d, void* waiting, void* other) {
  use(d.index);
  wait_for_stream(d.index, static_cast<CUstream>(waiting), static_cast<CUstream>(other));
}
void keep_of(Device d, void* memory, void* stream) {
  record_stream(memory, d.index, static_cast<CUstream>(stream));
}
const DeviceStreams streams_of_devices{current_of, set_current_of, wait_of, keep_of};

// The context of a device, and where its kernels report faults: made when it is first used.
void open_context(int device) {
  DeviceState& s = states[device];
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.fault) return;
  RL_CUDA(cuDevicePrimaryCtxRetain, &s.context, s.handle);
  RL_CUDA(cuCtxSetCurrent, s.context);
  void* fault = nullptr;
  RL_CUDA(cuMemHostAlloc, &fault, sizeof(Fault),
          CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  std::memset(fault, 0, sizeof(Fault));
  RL_CUDA(cuMemHostGetDevicePointer_v2, &s.fault_address, fault, 0);
  s.fault = static_cast<Fault*>(fault);
}

void start() {
  std::lock_guard<std::mutex> lock(start_mutex);
  if (count >= 0) return;
  if (!why_unavailable().empty()) {
    count = 0;
    return;
  }
  int found = 0;
  RL_CUDA(cuDeviceGetCount, &found);
  if (found > max_devices) found = max_devices;
  auto* fresh = new DeviceState[static_cast<size_t>(found)];
  for (int i = 0; i < found; ++i) {
    RL_CUDA(cuDeviceGet, &fresh[i].handle, i);
    read_properties(fresh[i]);
  }
  states = fresh;
  const char* launch_blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  blocking = launch_blocking && *launch_blocking == '1';
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  count = found;
}

}  // namespace

void fail_call(CUresult status, const char* call) {
  const char* name = nullptr;
  if (driver().cuGetErrorName) driver().cuGetErrorName(status, &name);
  if (status == CUDA_ERROR_OUT_OF_MEMORY)
    fail(ErrorKind::OutOfMemory, "CUDA out of memory: ", call, " failed");
  std::string last;
  unsigned next = next_launch;
  for (unsigned i = 0; i < remembered_launches && i < next; ++i)
    if (const char* kernel = launches[(next - 1 - i) % remembered_launches])
      last += (last.empty() ? "; the last kernels launched, newest first: " : ", ") +
              std::string(kernel);
  fail(ErrorKind::Runtime, "CUDA error: ", name ? name : "unknown", " (", status, ") from ", call,
       last);
}

int device_count() {
  if (count < 0) start();
  return count;
}
bool was_initialized() {
  if (count <= 0) return false;
  for (int i = 0; i < count; ++i)
    if (states[i].fault) return true;
  return false;
}
void require() {
  check(!forked,
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn' start method");
  if (device_count() == 0)
    fail(ErrorKind::Assertion, "CUDA is not available: ", why_unavailable(),
         "; or use device 'cpu'");
}
const Properties& properties(int device) {
  require();
  check(device >= 0 && device < count, "invalid device ordinal ", device, ": there are ",
        device_count());
  return states[device].properties;
}

int current_device() { return own_selection().device; }
void set_device(int device) {
  if (device == own_selection().device) return;
  require();
  check(device >= 0 && device < count, "invalid device ordinal ", device, ": there are ",
        device_count());
  own_selection().device = device;
}
CUstream current_stream(int device) { return own_selection().streams[device]; }
void set_current_stream(int device, CUstream stream) {
  own_selection().streams[device] = stream;
  if (stream) device_streams.store(&streams_of_devices, std::memory_order_release);
}

void use(int device) {
  if (__builtin_expect(own_selection().context_device == device && !forked, 1)) return;
  require();
  open_context(device);
  RL_CUDA(cuCtxSetCurrent, states[device].context);
  own_selection().context_device = device;
}
CUcontext context_of(int device) {
  use(device);
  return states[device].context;
}

int device_of_pointer(const void* data) {
  use(current_device());
  int device = 0;
  RL_CUDA(cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
          reinterpret_cast<CUdeviceptr>(data));
  return device;
}

CUstream pooled_stream(int device, bool high_priority) {
  use(device);
  DeviceState& s = states[device];
  std::lock_guard<std::mutex> lock(s.mutex);
  std::vector<CUstream>& pool = s.streams[high_priority];
  unsigned place = s.next_stream[high_priority]++ % streams_per_pool;
  if (place == pool.size()) {
    CUstream fresh = nullptr;
    RL_CUDA(cuStreamCreateWithPriority, &fresh, CU_STREAM_NON_BLOCKING, high_priority ? -1 : 0);
    pool.push_back(fresh);
  }
  return pool[place];
}

CUevent take_event(int device) {
  use(device);
  DeviceState& s = states[device];
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    if (!s.events.empty()) {
      CUevent event = s.events.back();
      s.events.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  RL_CUDA(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  return event;
}
void give_back_event(int device, CUevent event) {
  std::lock_guard<std::mutex> lock(states[device].mutex);
  states[device].events.push_back(event);
}

void synchronize_device(int device) {
  use(device);
  RL_CUDA(cuCtxSynchronize);
  raise_fault(device);
}
void synchronize_stream(int device, CUstream stream) {
  use(device);
  RL_CUDA(cuStreamSynchronize, stream);
  raise_fault(device);
}
void note_waiting() {
  const char* text = "this call waits for the GPU: it needs data that is computed there";
  if (debug_mode == 2) fail(ErrorKind::Runtime, text);
  if (debug_mode == 1) warn(text);
}
int sync_debug_mode() { return debug_mode; }
void set_sync_debug_mode(int mode) { debug_mode = mode; }
void synchronize_event(CUevent event) { RL_CUDA(cuEventSynchronize, event); }

void wait_for_stream(int device, CUstream waiting, CUstream other) {
  if (waiting == other) return;
  CUevent event = take_event(device);
  RL_CUDA(cuEventRecord, event, other);
  RL_CUDA(cuStreamWaitEvent, waiting, event, 0);
  give_back_event(device, event);  // a wait keeps the record that it was given
}

Fault* fault_of(int device) { return states[device].fault; }
CUdeviceptr fault_address(int device) { return states[device].fault_address; }

bool blocking_launches() { return blocking.load(std::memory_order_relaxed); }
void set_blocking_launches(bool value) { blocking = value; }

void note_launch(const char* kernel) {
  launches[next_launch.fetch_add(1, std::memory_order_relaxed) % remembered_launches].store(
      kernel, std::memory_order_relaxed);
}

bool is_capturing(int device) {
  CUstream stream = current_stream(device);
  if (!stream) return false;  // the default stream cannot
  int status = 0;
  use(device);
  RL_CUDA(cuStreamIsCapturing, stream, &status);
  return status != 0;
}

}  // namespace rl::cuda
