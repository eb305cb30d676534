// Elements that the host itself reads or writes: on the CPU, wherever the tensor is.
#pragma once
#include "core/thread_state.h"
#include "ops_create.h"

namespace rl {

// Nothing is to be moved: the elements are the host's, or there are none.
inline bool needs_no_move(Device d) { return d.is_cpu() || d.is_meta(); }

// The tensor, or a copy on the CPU, after what computes it.
inline Tensor on_host(const Tensor& t) {
  if (needs_no_move(t.device())) return t;
  NoGradGuard guard;
  return ops::to(t, Device{});
}
// What the host has written, where it belongs.
inline Tensor moved_to(const Tensor& t, Device device) {
  if (needs_no_move(device)) return t;
  NoGradGuard guard;
  return ops::to(t, device);
}
// `t` with the elements that `write` gives it on the CPU; on meta there are none to write.
template <class F> Tensor written_by_host(const Tensor& t, F&& write) {
  if (t.is_meta()) return t;
  Tensor host = t.device().is_cpu() ? t : rl::empty(t.sizes(), {t.dtype(), Device{}});
  write(host);
  return moved_to(host, t.device());
}

}  // namespace rl
