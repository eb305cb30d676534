#include "dispatch/launcher.h"

#include "dispatch/guards.h"
#include "tensor/sparse.h"

namespace rl::launch {

void fail_devices(const char* kernel, Device a, Device b) {
  fail(ErrorKind::Runtime, kernel, ": all tensors must be on one device, but they are on ", a,
       " and ", b);
}

void fail_missing(const char* kernel, Device device) {
  fail(ErrorKind::NotImplemented, kernel, ": not implemented on device ", device);
}

void fail_layout(const char* kernel, Layout layout) {
  fail(ErrorKind::NotImplemented, kernel, ": not implemented for tensors in layout ", name(layout),
       "; to_dense() gives an ordinary tensor");
}

int64_t bytes_of(const Tensor& t) {
  int64_t n = 1;
  for (int64_t d = 0; d < t.dim(); ++d) n *= t.strides()[d] ? t.sizes()[d] : 1;
  return (t.numel() ? n : 0) * itemsize(t.dtype());
}
int64_t bytes_of(const View& v) {
  int64_t n = 1;
  for (int64_t d = 0; d < v.ndim; ++d) n *= v.strides[d] ? v.sizes[d] : 1;
  return (v.numel ? n : 0) * itemsize(v.dtype);
}

void fail_meta(const char* kernel) {
  fail(ErrorKind::NotImplemented, kernel,
       ": its result depends on elements, which tensors on device meta do not have");
}

}  // namespace rl::launch

namespace rl {

Dims strides_as(const Tensor& t, IntSpan sizes) {
  if (t.is_contiguous()) return contiguous_strides(sizes);
  Dims strides(sizes.size(), 1);
  int64_t from = 0;
  for (int64_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    while (t.sizes()[from] == 1) ++from;
    strides[d] = t.strides()[from++];
  }
  return strides;
}

void check_not_batched(const char* kernel) {
  check_implemented(!(mode() & Batched), kernel, ": no rule for a batch of gradients");
}

void check_elements(const char* op, const Tensor& t) {
  if (t.is_meta()) launch::fail_meta(op);
}

}  // namespace rl
