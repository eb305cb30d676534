#include "core/storage.h"

#include <new>

#include "core/byte_count.h"
#include "core/device_memory.h"
#include "core/kernel_lock.h"
#include "core/observer.h"

namespace rl {

SourceTracer source_tracer;
bool threads_share = true;

namespace {
Storage* fresh() {
  auto* storage = new (pool_allocate(thread_state().storages, sizeof(Storage))) Storage;
  count(CountedStorages, 1);
  return storage;
}

// Bytes that a storage has come to own, or gives up (negative).
void note_bytes(const void* address, int64_t bytes) {
  ThreadState& thread = thread_state();
  thread.storage_bytes += bytes;
  if (__builtin_expect(thread.mode & ProfiledMemory, 0)) observer::allocation(address, bytes);
}

// Guards which contents a storage has.
ForkMutex& contents_mutex() {
  static auto* mutex =
      new ForkMutex(ForkRank::StorageContents);  // tensors may outlive static objects
  return *mutex;
}
}  // namespace

int64_t live_storages() { return count_alive(CountedStorages); }

Ref<Storage> Storage::create(int64_t nbytes, Device device) {
  Storage* s = fresh();
  s->nbytes = nbytes;
  s->device = device;
  if (!device.is_meta()) {
    try {
      s->data = allocate_on(device, byte_count(nbytes));
    } catch (...) {
      s->owned = false;
      s->destroy();
      throw;
    }
    note_bytes(s, nbytes);
  }
  return Ref<Storage>::adopt(s);
}

Ref<Storage> Storage::create_with_contents(Ref<StorageContents> contents) {
  Storage* s = fresh();
  s->nbytes = contents->nbytes;
  s->contents = contents.release();
  note_bytes(s, s->nbytes);
  return Ref<Storage>::adopt(s);
}

Ref<Storage> Storage::borrow(void* data, int64_t nbytes, void (*release)(void*), void* context) {
  Storage* s = nullptr;
  try {
    s = fresh();
  } catch (...) {  // whoever calls has given the context away
    if (release) release(context);
    throw;
  }
  s->data = data;
  s->nbytes = nbytes;
  s->owned = s->resizable = false;
  s->release = release;
  s->context = context;
  return Ref<Storage>::adopt(s);
}

Ref<Storage> Storage::alias(const Ref<Storage>& of) {
  const Ref<Storage>& root = of->alias_of ? of->alias_of : of;
  Storage* s = fresh();
  s->data = root->data;
  s->nbytes = root->nbytes;
  s->device = root->device;
  s->read_only = root->read_only;
  s->owned = s->resizable = false;
  s->alias_of = root;
  return Ref<Storage>::adopt(s);
}

void Storage::resize(int64_t new_nbytes) {
  check(resizable,
        "resize_: this storage shares memory that it does not own and cannot be resized");
  if (device.is_meta()) {
    nbytes = new_nbytes;
    return;
  }
  void* bigger = allocate_on(device, byte_count(new_nbytes));
  int64_t kept = nbytes < new_nbytes ? nbytes : new_nbytes;
  if (data) copy_bytes(bigger, device, data, device, static_cast<size_t>(kept));
  if (owned && data) {
    deallocate_on(device, data, static_cast<size_t>(capacity()));
    note_bytes(this, -nbytes);
  }
  data = bigger;
  nbytes = new_nbytes;
  reserved = 0;
  note_bytes(this, nbytes);
  owned = true;
}

void Storage::resize_in_place(int64_t new_nbytes) {
  check(resizable,
        "resize_: this storage shares memory that it does not own and cannot be resized");
  check(new_nbytes <= capacity(), "resize_: this storage is in use by tensors and has room for ",
        capacity(), " bytes, not for ", new_nbytes, "; resize the tensors");
  if (new_nbytes < nbytes && device.is_cpu() && data)
    release_pages(static_cast<char*>(data) + new_nbytes, static_cast<size_t>(nbytes - new_nbytes));
  note_bytes(this, new_nbytes - nbytes);
  reserved = capacity();
  nbytes = new_nbytes;
}

Ref<StorageContents> Storage::current_contents() const {
  if (!contents.load(std::memory_order_acquire)) return {};
  ForkLock lock(contents_mutex());
  StorageContents* current = contents.load(std::memory_order_acquire);
  return current ? Ref<StorageContents>::share(current) : Ref<StorageContents>();
}

void Storage::replace_contents(Ref<StorageContents> new_contents) {
  Ref<StorageContents> old;  // is released after the lock
  ForkLock lock(contents_mutex());
  old = Ref<StorageContents>::adopt(
      contents.exchange(new_contents.release(), std::memory_order_acq_rel));
}

void Storage::materialize() {
  while (Ref<StorageContents> current = current_contents()) {
    Ref<StorageContents> old;  // is released after the lock
    current->compute();
    KernelLock lock(contents_mutex(), nbytes / 4);
    if (contents.load(std::memory_order_acquire) != current.get()) continue;
    data = current->plain_bytes();
    contents.store(nullptr, std::memory_order_release);
    old = Ref<StorageContents>::adopt(current.get());  // the storage's reference
  }
}

// The owner of foreign memory may be the last to hold a tensor on other foreign memory, and so on:
// such storages wait in a list, as dying nodes do, instead of on the stack.
void Storage::release_in_turn() {
  ThreadState& thread = thread_state();
  next_dying = static_cast<Storage*>(thread.dying_storages);
  thread.dying_storages = this;
  if (thread.releasing_storage) return;
  thread.releasing_storage = true;
  while (auto* storage = static_cast<Storage*>(thread.dying_storages)) {
    thread.dying_storages = storage->next_dying;
    storage->release(storage->context);
    storage->finish();
  }
  thread.releasing_storage = false;
}

void Storage::destroy() {
  if (contents.load(std::memory_order_relaxed) || (owned && data)) note_bytes(this, -nbytes);
  if (StorageContents* owned_contents = contents.load(std::memory_order_acquire))
    Ref<StorageContents>::adopt(owned_contents);
  else if (owned && data) deallocate_on(device, data, static_cast<size_t>(capacity()));
  else if (release) return release_in_turn();
  finish();
}

void Storage::finish() {
  delete last_change;
  this->~Storage();
  count(CountedStorages, -1);
  pool_free(thread_state().storages, this);
}

}  // namespace rl
