#include "core/storage.h"

#include <cstring>
#include <new>

namespace rl {

SourceTracer source_tracer;
bool threads_share = true;

namespace {
Storage* fresh() {
  count(CountedStorages, 1);
  return new (pool_allocate(thread_state().storages, sizeof(Storage))) Storage;
}
}  // namespace

int64_t live_storages() { return count_alive(CountedStorages); }

Ref<Storage> Storage::create(int64_t nbytes, Device device) {
  Storage* s = fresh();
  s->nbytes = nbytes;
  s->device = device;
  if (!device.is_meta()) {
    try {
      s->data = allocate(static_cast<size_t>(nbytes));
    } catch (...) {
      s->owned = false;
      s->destroy();
      throw;
    }
  }
  return Ref<Storage>::adopt(s);
}

uint64_t HiddenOrder::next_serial() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void HiddenOrder::destroy() {
  if (void* memory = data.load(std::memory_order_acquire))
    deallocate(memory, static_cast<size_t>(nbytes));
  delete this;
}

Ref<Storage> Storage::create_hidden(Ref<HiddenOrder> order) {
  Storage* s = fresh();
  s->nbytes = order->nbytes;
  s->hidden = order.release();
  return Ref<Storage>::adopt(s);
}

Ref<Storage> Storage::borrow(void* data, int64_t nbytes, void (*release)(void*), void* context) {
  Storage* s = fresh();
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
  void* bigger = allocate(static_cast<size_t>(new_nbytes));
  if (data)
    std::memcpy(bigger, data, static_cast<size_t>(nbytes < new_nbytes ? nbytes : new_nbytes));
  if (owned && data) deallocate(data, static_cast<size_t>(nbytes));
  data = bigger;
  nbytes = new_nbytes;
  owned = true;
}

void Storage::destroy() {
  if (HiddenOrder* order = hidden.load(std::memory_order_acquire)) Ref<HiddenOrder>::adopt(order);
  else if (owned && data) deallocate(data, static_cast<size_t>(nbytes));
  else if (release) release(context);
  delete last_change;
  this->~Storage();
  count(CountedStorages, -1);
  pool_free(thread_state().storages, this);
}

}  // namespace rl
