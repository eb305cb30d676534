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

// Stands in for the bytes of a storage that has no plain ones yet: the elements lie in another
// order, or are still to be computed. The storage owns its contents and knows one thing about them,
// how to ask for plain bytes. Which kinds there are is for the layers above to say:
// docs/layout_and_laziness.md.
struct StorageContents {
  std::atomic<int32_t> refs{1};
  const char* const layout;  // the physical layout, named by a constant and compared by address
  const int64_t nbytes;

  // Computes the elements where that is still to be done.
  virtual void compute() = 0;
  // Computed elements in the order that strides describe, in new memory from allocate().
  virtual void* plain_bytes() = 0;
  void destroy() { delete this; }

 protected:
  StorageContents(const char* layout, int64_t nbytes) : layout(layout), nbytes(nbytes) {}
  virtual ~StorageContents() = default;
};

struct Storage {
  std::atomic<int32_t> refs{1};
  std::atomic<uint32_t> version{0};
  std::atomic<StorageContents*> contents{nullptr};  // owned; instead of data
  void* data = nullptr;
  int64_t nbytes = 0;
  int64_t reserved = 0;  // bytes that data has room for, after resize_in_place()
  Device device;
  bool saved = false;      // some graph node has saved these bytes: in-place ops leave a note
  bool read_only = false;  // foreign memory that must not be written
  bool resizable = true;
  bool owned = true;                         // data came from allocate()
  void (*release)(void* context) = nullptr;  // for foreign memory
  void* context = nullptr;
  Storage* next_dying = nullptr;
  Ref<Storage>
      alias_of;  // `.data` and detach-like handles: the same bytes, another version counter
  ChangeNote* last_change = nullptr;   // the in-place op that last changed saved bytes
  std::atomic<void*> python{nullptr};  // belongs to bind/

  static Ref<Storage> create(int64_t nbytes, Device device = {});
  static Ref<Storage> create_with_contents(Ref<StorageContents> contents);
  static Ref<Storage> borrow(void* data, int64_t nbytes, void (*release)(void*), void* context);
  static Ref<Storage> alias(const Ref<Storage>& of);
  void resize(int64_t new_nbytes);  // keeps the old bytes
  // Other sizes up to capacity(), for storages whose tensors know the address of their bytes: it
  // stays, but what lies behind the new size goes back to the system, and reads as zeros or as it
  // was.
  void resize_in_place(int64_t new_nbytes);
  int64_t capacity() const { return nbytes < reserved ? reserved : nbytes; }
  Ref<StorageContents> current_contents() const;
  void replace_contents(Ref<StorageContents> new_contents);
  // Replaces contents, if there are any, by plain bytes. Threads that read the contents meanwhile
  // are not disturbed.
  void materialize();
  void destroy();

 private:
  void release_in_turn();
  void finish();
};

int64_t live_storages();

}  // namespace rl
