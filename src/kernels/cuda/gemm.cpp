#include "kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/launch.h"
#include "kernels/elementwise.h"

namespace rl::cuda {

RL_CUDA_KERNEL(run_loop);

namespace {

using kernels::GemmScale;

KernelTemplate elements("kernels/cuda/device/gemm.cuh"), tiled("kernels/cuda/device/gemm.cuh");
constexpr int64_t small_depth = 64, small_result = 4096;

void finish(const Context& context, const GemmScale& scale, const View& out) {
  if (!scale.finish) return;
  Views inputs(&out, 1);
  run_loop(context, *scale.finish, compute_dtype(out.dtype), kernels::LoopResult::Same, out, inputs,
           nullptr);
}

void launch_own_product(int device, const Product& p, int64_t batches, DType dtype,
                        const char* op) {
  if (p.rows * p.columns <= small_result && p.depth <= small_depth) {
    CUfunction f = elements.get(static_cast<uint64_t>(dtype), device, op,
                                [&] { return instance("gemm_elements", dtype); });
    return launch_elements(f, device, op, batches * p.rows * p.columns, p, batches);
  }
  CUfunction f = tiled.get(static_cast<uint64_t>(dtype), device, op,
                           [&] { return instance("gemm_tiled", dtype); });
  constexpr int64_t most_rows = int64_t(65535) * 64;  // that a grid has
  for (int64_t begin = 0; begin < p.rows; begin += most_rows) {
    Product part = p;
    int64_t bytes = itemsize(dtype);
    part.rows = std::min(most_rows, p.rows - begin);
    part.a = static_cast<char*>(p.a) + begin * p.a_row * bytes;
    part.out = static_cast<char*>(p.out) + begin * p.out_row * bytes;
    if (p.added) part.added = static_cast<char*>(p.added) + begin * p.added_row * bytes;
    Grid grid{static_cast<unsigned>((p.columns + 63) / 64),
              static_cast<unsigned>((part.rows + 63) / 64),
              static_cast<unsigned>(std::min<int64_t>(batches, 65535))};
    launch_kernel(f, device, op, grid, Grid{256}, 0, part, batches);
  }
}

// Says whether what comes after the product, if it is this one, is done.
bool launch_product(const Context& context, Product p, int64_t batches, DType dtype, const char* op,
                    const kernels::Loop* after = nullptr) {
  int device = context.device.index;
  use(device);
  if (!batches || !p.rows || !p.columns) return false;
  bool relu = after && !std::strcmp(after->name, "relu");
  if (relu && cublas_product(device, p, batches, dtype, true)) return true;
  if (!cublas_product(device, p, batches, dtype, false))
    launch_own_product(device, p, batches, dtype, op);
  return false;
}

void set_scale(Product& p, const GemmScale& scale, const View& out, const View* added) {
  DType compute = compute_dtype(out.dtype);
  encode(scale.alpha, compute, p.alpha);
  encode(scale.beta, compute, p.beta);
  p.has_added = !scale.beta.equals(0);
  (void)added;
}

}  // namespace

void gemm(const Context& context, const View& a, const View& b, const View& out,
          const GemmScale& scale, const View* added) {
  int64_t m = a.ndim - 2;  // the dim of rows
  Product p{};
  p.a = a.data;
  p.b = b.data;
  p.out = out.data;
  p.rows = out.sizes[m];
  p.columns = out.sizes[m + 1];
  p.depth = a.sizes[m + 1];
  p.a_row = a.strides[m];
  p.a_column = a.strides[m + 1];
  p.b_row = b.strides[m];
  p.b_column = b.strides[m + 1];
  p.out_row = out.strides[m];
  p.out_column = out.strides[m + 1];
  int64_t batches = 1;
  if (m) {
    batches = out.sizes[0];
    p.a_batch = a.strides[0];
    p.b_batch = b.strides[0];
    p.out_batch = out.strides[0];
  }
  const View& base = added ? *added : out;
  p.added = base.data;
  p.added_row = base.strides[m];
  p.added_column = base.strides[m + 1];
  p.added_batch = m ? base.strides[0] : 0;
  set_scale(p, scale, out, added);
  if (!launch_product(context, p, batches, out.dtype, "matmul", scale.finish))
    finish(context, scale, out);
}

void matvec(const Context& context, const View& a, const View& x, const View& out,
            const GemmScale& scale) {
  Product p{};
  p.a = a.data;
  p.b = x.data;
  p.out = p.added = out.data;
  p.rows = out.sizes[0];
  p.columns = 1;
  p.depth = a.sizes[1];
  p.a_row = a.strides[0];
  p.a_column = a.strides[1];
  p.b_row = x.strides[0];
  p.out_row = p.added_row = out.strides[0];
  set_scale(p, scale, out, nullptr);
  if (!launch_product(context, p, 1, out.dtype, "matvec", scale.finish))
    finish(context, scale, out);
}

void dot(const Context& context, const View& a, const View& b, const View& out) {
  Product p{};
  p.a = a.data;
  p.b = b.data;
  p.out = out.data;
  p.rows = p.columns = 1;
  p.depth = a.numel;
  p.a_column = a.strides[0];
  p.b_row = b.strides[0];
  set_scale(p, {}, out, nullptr);
  launch_product(context, p, 1, out.dtype, "dot");
}

// Sums of products of bytes, in the integers that the result is of.
void gemm_bytes(const Context& context, const View& a, const View& b, const View& out) {
  use(context.device.index);
  Contiguous wide_a(context, a, out.dtype), wide_b(context, b, out.dtype);
  gemm(context, wide_a, wide_b, out, {}, nullptr);
}

}  // namespace rl::cuda
