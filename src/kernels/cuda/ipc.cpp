#include "kernels/cuda/ipc.h"

#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "core/fork_mutex.h"
#include "kernels/cuda/allocator.h"
#include "kernels/cuda/runtime.h"

namespace rl::cuda {
namespace {

// What is mapped of other processes' memory: the driver maps an allocation once.
struct Mapping {
  CUdeviceptr base = 0;
  int64_t users = 0;
};
using Key = std::pair<int, std::string>;

ForkMutex& mappings_mutex() {
  static auto* mutex = new ForkMutex(ForkRank::Mappings);
  return *mutex;
}
std::map<Key, Mapping>& mappings() {
  static auto* all = new std::map<Key, Mapping>;  // storages may die after static objects
  return *all;
}

struct Opened {
  Key key;
  Ref<Storage> flags;
  unsigned char* flag;
  pid_t process;
};

// Ends what a storage has opened. Nothing can be raised here: a driver that is gone has let go.
void release_opened(void* context) {
  std::unique_ptr<Opened> opened(static_cast<Opened*>(context));
  if (opened->process != getpid()) return;  // of the parent of this process
  int device = opened->key.first;
  driver().cuCtxSetCurrent(context_of(device));
  driver().cuStreamSynchronize(current_stream(device));
  {
    ForkLock lock(mappings_mutex());
    auto found = mappings().find(opened->key);
    if (found != mappings().end() && --found->second.users == 0) {
      driver().cuIpcCloseMemHandle(found->second.base);
      mappings().erase(found);
    }
  }
  __atomic_store_n(opened->flag, 0, __ATOMIC_RELEASE);
}

CUdeviceptr mapped(const Key& key) {
  CUipcMemHandle handle;
  check(key.second.size() == sizeof handle, "open_memory: expected a handle of ", sizeof handle,
        " bytes, got ", key.second.size());
  std::memcpy(&handle, key.second.data(), sizeof handle);
  ForkLock lock(mappings_mutex());
  Mapping& mapping = mappings()[key];
  if (!mapping.users) {
    int status =
        driver().cuIpcOpenMemHandle_v2(&mapping.base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (status) mappings().erase(key);
    check_call(status, "cuIpcOpenMemHandle");
  }
  ++mapping.users;
  return mapping.base;
}

}  // namespace

ExportedMemory export_memory(const void* data, int device) {
  check(!is_expandable(data, device),
        "memory of expandable segments cannot be sent to other processes: copy the tensor to the "
        "CPU, or do without expandable_segments");
  use(device);
  CUdeviceptr at = reinterpret_cast<CUdeviceptr>(data), base = 0;
  size_t size = 0;
  RL_CUDA(cuMemGetAddressRange_v2, &base, &size, at);
  CUipcMemHandle handle;
  RL_CUDA(cuIpcGetMemHandle, &handle, base);
  return {std::string(handle.reserved, sizeof handle.reserved), static_cast<int64_t>(at - base)};
}

Ref<Storage> open_memory(const std::string& handle, int device, int64_t offset, int64_t nbytes,
                         Ref<Storage> flags, int64_t index) {
  check(offset >= 0 && nbytes >= 0 && index >= 0 && index < flags->nbytes,
        "open_memory: bad offset ", offset, ", size ", nbytes, " or index ", index);
  use(device);
  auto opened = std::make_unique<Opened>();
  opened->key = {device, handle};
  opened->flag = static_cast<unsigned char*>(flags->data) + index;
  opened->flags = std::move(flags);
  opened->process = getpid();
  char* base = reinterpret_cast<char*>(mapped(opened->key));
  Ref<Storage> storage = Storage::borrow(base + offset, nbytes, release_opened, opened.release());
  storage->device = Device{DeviceType::CUDA, static_cast<int8_t>(device)};
  return storage;
}

bool is_opened(const Storage& storage) {
  const Storage& root = storage.alias_of ? *storage.alias_of : storage;
  return root.release == release_opened;
}

CUevent new_shared_event(int device) {
  use(device);
  CUevent event = nullptr;
  RL_CUDA(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  return event;
}

std::string export_event(CUevent event) {
  CUipcEventHandle handle;
  RL_CUDA(cuIpcGetEventHandle, &handle, event);
  return std::string(handle.reserved, sizeof handle.reserved);
}

CUevent open_event(const std::string& text, int device) {
  CUipcEventHandle handle;
  check(text.size() == sizeof handle, "open_event: expected a handle of ", sizeof handle,
        " bytes, got ", text.size());
  std::memcpy(&handle, text.data(), sizeof handle);
  use(device);
  CUevent event = nullptr;
  RL_CUDA(cuIpcOpenEventHandle, &event, handle);
  return event;
}

}  // namespace rl::cuda
