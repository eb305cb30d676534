#include "kernels/cuda/backend.h"

#include "core/device_placement.h"
#include "core/interpreter.h"
#include "kernels/backend.h"
#include "kernels/cuda/allocator.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/timeline.h"

namespace rl::cuda {
namespace {

kernels::KernelTable table;

void* allocate(size_t bytes, Device device) { return allocate_device(bytes, device.index); }
void deallocate(void* data, size_t, Device device) { free_device(data, device.index); }

void copy_memory(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  auto address = [](const void* p) { return reinterpret_cast<CUdeviceptr>(p); };
  if (to_device.is_cpu()) {
    int device = from_device.index;
    use(device);
    CUstream stream = current_stream(device);
    bool pinned = copies_may_wait() && is_pinned(to);
    if (!pinned) note_waiting();
    {
      timeline::Piece piece("Memcpy DtoH", device, stream);
      RL_CUDA(cuMemcpyDtoHAsync_v2, to, address(from), bytes, stream);
    }
    if (pinned) return record_pinned(to, device, stream);
    ScopedGilReleaseWait released(true);
    synchronize_stream(device, stream);
  } else if (from_device.is_cpu()) {
    int device = to_device.index;
    use(device);
    CUstream stream = current_stream(device);
    {
      timeline::Piece piece("Memcpy HtoD", device, stream);
      RL_CUDA(cuMemcpyHtoDAsync_v2, address(to), from, bytes, stream);
    }
    if (!is_pinned(from)) return;  // the driver has read it
    if (copies_may_wait()) return record_pinned(from, device, stream);
    ScopedGilReleaseWait released(true);
    synchronize_stream(device, stream);
  } else if (to_device.index == from_device.index) {
    use(to_device.index);
    CUstream stream = current_stream(to_device.index);
    timeline::Piece piece("Memcpy DtoD", to_device.index, stream);
    RL_CUDA(cuMemcpyDtoDAsync_v2, address(to), address(from), bytes, stream);
  } else {  // on the source's stream, which waits for the target's and makes it wait
    int source = from_device.index, target = to_device.index;
    CUcontext target_context = context_of(target);
    CUstream target_stream = current_stream(target);
    CUevent ready = take_event(target);
    RL_CUDA(cuEventRecord, ready, target_stream);
    CUcontext source_context = context_of(source);
    CUstream source_stream = current_stream(source);
    RL_CUDA(cuStreamWaitEvent, source_stream, ready, 0);
    {
      timeline::Piece piece("Memcpy PtoP", source, source_stream);
      RL_CUDA(cuMemcpyPeerAsync, address(to), target_context, address(from), source_context, bytes,
              source_stream);
    }
    CUevent done = take_event(source);
    RL_CUDA(cuEventRecord, done, source_stream);
    use(target);
    RL_CUDA(cuStreamWaitEvent, target_stream, done, 0);
    give_back_event(target, ready);
    give_back_event(source, done);
    use(current_device());
  }
}
const DeviceMemory memory{allocate, deallocate, copy_memory};

void (*prepare_libraries)() = nullptr;

void prepare() {
  // Not by std::call_once, which is thread storage of libstdc++'s: a library that was loaded by
  // another module has none left for ours.
  static const bool done = [] {
    if (prepare_libraries) prepare_libraries();
    return true;
  }();
  (void)done;
}
void start() {
  prepare();
  require();
  static const bool done = [] {
    fill_table(table);
    kernels::register_backend(DeviceType::CUDA, table, memory);
    return true;
  }();
  (void)done;
}
int count() {
  prepare();
  return device_count();
}
const BackendStart lazy{start, current_device, count};

}  // namespace

void install(void (*prepare)()) {
  prepare_libraries = prepare;
  backend_starts[static_cast<int>(DeviceType::CUDA)] = &lazy;
}

}  // namespace rl::cuda
