#include "kernels/cuda/launch.h"

namespace rl::cuda {

#define RL_SAME(name) \
  static_assert(static_cast<int>(Element##name) == static_cast<int>(DType::name))
RL_SAME(Bool);
RL_SAME(UInt8);
RL_SAME(Int8);
RL_SAME(Int16);
RL_SAME(Int32);
RL_SAME(Int64);
RL_SAME(Float16);
RL_SAME(BFloat16);
RL_SAME(Float32);
RL_SAME(Float64);
RL_SAME(Complex64);
RL_SAME(Complex128);
#undef RL_SAME

Strided strided_as_is(const View& view, const char* op) {
  check(view.ndim <= max_view_dims, op, ": on CUDA a tensor has at most ", max_view_dims,
        " dims that do not join, not the shape ", view.shape());
  Strided result;
  result.data = view.data;
  result.numel = view.numel;
  result.ndim = static_cast<int>(view.ndim);
  result.dtype = static_cast<int>(view.dtype);
  for (int64_t d = 0; d < view.ndim; ++d) {
    result.sizes[d] = view.sizes[d];
    result.strides[d] = view.strides[d];
  }
  return result;
}

bool lie_alike(const View& a, const View& b) {
  int64_t extent = 1;
  for (int64_t d = 0; d < a.ndim; ++d) {
    if (a.sizes[d] != 1 && (a.strides[d] != b.strides[d] || a.strides[d] < 0)) return false;
    extent += (a.sizes[d] - 1) * a.strides[d];
  }
  return extent == a.numel;
}

Strided strided(const View& view, const char* op) {
  Dims sizes, strides;
  for (int64_t d = 0; d < view.ndim; ++d) {
    if (view.sizes[d] == 1) continue;
    int64_t last = sizes.size() - 1;
    if (last >= 0 && strides[last] == view.strides[d] * view.sizes[d]) {
      sizes[last] *= view.sizes[d];
      strides[last] = view.strides[d];
    } else {
      sizes.push_back(view.sizes[d]);
      strides.push_back(view.strides[d]);
    }
  }
  return strided_as_is(View{view.data, sizes.data(), strides.data(), sizes.size(), view.numel,
                            view.dtype, view.device},
                       op);
}

Contiguous::Contiguous(const Context& context, const View& view, DType dtype) : given_(&view) {
  if (view.dtype == dtype && view.contiguous()) return;
  copy_.emplace(view.shape(), dtype, context.device.index);
  copy(context, view, copy_->view());
}

ContiguousResult::ContiguousResult(const Context& context, const View& view, DType dtype)
    : context_(context), target_(view) {
  if (view.dtype == dtype && view.contiguous()) return;
  copy_.emplace(view.shape(), dtype, context.device.index);
}
void ContiguousResult::finish() {
  if (copy_) copy(context_, copy_->view(), target_);
}

void encode(const Scalar& value, DType dtype, void* to) {
  visit_all("a number", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element = value.to<T>();
    std::memcpy(to, &element, sizeof element);
  });
}

void upload(const Context& context, void* to, const void* from, size_t bytes) {
  if (!bytes) return;
  CUstream stream = current_stream(context.device.index);
  timeline::Piece piece("Memcpy HtoD", context.device.index, stream);
  RL_CUDA(cuMemcpyHtoDAsync_v2, reinterpret_cast<CUdeviceptr>(to), from, bytes, stream);
}

}  // namespace rl::cuda
