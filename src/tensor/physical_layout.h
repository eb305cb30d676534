// The physical layout: a contiguous tensor whose elements lie channels_last in memory, because
// convolutions read and write that order fastest. docs/layout_and_laziness.md states the rules.
//
// empty_channels_last() makes such a tensor. Its impl has no data pointer, so whoever asks for one,
// by data() or view(), has the storage materialize plain bytes, once and for all. Ops whose kernels
// take any strides ask for a PhysicalView instead, and no element moves. No program can tell.
#pragma once
#include "tensor/leased_buffer.h"
#include "tensor/tensor.h"

namespace rl {

inline constexpr char channels_last_layout[] = "channels_last";

// The elements of a contiguous tensor (N, C, *) in channels_last order. The buffer is there from
// the start, or a derived class computes it on demand (dispatch/lazy_expression.h).
class ChannelsLastContents : public StorageContents {
 public:
  ChannelsLastContents(IntSpan sizes, int64_t nbytes)  // without elements so far
      : StorageContents(channels_last_layout, nbytes), sizes(sizes) {}
  ChannelsLastContents(IntSpan sizes, int64_t nbytes, BufferOwner buffer)
      : ChannelsLastContents(sizes, nbytes) {
    set_buffer(std::move(buffer));
  }
  const Dims sizes;

  bool is_computed() const { return computed_.load(std::memory_order_acquire); }
  void compute() override {}
  void* plain_bytes() override;
  BufferLease lease();  // on the elements, which are computed first
  bool is_leased() const { return is_computed() && buffer_.is_leased(); }
  // Computes the elements and prepares them to be changed where they are. False if there are
  // leases, whose holders must not see the change.
  bool begin_change();

 protected:
  void set_buffer(BufferOwner buffer);

 private:
  BufferOwner buffer_;
  std::atomic<bool> computed_{false};
};

// Like empty(), with elements to be written in channels_last order: plain where that is the same,
// or on another device than the CPU.
Tensor empty_channels_last(IntSpan sizes, TensorOptions options);
// A new contiguous tensor.
Tensor with_contents(DType dtype, Ref<ChannelsLastContents> contents);

bool has_physical_layout(const Tensor& t);
// The contents of a tensor in physical layout; null for any other.
Ref<ChannelsLastContents> channels_last_contents(const Tensor& t);
// Before the elements change in place: whoever has leased them keeps the former ones.
void copy_on_write(const Tensor& t);

// What a kernel sees of a tensor, in the order in which the elements lie; those still to be
// computed are computed first. While this lives, the tensor's sizes must not change and nobody else
// changes the elements where they are.
class PhysicalView {
 public:
  explicit PhysicalView(const Tensor& t);
  PhysicalView(const PhysicalView&) = delete;
  PhysicalView& operator=(const PhysicalView&) = delete;
  const View& view() const { return view_; }
  bool is_channels_last() const { return static_cast<bool>(lease_); }

 private:
  BufferLease lease_;
  Dims strides_;
  View view_;
};

// An uninitialized result in the order in which `like`, of the same sizes, lies.
Tensor empty_in_layout_of(const Tensor& like, DType dtype);
// `t` or a copy of it, in physical layout if `channels_last`.
Tensor in_order(const Tensor& t, bool channels_last);

}  // namespace rl
