// Memory and events of a GPU that several processes use.
#pragma once
#include <string>

#include "core/storage.h"
#include "kernels/cuda/api.h"

namespace rl::cuda {

// A handle of the driver's allocation that an address is in, and where in it. The memory must not
// be freed while another process has it open.
struct ExportedMemory {
  std::string handle;
  int64_t offset;
};
ExportedMemory export_memory(const void* data, int device);

// Another process's memory as a storage. When it dies, work of the then current stream is done,
// and `flags[index]`, shared with the owner of the memory, becomes 0.
Ref<Storage> open_memory(const std::string& handle, int device, int64_t offset, int64_t nbytes,
                         Ref<Storage> flags, int64_t index);
bool is_opened(const Storage& storage);  // by open_memory

CUevent new_shared_event(int device);
std::string export_event(CUevent event);
CUevent open_event(const std::string& handle, int device);

}  // namespace rl::cuda
