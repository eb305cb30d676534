// Products with small integers in groups: few rows by a kernel of their own, more by a product with
// the matrix as floats, made in parts.
#include "kernels/cuda/device/groups.h"

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/gemm.h"

namespace rl::cuda {

RL_CUDA_KERNEL(gemm);

namespace {

constexpr const char* header = "kernels/cuda/device/groups.cuh";
constexpr const char* op = "gemm_groups";

KernelTemplate few_rows(header), as_floats(header);

CUfunction kernel(KernelTemplate& kernels, const char* name, bool four_bits, int device) {
  return kernels.get(four_bits, device, op, [&] { return instance(name, four_bits); });
}

void in_parts(const Context& context, const View& x, GroupDots p, bool four_bits, const View& out) {
  int device = context.device.index;
  constexpr int64_t most = int64_t(16) << 20;  // elements of a part
  int64_t columns = std::clamp<int64_t>(most / p.terms, 1, p.columns), all = p.columns;
  Scratch floats(static_cast<size_t>(columns * p.terms) * sizeof(float), device);
  CUfunction f = kernel(as_floats, "group_values", four_bits, device);
  int64_t row_bytes = four_bits ? p.terms / 2 : p.terms;
  p.out = floats.get<float>();
  for (int64_t begin = 0; begin < all; begin += columns) {
    p.columns = std::min(columns, all - begin);
    launch_elements(f, device, op, p.columns * row_bytes / 4, p);
    Dims sizes{p.terms, p.columns}, strides{1, p.terms}, part{out.sizes[0], p.columns};
    View matrix{p.out,          sizes.data(),  strides.data(), 2, p.terms * p.columns,
                DType::Float32, context.device};
    gemm(context, x, matrix, out.slice(1, begin, part), {}, nullptr);
    p.integers += p.columns * row_bytes / 4;
    p.scales += p.columns * (p.terms / p.group);
  }
}

}  // namespace

void gemm_groups(const Context& context, const View& x, const View& integers, const View& scales,
                 const View& out) {
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  int64_t terms = x.sizes[1];
  if (!terms) return fill(context, out, 0);
  std::optional<Scratch> moved;  // to an address of whole words
  const void* words = integers.data;
  if (reinterpret_cast<uintptr_t>(words) % sizeof(uint32_t)) {
    auto bytes = static_cast<size_t>(integers.numel);
    RL_CUDA(cuMemcpyDtoDAsync_v2, reinterpret_cast<CUdeviceptr>(moved.emplace(bytes, device).get()),
            reinterpret_cast<CUdeviceptr>(words), bytes, current_stream(device));
    words = moved->get();
  }
  Contiguous rows(context, x);
  bool four_bits = integers.dtype == DType::UInt8;
  GroupDots p{rows.data<const float>(),
              static_cast<const uint32_t*>(words),
              static_cast<const float*>(scales.data),
              static_cast<float*>(out.data),
              x.sizes[0],
              out.sizes[1],
              terms,
              terms / scales.sizes[1]};
  constexpr int64_t few = 32;
  if (p.rows > few) return in_parts(context, rows, p, four_bits, out);
  CUfunction f = kernel(few_rows, "group_dots", four_bits, device);
  launch_elements(f, device, op, p.columns * ((p.rows + 7) / 8) * 32, p);
}

}  // namespace rl::cuda
