// Lazy views: the conjugate or the negative of the elements that a tensor looks at. Such a view
// shares their memory, and `impl->lazy` says how they are to be read.
//
// Its impl has no data pointer. Whoever asks for one, by data() or view(), gets the elements as
// they are to be read, in memory that the impl keeps for that: so kernels know of none of this. An
// op in place changes that memory between `begin_lazy_write` (check_in_place) and `end_lazy_write`
// (bump_version), which brings the elements back to where they are shared.
#pragma once
#include "tensor/tensor.h"

namespace rl {

enum LazyBit : uint8_t { Conjugated = 1, Negated = 2 };

inline bool is_conjugated(const Tensor& t) { return t.impl()->lazy & Conjugated; }
inline bool is_negated(const Tensor& t) { return t.impl()->lazy & Negated; }

// A conjugate of a sparse tensor, or on a device of the program's own, is computed at once.
inline bool can_be_lazy(const Tensor& t) {
  return !t.is_sparse() && t.device().type != DeviceType::PrivateUse1;
}

// Another window on the elements of `t`, to be read as what they are now, conjugated or negated.
Tensor lazily(const Tensor& t, LazyBit change);
// The address of the shared elements themselves.
void* shared_address(const Tensor& t);

void* read_lazy(TensorImpl* t);
void begin_lazy_write(const Tensor& t);
void end_lazy_write(const Tensor& t);
// After an error in an op: what it wrote to lazy views of this thread is forgotten.
void abandon_lazy_writes();

}  // namespace rl
