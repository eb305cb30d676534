#include "kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/library.h"
#include "kernels/elementwise.h"

namespace rl::cuda {

RL_CUDA_KERNEL(run_loop);

namespace {

using kernels::GemmScale;

constexpr const char* header = "kernels/cuda/device/gemm.cuh";
KernelTemplate elements(header), tiled(header), line_copies(header);
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

// A matrix of 16-bit floats whose lines begin at multiples of 16 bytes, as tensor cores load them:
// the view itself, or a copy, written back by finish() if it is the result.
class AlignedLines {
 public:
  static constexpr int64_t pack = 8;
  static bool fits(const View& v) {
    int64_t step = v.strides[1] == 1 ? v.strides[0] : v.strides[1];
    bool dense = v.strides[0] == 1 || v.strides[1] == 1;
    return !dense || (step % pack == 0 && reinterpret_cast<uintptr_t>(v.data) % 16 == 0);
  }

  AlignedLines(const Context& context, const View& view, bool result)
      : device_(context.device.index), view_(view), aligned_(view) {
    if (fits(view)) return;
    int64_t inner = view.strides[1] == 1 ? 1 : 0;
    lines_ = view.sizes[1 - inner];
    length_ = view.sizes[inner];
    step_ = view.strides[1 - inner];
    strides_[inner] = 1;
    strides_[1 - inner] = aligned_step_ = (length_ + pack - 1) / pack * pack;
    memory_.emplace(static_cast<size_t>(lines_ * aligned_step_ * itemsize(view.dtype)), device_);
    aligned_.data = memory_->get();
    aligned_.strides = strides_;
    if (!result) move(view.data, step_, memory_->get(), aligned_step_);
  }
  AlignedLines(const AlignedLines&) = delete;

  const View& view() const { return aligned_; }
  void finish() const {
    if (memory_) move(memory_->get(), aligned_step_, view_.data, step_);
  }

 private:
  void move(const void* from, int64_t from_step, void* to, int64_t to_step) const {
    CUfunction f = line_copies.get(static_cast<uint64_t>(view_.dtype), device_, "matmul",
                                   [&] { return instance("copy_lines", view_.dtype); });
    Grid grid{static_cast<unsigned>(std::min<int64_t>((length_ + 2047) / 2048, 65535)),
              static_cast<unsigned>(std::min<int64_t>(lines_, 65535))};
    launch_kernel(f, device_, "matmul", grid, Grid{256}, 0, from, from_step, to, to_step, lines_,
                  length_);
  }
  int device_;
  const View& view_;
  View aligned_;
  int64_t strides_[2] = {}, lines_ = 0, length_ = 0, step_ = 0, aligned_step_ = 0;
  std::optional<Scratch> memory_;
};

// Whether copies take a fraction of what cuBLASLt loses by lines that begin anywhere.
bool wants_alignment(const View& a, const View& b, const View& out, const GemmScale& scale,
                     const View* added) {
  constexpr int64_t least = 512;
  return a.ndim == 2 && is_reduced(out.dtype) && out.sizes[0] >= least && out.sizes[1] >= least &&
         a.sizes[1] >= least && (added || scale.beta.equals(0)) &&
         !(AlignedLines::fits(a) && AlignedLines::fits(b) && AlignedLines::fits(out)) &&
         cublas_lt();
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
  if (wants_alignment(a, b, out, scale, added)) {
    AlignedLines x(context, a, false), y(context, b, false), z(context, out, true);
    gemm(context, x.view(), y.view(), z.view(), scale, added);
    return z.finish();
  }
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
