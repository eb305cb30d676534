#include "tensor/lazy_view.h"

#include <cstring>
#include <vector>

#include "core/fork_mutex.h"
#include "tensor/copy_elements.h"

namespace rl {
namespace {

// The lazy views that ops of this thread are about to change.
thread_local std::vector<Ref<TensorImpl>> written;

// Bytes from the first element to behind the last.
int64_t reach(const TensorImpl* t) {
  int64_t last = 0;
  for (int64_t d = 0; d < t->sizes.size(); ++d) last += (t->sizes[d] - 1) * t->strides[d];
  return (last + 1) * itemsize(t->dtype);
}

template <class T>
void negate(const void* from, void* to, int64_t count) {
  const T* x = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(T(0) - x[i]);
}

// Which of the numbers change: the imaginary parts alone of a conjugate, the real ones of a
// negative conjugate, all of a negative.
struct Parts {
  int64_t count;
  bool even, odd;
};

// The sign bit alone: of zeros and NaNs too. By masks of 8 bytes: to ask of each number whether it
// changes took 20 times as long.
template <class Bits>
void flip_signs(const void* from, void* to, Parts parts) {
  const Bits* x = static_cast<const Bits*>(from);
  Bits* out = static_cast<Bits*>(to);
  constexpr Bits sign = static_cast<Bits>(Bits(1) << (8 * sizeof(Bits) - 1));
  const Bits masks[2] = {parts.even ? sign : Bits(0), parts.odd ? sign : Bits(0)};
  int64_t i = 0;
  if constexpr (constexpr int64_t together = 8 / sizeof(Bits); together > 1) {
    Bits pattern[together];
    for (int64_t k = 0; k < together; ++k) pattern[k] = masks[k % 2];
    uint64_t mask, word;
    std::memcpy(&mask, pattern, sizeof mask);
    for (; i + together <= parts.count; i += together) {
      std::memcpy(&word, x + i, sizeof word);
      word ^= mask;
      std::memcpy(out + i, &word, sizeof word);
    }
  }
  for (; i < parts.count; ++i) out[i] = static_cast<Bits>(x[i] ^ masks[i % 2]);
}

void change_on_device(const void* from, void* to, int64_t bytes, DType dtype, uint8_t bits,
                      Device device) {
  Dims sizes{bytes / itemsize(dtype)}, strides{1};
  auto view = [&](const void* data) {
    return View{const_cast<void*>(data), sizes.data(), strides.data(), 1, sizes[0], dtype, device};
  };
  change_elements(view(from), view(to), bits & Conjugated, bits & Negated);
}

// A block of memory with its elements changed, those between the elements of a view included. One
// pass, so that a second reader of a view never meets an element that is only copied yet.
void change(const void* from, void* to, int64_t bytes, DType dtype, uint8_t bits) {
  DType real = to_real(dtype);
  const bool conjugate = bits & Conjugated, negative = bits & Negated;
  const int64_t count = bytes / itemsize(real);
  const Parts parts{count, negative, conjugate != negative};
  switch (real) {
    case DType::Float64: return flip_signs<uint64_t>(from, to, parts);
    case DType::Float32: return flip_signs<uint32_t>(from, to, parts);
    case DType::Float16:
    case DType::BFloat16: return flip_signs<uint16_t>(from, to, parts);
    case DType::Int64: return negate<uint64_t>(from, to, count);
    case DType::Int32: return negate<uint32_t>(from, to, count);
    case DType::Int16: return negate<uint16_t>(from, to, count);
    case DType::Int8:
    case DType::UInt8: return negate<uint8_t>(from, to, count);
    default: fail(ErrorKind::NotImplemented, "_neg_view: not implemented for dtype ", dtype);
  }
}

ForkMutex& mutex() {
  static auto* instance = new ForkMutex(ForkRank::ResolvedViews);
  return *instance;
}

}  // namespace

Tensor lazily(const Tensor& t, LazyBit change) {
  check_implemented(!t.is_sparse(), "a tensor in layout ", static_cast<int>(t.layout()),
                    " has no lazy view; to_dense() gives an ordinary tensor");
  Tensor view = alias(t);
  TensorImpl* impl = view.impl();
  if (!impl->device.is_meta()) impl->storage->materialize();
  impl->lazy = t.impl()->lazy ^ change;
  impl->refresh();
  return view;
}

void* shared_address(const Tensor& t) {
  if (!t.impl()->lazy) return t.view().data;
  char* bytes = static_cast<char*>(t.storage()->data);
  return bytes ? bytes + t.offset() * itemsize(t.dtype()) : nullptr;
}

namespace {
bool has_room(const TensorImpl* t, int64_t bytes) {
  return t->resolved && t->resolved->nbytes >= bytes;
}
// Without the lock: the device's allocator may wait, and its stream keeps readers in order.
void* read_on_device(TensorImpl* t, const void* shared, int64_t bytes) {
  Ref<Storage> room;
  {
    ForkLock lock(mutex());
    if (has_room(t, bytes)) room = t->resolved;
  }
  if (!room) {
    room = Storage::create(bytes, t->device);
    ForkLock lock(mutex());
    if (has_room(t, bytes)) room = t->resolved;
    else t->resolved = room;
  }
  change_on_device(shared, room->data, bytes, t->dtype, t->lazy, t->device);
  return room->data;
}
}  // namespace

// Read anew each time, as the shared memory may have changed in ways that nobody tells of.
void* read_lazy(TensorImpl* t) {
  const auto* shared = static_cast<const char*>(t->storage->data);
  check_implemented(shared, "a lazy view of shape ", t->sizes, " on device ", t->device,
                    " has no elements to read");
  int64_t bytes = reach(t);
  shared += t->offset * itemsize(t->dtype);
  if (!t->device.is_cpu()) return read_on_device(t, shared, bytes);
  ForkLock lock(mutex());
  if (!has_room(t, bytes)) t->resolved = Storage::create(bytes, t->device);
  change(shared, t->resolved->data, bytes, t->dtype, t->lazy);
  return t->resolved->data;
}

void begin_lazy_write(const Tensor& t) {
  if (t.impl()->data || t.numel() == 0 || t.is_meta()) return;
  t.impl()->data = read_lazy(t.impl());
  written.push_back(t.ref());
}

void end_lazy_write(const Tensor& t) {
  TensorImpl* impl = t.impl();
  if (!impl->data) return;
  if (impl->device.is_cpu()) change(impl->data, impl->data, reach(impl), impl->dtype, impl->lazy);
  else change_on_device(impl->data, impl->data, reach(impl), impl->dtype, impl->lazy, impl->device);
  View from{impl->data,  impl->sizes.data(), impl->strides.data(), t.dim(),
            impl->numel, impl->dtype,        impl->device};
  View to = from;
  to.data = shared_address(t);
  copy_elements(from, to);
  impl->data = nullptr;
  for (size_t i = written.size(); i-- > 0;)
    if (written[i].get() == impl) written.erase(written.begin() + static_cast<int64_t>(i));
}

void abandon_lazy_writes() {
  for (const Ref<TensorImpl>& t : written) t->data = nullptr;
  written.clear();
}

}  // namespace rl
