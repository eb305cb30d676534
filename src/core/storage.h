// Storage: the bytes that tensors share, and the version that counts their in-place changes.
#pragma once
#include <atomic>

#include "core/allocator.h"
#include "core/device.h"
#include "core/error.h"
#include "core/refcount.h"
#include "core/shape.h"
#include "core/trace.h"

namespace rl {

// The elements of a contiguous tensor (N, C, *) in channels_last order, which its strides do not
// tell: see tensor/hidden_order.h. The memory lives as long as anyone holds it.
struct HiddenOrder {
  std::atomic<int32_t> refs{1};
  Dims sizes;
  int64_t nbytes;
  void* data;

  static Ref<HiddenOrder> create(IntSpan sizes, int64_t nbytes);
  void destroy();
};

struct Storage {
  std::atomic<int32_t> refs{1};
  std::atomic<uint32_t> version{0};
  std::atomic<HiddenOrder*> hidden{nullptr};  // holds the bytes as long as data is null; owned
  void* data = nullptr;
  int64_t nbytes = 0;
  Device device;
  bool saved = false;      // some graph node has saved these bytes: in-place ops leave a note
  bool read_only = false;  // foreign memory that must not be written
  bool resizable = true;
  bool owned = true;                         // data came from allocate()
  void (*release)(void* context) = nullptr;  // for foreign memory
  void* context = nullptr;
  Ref<Storage>
      alias_of;  // `.data` and detach-like handles: the same bytes, another version counter
  ChangeNote* last_change = nullptr;  // the in-place op that last changed saved bytes
  void* python = nullptr;             // belongs to bind/

  static Ref<Storage> create(int64_t nbytes, Device device = {});
  static Ref<Storage> create_hidden(IntSpan sizes, int64_t nbytes);
  static Ref<Storage> borrow(void* data, int64_t nbytes, void (*release)(void*), void* context);
  static Ref<Storage> alias(const Ref<Storage>& of);
  void resize(int64_t new_nbytes);  // keeps the old bytes
  void destroy();
};

int64_t live_storages();

}  // namespace rl
