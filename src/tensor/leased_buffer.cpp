#include "tensor/leased_buffer.h"

#include "core/allocator.h"
#include "core/byte_count.h"
#include "core/fork_mutex.h"
#include "core/refcount.h"

namespace rl {

namespace {

// What the two kinds of handles add to the claims of a buffer, in one number so that one read tells
// of both.
constexpr int32_t one_lease = 1, one_owner = 1 << 30;

uint64_t next_version() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

ForkMutex& provenance_mutex() {
  static auto* mutex =
      new ForkMutex(ForkRank::StorageContents);  // tensors may outlive static objects
  return *mutex;
}

}  // namespace

namespace detail {

struct Buffer {
  std::atomic<int32_t> claims{one_owner};
  void* data = nullptr;
  const int64_t nbytes;
  std::atomic<uint64_t> version{next_version()};
  std::shared_ptr<const Provenance> provenance;

  explicit Buffer(int64_t nbytes) : nbytes(nbytes) {}
};

void drop_claim(Buffer* buffer, int32_t claim) {
  if (count_up(buffer->claims, -claim, std::memory_order_acq_rel) != claim) return;
  deallocate(buffer->data, static_cast<size_t>(buffer->nbytes));
  delete buffer;
}

}  // namespace detail

BufferLease::BufferLease(const BufferLease& other) : buffer_(other.buffer_) {
  if (buffer_) count_up(buffer_->claims, one_lease);
}
BufferLease::~BufferLease() {
  if (buffer_) detail::drop_claim(buffer_, one_lease);
}
void* BufferLease::data() const { return buffer_->data; }
uint64_t BufferLease::version() const { return buffer_->version.load(std::memory_order_relaxed); }
std::shared_ptr<const Provenance> BufferLease::provenance() const {
  ForkLock lock(provenance_mutex());
  return buffer_->provenance;
}

BufferOwner::~BufferOwner() {
  if (buffer_) detail::drop_claim(buffer_, one_owner);
}

BufferOwner BufferOwner::allocate(int64_t nbytes) {
  BufferOwner owner;
  auto made = std::make_unique<detail::Buffer>(nbytes);
  made->data = rl::allocate(byte_count(nbytes));
  owner.buffer_ = made.release();
  return owner;
}

BufferOwner BufferOwner::take(BufferLease& lease) {
  BufferOwner owner;
  // Nobody can add a claim to the only one there is.
  if (lease.buffer_->claims.load(std::memory_order_acquire) != one_lease) return owner;
  lease.buffer_->claims.store(one_owner, std::memory_order_relaxed);
  owner.buffer_ = std::exchange(lease.buffer_, nullptr);
  return owner;
}

void* BufferOwner::data() const { return buffer_->data; }

bool BufferOwner::is_leased() const {
  return buffer_->claims.load(std::memory_order_acquire) != one_owner;
}

BufferLease BufferOwner::lease() const {
  count_up(buffer_->claims, one_lease);
  return BufferLease(buffer_);
}

void BufferOwner::note_change(std::shared_ptr<const Provenance> provenance) {
  // The former one is released after the lock.
  ForkLock lock(provenance_mutex());
  buffer_->version.store(next_version(), std::memory_order_relaxed);
  buffer_->provenance.swap(provenance);
}

}  // namespace rl
