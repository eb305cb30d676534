// A buffer: memory with at most one owner, whose bytes others read under leases.
//
// A lease promises that the bytes stay as they are, where they are. The owner sees whether there
// are leases: while there are none, it may change the bytes. Once the owner is gone and one lease
// is left, whoever has it may become the owner, so that the memory of an operand that nobody else
// needs takes a result. There is no other way to the bytes: further handles on a tensor or a
// storage are no claims on its buffer, and every claim is counted by its kind.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace rl {

// What is known of how the bytes of a buffer were computed. Its kinds belong to the layers above.
struct Provenance {
  virtual ~Provenance() = default;
};

namespace detail {
struct Buffer;
void drop_claim(Buffer* buffer, int32_t claim);
}  // namespace detail

class BufferLease {
 public:
  BufferLease() = default;
  BufferLease(const BufferLease& other);
  BufferLease(BufferLease&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferLease& operator=(BufferLease other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferLease();

  explicit operator bool() const { return buffer_ != nullptr; }
  void* data() const;
  uint64_t version() const;  // of the bytes: no two buffers and no two states of one have the same
  std::shared_ptr<const Provenance> provenance() const;  // or null

 private:
  friend class BufferOwner;
  explicit BufferLease(detail::Buffer* buffer) : buffer_(buffer) {}
  detail::Buffer* buffer_ = nullptr;
};

class BufferOwner {
 public:
  BufferOwner() = default;
  BufferOwner(BufferOwner&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferOwner& operator=(BufferOwner&& other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferOwner();

  static BufferOwner allocate(int64_t nbytes);
  // Makes the holder of a lease the owner, if the buffer has none and this is the only lease, which
  // then is empty. Otherwise returns an empty owner and leaves the lease alone.
  static BufferOwner take(BufferLease& lease);

  explicit operator bool() const { return buffer_ != nullptr; }
  void* data() const;
  bool is_leased() const;
  BufferLease lease() const;
  // After or before a change of the bytes, without leases: they have another version and, unless
  // given, no provenance.
  void note_change(std::shared_ptr<const Provenance> provenance = nullptr);

 private:
  detail::Buffer* buffer_ = nullptr;
};

}  // namespace rl
