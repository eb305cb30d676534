// The transparent layout: a tensor whose strides read contiguous while its elements lie
// channels_last, because that is what convolutions write and read quickest.
//
// empty_channels_last() makes such a tensor. Its impl has no data pointer, so whoever asks for one,
// by data() or view(), goes through settle(), which brings the elements into plain order once and
// for all. Ops that take any strides ask AsItLies instead, and no element moves. Programs cannot
// tell.
#pragma once
#include "tensor/tensor.h"

namespace rl {

// Like empty(), with elements to be written in channels_last order: plain where that is the same,
// or on another device than the CPU.
Tensor empty_channels_last(IntSpan sizes, TensorOptions options);
bool in_hidden_order(const Tensor& t);
// The elements of a tensor that lies in hidden order, held; null for any other.
Ref<HiddenOrder> hidden_order(const Tensor& t);

// Elements in hidden order may be late: known by what they are to be, and written when they are
// first asked for. An op that works them out as it reads them spares a pass over memory.
//
// A new tensor like `like`, which lies in hidden order, with these elements; and new ones for `t`.
Tensor hidden_like(const Tensor& like, Ref<HiddenOrder> order);
void replace_elements(const Tensor& t, Ref<LateElements> elements);
// Written now if they are late.
void* elements(HiddenOrder& order);
// Null where they are there.
Ref<LateElements> late_elements(HiddenOrder& order);
// What is known of how elements that are there came about, or null.
Ref<LateElements> origin_of(HiddenOrder& order);
// Before the elements change: those that late elements are made of stay as they are.
void make_own(const Tensor& t);

// Plain order for the bytes of a storage. Kernels that read the former order in other threads do so
// undisturbed: they hold it.
void settle(Storage& storage);

// What a kernel sees of a tensor, in the order in which the elements lie; late ones it writes. Not
// for elements that move: while this lives, nobody may change what the tensor's sizes are.
class AsItLies {
 public:
  explicit AsItLies(const Tensor& t);
  AsItLies(const AsItLies&) = delete;
  AsItLies& operator=(const AsItLies&) = delete;
  const View& view() const { return view_; }
  bool hidden() const { return static_cast<bool>(order_); }

 private:
  Ref<HiddenOrder> order_;
  Dims strides_;
  View view_;
};

// An uninitialised result in the order in which `like`, of the same sizes, lies.
Tensor empty_as_it_lies(const Tensor& like, DType dtype);
// `t` or a copy of it, in hidden order if `hidden`.
Tensor in_order(const Tensor& t, bool hidden);

}  // namespace rl
