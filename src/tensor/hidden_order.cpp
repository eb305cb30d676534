#include "tensor/hidden_order.h"

#include "core/fork_mutex.h"
#include "tensor/copy_elements.h"

namespace rl {

void (*copy_elements)(const View& from, const View& to) = nullptr;

namespace {

ForkMutex& ordering() {
  static auto* mutex = new ForkMutex(ForkRank::HiddenOrder);  // tensors may outlive static objects
  return *mutex;
}

Dims channels_last_strides(IntSpan sizes) {
  Dims strides(sizes.size());
  int64_t step = sizes[1];
  strides[1] = 1;
  for (int64_t d = sizes.size() - 1; d >= 2; --d) {
    strides[d] = step;
    step *= sizes[d];
  }
  strides[0] = step;
  return strides;
}

// Any element of that many bytes.
DType dtype_of_size(int64_t bytes) {
  return bytes == 1   ? DType::UInt8
         : bytes == 2 ? DType::Int16
         : bytes == 4 ? DType::Float32
         : bytes == 8 ? DType::Int64
                      : DType::Complex128;
}

// The elements of a tensor that lies in hidden order, held; null for any other.
Ref<HiddenOrder> hidden_order(const TensorImpl* t) {
  if (t->data || !t->storage || !t->storage->hidden.load(std::memory_order_acquire)) return {};
  ForkLock lock(ordering());
  HiddenOrder* order = t->storage->hidden.load(std::memory_order_acquire);
  bool whole = order && t->offset == 0 && t->contiguous && t->sizes == order->sizes &&
               t->numel * itemsize(t->dtype) == order->nbytes;
  return whole ? Ref<HiddenOrder>::share(order) : Ref<HiddenOrder>();
}

}  // namespace

void settle(Storage& storage) {
  if (!storage.hidden.load(std::memory_order_acquire)) return;
  Ref<HiddenOrder> order;
  ForkLock lock(ordering());
  HiddenOrder* held = storage.hidden.load(std::memory_order_acquire);
  if (!held) return;
  int64_t numel = product(held->sizes);
  DType dtype = dtype_of_size(held->nbytes / numel);
  Dims last = channels_last_strides(held->sizes), plain = contiguous_strides(held->sizes);
  void* data = allocate(static_cast<size_t>(held->nbytes));
  copy_elements({held->data, held->sizes.data(), last.data(), held->sizes.size(), numel, dtype},
                {data, held->sizes.data(), plain.data(), held->sizes.size(), numel, dtype});
  storage.data = data;
  storage.hidden.store(nullptr, std::memory_order_release);
  order = Ref<HiddenOrder>::adopt(held);
}

bool in_hidden_order(const Tensor& t) { return static_cast<bool>(hidden_order(t.impl())); }

AsItLies::AsItLies(const Tensor& t) : order_(hidden_order(t.impl())) {
  if (!order_) {
    view_ = t.view();
    return;
  }
  strides_ = channels_last_strides(order_->sizes);
  view_ = {order_->data, order_->sizes.data(), strides_.data(), t.dim(), t.numel(), t.dtype()};
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
