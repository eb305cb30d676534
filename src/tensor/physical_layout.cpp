#include "tensor/physical_layout.h"

#include "core/byte_count.h"
#include "tensor/copy_elements.h"

namespace rl {

void (*copy_elements)(const View& from, const View& to) = nullptr;
void (*change_elements)(const View& from, const View& to, bool conjugate, bool negative) = nullptr;

namespace {

// Any element of that many bytes.
DType dtype_of_size(int64_t bytes) {
  return bytes == 1   ? DType::UInt8
         : bytes == 2 ? DType::Int16
         : bytes == 4 ? DType::Float32
         : bytes == 8 ? DType::Int64
                      : DType::Complex128;
}

}  // namespace

void ChannelsLastContents::set_buffer(BufferOwner buffer) {
  buffer_ = std::move(buffer);
  computed_.store(true, std::memory_order_release);
}

BufferLease ChannelsLastContents::lease() {
  compute();
  return buffer_.lease();
}

bool ChannelsLastContents::begin_change() {
  compute();
  if (buffer_.is_leased()) return false;
  buffer_.note_change();
  return true;
}

void* ChannelsLastContents::plain_bytes() {
  BufferLease from = lease();
  int64_t numel = product(sizes);
  DType dtype = dtype_of_size(nbytes / numel);
  Dims last = channels_last_strides(sizes), plain = contiguous_strides(sizes);
  const size_t bytes = byte_count(nbytes);
  void* to = allocate(bytes);
  try {
    copy_elements({from.data(), sizes.data(), last.data(), sizes.size(), numel, dtype},
                  {to, sizes.data(), plain.data(), sizes.size(), numel, dtype});
  } catch (...) {
    deallocate(to, bytes);
    throw;
  }
  return to;
}

Ref<ChannelsLastContents> channels_last_contents(const Tensor& tensor) {
  const TensorImpl* t = tensor.impl();
  if (t->data || t->lazy || !t->storage) return {};
  Ref<StorageContents> contents = t->storage->current_contents();
  if (!contents || contents->layout != channels_last_layout) return {};
  auto* last = static_cast<ChannelsLastContents*>(contents.get());
  bool whole = t->offset == 0 && t->contiguous && t->sizes == last->sizes &&
               t->numel * itemsize(t->dtype) == last->nbytes;
  if (!whole) return {};
  contents.release();
  return Ref<ChannelsLastContents>::adopt(last);
}

bool has_physical_layout(const Tensor& t) { return static_cast<bool>(channels_last_contents(t)); }

void copy_on_write(const Tensor& t) {
  Ref<ChannelsLastContents> contents = channels_last_contents(t);
  if (contents && !contents->begin_change()) t.storage()->materialize();
}

namespace {

BufferLease lease_of(const Tensor& t) {
  if (t.impl()->data) return {};
  Ref<ChannelsLastContents> contents = channels_last_contents(t);
  return contents ? contents->lease() : BufferLease();
}

View view_of(const Tensor& t, const BufferLease& lease, Dims& strides) {
  if (!lease) return t.view();
  strides = channels_last_strides(t.sizes());
  return {lease.data(), t.sizes().data(), strides.data(), t.dim(),
          t.numel(),    t.dtype(),        t.device()};
}

}  // namespace

// The view is built where it stays: to copy what was just written field by field costs 10 ns.
PhysicalView::PhysicalView(const Tensor& t)
    : lease_(lease_of(t)), view_(view_of(t, lease_, strides_)) {}

Tensor empty_in_layout_of(const Tensor& like, DType dtype) {
  if (has_physical_layout(like)) return empty_channels_last(like.sizes(), options(like, dtype));
  return empty_like(like, dtype);
}

Tensor in_order(const Tensor& t, bool channels_last) {
  if (has_physical_layout(t) == channels_last) return t;
  Tensor out =
      channels_last ? empty_channels_last(t.sizes(), options(t)) : empty(t.sizes(), options(t));
  copy_elements(PhysicalView(t).view(), PhysicalView(out).view());
  return out;
}

}  // namespace rl
