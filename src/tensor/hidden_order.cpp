#include "tensor/hidden_order.h"

#include "core/kernel_lock.h"
#include "tensor/copy_elements.h"

namespace rl {

void (*copy_elements)(const View& from, const View& to) = nullptr;

namespace {

ForkMutex& ordering() {
  static auto* mutex = new ForkMutex(ForkRank::HiddenOrder);  // tensors may outlive static objects
  return *mutex;
}

// Held while late elements are written.
ForkMutex& writing() {
  static auto* mutex = new ForkMutex(ForkRank::LateElements);
  return *mutex;
}

// Any element of that many bytes.
DType dtype_of_size(int64_t bytes) {
  return bytes == 1   ? DType::UInt8
         : bytes == 2 ? DType::Int16
         : bytes == 4 ? DType::Float32
         : bytes == 8 ? DType::Int64
                      : DType::Complex128;
}

Ref<HiddenOrder> order_of(const Storage& storage) {
  ForkLock lock(ordering());
  HiddenOrder* order = storage.hidden.load(std::memory_order_acquire);
  return order ? Ref<HiddenOrder>::share(order) : Ref<HiddenOrder>();
}

void replace_order(Storage& storage, Ref<HiddenOrder> order) {
  Ref<HiddenOrder> old;  // outlives the lock
  ForkLock lock(ordering());
  old =
      Ref<HiddenOrder>::adopt(storage.hidden.exchange(order.release(), std::memory_order_acq_rel));
}

}  // namespace

void* elements(HiddenOrder& order) {
  if (void* data = order.data.load(std::memory_order_acquire)) return data;
  Ref<LateElements> done;  // outlives the lock
  KernelLock lock(writing(), order.nbytes / 4);
  if (void* data = order.data.load(std::memory_order_acquire)) return data;
  LateElements& late = *order.late;
  bool alone = late.refs.load(std::memory_order_acquire) == 1;
  HiddenOrder* spare = alone ? late.spare_memory() : nullptr;
  void* data = spare ? spare->data.exchange(nullptr, std::memory_order_acq_rel)
                     : allocate(static_cast<size_t>(order.nbytes));
  late.write(data, spare != nullptr);
  order.data.store(data, std::memory_order_release);
  if (!alone || !late.let_go()) done = std::move(order.late);
  return data;
}

Ref<HiddenOrder> hidden_order(const Tensor& tensor) {
  const TensorImpl* t = tensor.impl();
  if (t->data || !t->storage || !t->storage->hidden.load(std::memory_order_acquire)) return {};
  Ref<HiddenOrder> order = order_of(*t->storage);
  bool whole = order && t->offset == 0 && t->contiguous && t->sizes == order->sizes &&
               t->numel * itemsize(t->dtype) == order->nbytes;
  return whole ? order : Ref<HiddenOrder>();
}

Ref<LateElements> late_elements(HiddenOrder& order) {
  if (order.data.load(std::memory_order_acquire)) return {};
  ForkLock lock(writing());
  return order.data.load(std::memory_order_acquire) ? Ref<LateElements>() : order.late;
}

Ref<LateElements> origin_of(HiddenOrder& order) {
  ForkLock lock(writing());
  return order.data.load(std::memory_order_acquire) ? order.late : Ref<LateElements>();
}

void replace_elements(const Tensor& t, Ref<LateElements> late) {
  Storage& storage = *t.storage();
  replace_order(storage,
                make_ref<HiddenOrder>(t.sizes(), storage.nbytes, nullptr, std::move(late)));
}

void make_own(const Tensor& t) {
  Ref<HiddenOrder> order = hidden_order(t);
  if (!order) return;
  if (order->refs.load(std::memory_order_acquire) > 2) return settle(*t.storage());
  elements(*order);
  Ref<LateElements> origin;  // outlives the lock
  ForkLock lock(writing());
  origin = std::move(order->late);
  order->serial = HiddenOrder::next_serial();
}

void settle(Storage& storage) {
  while (storage.hidden.load(std::memory_order_acquire)) {
    Ref<HiddenOrder> order = order_of(storage), let_go;
    if (!order) return;
    void* from = elements(*order);
    KernelLock lock(ordering(), order->nbytes / 4);
    if (storage.hidden.load(std::memory_order_acquire) != order.get()) continue;
    int64_t numel = product(order->sizes);
    DType dtype = dtype_of_size(order->nbytes / numel);
    Dims last = channels_last_strides(order->sizes), plain = contiguous_strides(order->sizes);
    void* data = allocate(static_cast<size_t>(order->nbytes));
    copy_elements({from, order->sizes.data(), last.data(), order->sizes.size(), numel, dtype},
                  {data, order->sizes.data(), plain.data(), order->sizes.size(), numel, dtype});
    storage.data = data;
    storage.hidden.store(nullptr, std::memory_order_release);
    let_go = Ref<HiddenOrder>::adopt(order.get());  // the storage's share
  }
}

bool in_hidden_order(const Tensor& t) { return static_cast<bool>(hidden_order(t)); }

AsItLies::AsItLies(const Tensor& t) : order_(hidden_order(t)) {
  if (!order_) {
    view_ = t.view();
    return;
  }
  strides_ = channels_last_strides(order_->sizes);
  view_ = {elements(*order_), order_->sizes.data(), strides_.data(), t.dim(), t.numel(), t.dtype()};
}

Tensor empty_as_it_lies(const Tensor& like, DType dtype) {
  if (in_hidden_order(like)) return empty_channels_last(like.sizes(), options(like, dtype));
  return empty_like(like, dtype);
}

Tensor in_order(const Tensor& t, bool hidden) {
  if (in_hidden_order(t) == hidden) return t;
  Tensor out = hidden ? empty_channels_last(t.sizes(), options(t)) : empty(t.sizes(), options(t));
  copy_elements(AsItLies(t).view(), AsItLies(out).view());
  return out;
}

}  // namespace rl
