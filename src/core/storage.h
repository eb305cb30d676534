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

struct HiddenOrder;

// What elements are to be that nobody has written yet: see dispatch/deferred.h.
struct LateElements {
  std::atomic<int32_t> refs{1};
  // Elements that this alone reads, whose memory may take the result; else null.
  virtual HiddenOrder* spare_memory() = 0;
  virtual void write(void* to, bool in_spare_memory) const = 0;
  // After that: lets go of what it holds. True if it still tells how the elements came about.
  virtual bool let_go() = 0;
  void destroy() { delete this; }

 protected:
  virtual ~LateElements() = default;
};

// The elements of a contiguous tensor (N, C, *) in channels_last order, which its strides do not
// tell: see tensor/hidden_order.h. The memory lives as long as anyone holds it.
struct HiddenOrder {
  std::atomic<int32_t> refs{1};
  const Dims sizes;
  const int64_t nbytes;
  std::atomic<void*> data;  // null as long as the elements are `late`
  Ref<LateElements> late;   // or how they came about
  uint64_t serial;          // another one after each change of the elements

  HiddenOrder(IntSpan sizes, int64_t nbytes, void* data, Ref<LateElements> late = nullptr)
      : sizes(sizes), nbytes(nbytes), data(data), late(std::move(late)), serial(next_serial()) {}
  static uint64_t next_serial();
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
  ChangeNote* last_change = nullptr;   // the in-place op that last changed saved bytes
  std::atomic<void*> python{nullptr};  // belongs to bind/

  static Ref<Storage> create(int64_t nbytes, Device device = {});
  static Ref<Storage> create_hidden(Ref<HiddenOrder> order);
  static Ref<Storage> borrow(void* data, int64_t nbytes, void (*release)(void*), void* context);
  static Ref<Storage> alias(const Ref<Storage>& of);
  void resize(int64_t new_nbytes);  // keeps the old bytes
  void destroy();
};

int64_t live_storages();

}  // namespace rl
