#include "kernels/norm.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/launch.h"

namespace rl::cuda {
namespace {

constexpr const char* header = "kernels/cuda/device/norm.cuh";

KernelTemplate forward(header), forward_packs(header), backward(header), backward_packs(header),
    parameters(header), parameter_packs(header), parameters_joined(header);

unsigned threads_for(int64_t count) {
  return static_cast<unsigned>(std::clamp<int64_t>((count + 31) / 32 * 32, 32, block_threads));
}
void* data_of(const View* v) { return v ? v->data : nullptr; }
int dtype_of_view(const View* v) { return v ? static_cast<int>(v->dtype) : 0; }

Rows rows_of(const View& input, int64_t rows, const View* weight, const View* bias, double eps,
             bool centered) {
  int64_t length = rows ? input.numel / rows : 0;
  return {rows,
          length,
          1,
          length,
          1,
          data_of(weight),
          data_of(bias),
          dtype_of_view(weight),
          dtype_of_view(bias),
          eps,
          centered};
}
Rows groups_of(const View& input, const View& mean, const View* weight, const View* bias,
               double eps) {
  Rows r = rows_of(input, mean.numel, weight, bias, eps, true);
  r.groups = mean.sizes[1];
  r.per_group = input.sizes[1] / r.groups;
  r.places = r.per_group ? std::max<int64_t>(r.length / r.per_group, 1) : 1;
  return r;
}

// How rows are kept in registers: a warp each, or a block each, `packs` of 16 bytes a thread.
struct PackedRows {
  DType parameter = DType::Float32;  // what weight and bias are stored as
  int count = 0, packs = 0;
  unsigned threads = 32;
  explicit operator bool() const { return packs > 0; }
  Grid block() const { return {threads, threads == 32 ? 8u : 1u}; }
  uint64_t variant(DType t) const {
    return (uint64_t(t) << 8 | uint64_t(parameter)) << 8 | uint64_t(packs);
  }
};
PackedRows packed(const Rows& r, DType dtype, std::initializer_list<const void*> pointers) {
  PackedRows p;
  if (r.groups != 1 || r.places != 1 || (r.bias && r.bias_dtype != r.weight_dtype)) return p;
  p.parameter = r.weight ? static_cast<DType>(r.weight_dtype) : dtype;
  p.count = static_cast<int>(16 / itemsize(dtype));
  if (p.parameter != dtype && p.parameter != DType::Float32) return p;
  for (const void* at : pointers)
    if (reinterpret_cast<uintptr_t>(at) % 32) return p;
  if (r.length % p.count) return p;
  int64_t all = r.length / p.count;
  p.threads = all <= 32 * 4 ? 32 : block_threads;
  int64_t each = (all + p.threads - 1) / p.threads;
  p.packs = each <= 1 ? 1 : each <= 2 ? 2 : each <= 4 ? 4 : each <= 8 ? 8 : 0;
  return p;
}
int64_t blocks_for_rows(int64_t rows, const PackedRows& p) {
  return p.threads == 32 ? (rows + 7) / 8 : rows;
}

void run_forward(const Context& context, const char* op, const View& input, const View& out,
                 void* mean, const View& rstd, const Rows& r) {
  int device = context.device.index;
  use(device);
  if (!r.rows) return;
  if (auto p = packed(r, input.dtype, {input.data, out.data, r.weight, r.bias})) {
    CUfunction f = forward_packs.get(p.variant(input.dtype), device, op, [&] {
      return instance("normalise_packed_rows", input.dtype, p.parameter, p.count, p.packs);
    });
    return launch_kernel(f, device, op, blocks_of_rows(blocks_for_rows(r.rows, p)), p.block(), 0,
                         input.data, out.data, mean, rstd.data, r);
  }
  CUfunction f = forward.get(static_cast<uint64_t>(input.dtype), device, op,
                             [&] { return instance("normalise_rows", input.dtype); });
  launch_kernel(f, device, op, blocks_of_rows(r.rows), Grid{threads_for(r.length)}, 0, input.data,
                out.data, mean, rstd.data, r);
}
void run_input_gradient(const char* op, const View& grad, const View& input, void* mean,
                        const View& rstd, const View& result, const Rows& r, int device) {
  if (auto p = packed(r, input.dtype, {grad.data, input.data, result.data, r.weight})) {
    CUfunction f = backward_packs.get(p.variant(input.dtype), device, op, [&] {
      return instance("normalise_packed_rows_gradient", input.dtype, p.parameter, p.count, p.packs);
    });
    return launch_kernel(f, device, op, blocks_of_rows(blocks_for_rows(r.rows, p)), p.block(), 0,
                         grad.data, input.data, mean, rstd.data, result.data, r);
  }
  CUfunction f = backward.get(static_cast<uint64_t>(input.dtype), device, op,
                              [&] { return instance("normalise_rows_gradient", input.dtype); });
  launch_kernel(f, device, op, blocks_of_rows(r.rows), Grid{threads_for(r.length)}, 0, grad.data,
                input.data, mean, rstd.data, result.data, r);
}

// Columns of rows are added up in parts, by the sizes alone, and the parts in order.
void run_parameter_gradients(const char* op, const View& grad, const View& input, void* mean,
                             const View& rstd, const View* grad_weight, const View* grad_bias,
                             const Rows& r, int device) {
  void *w = data_of(grad_weight), *b = data_of(grad_bias);
  int w_dtype = dtype_of_view(grad_weight), b_dtype = dtype_of_view(grad_bias);
  if (auto p = packed(r, input.dtype, {grad.data, input.data})) {
    int64_t groups = (r.length / p.count + 31) / 32;
    int64_t parts = std::clamp<int64_t>(512 / groups, 1, std::max<int64_t>(r.rows / 32, 1));
    Scratch sums(static_cast<size_t>(parts * r.length * 2 * itemsize(compute_dtype(input.dtype))),
                 device);
    void* memory = sums.get();
    CUfunction f = parameter_packs.get(static_cast<uint64_t>(input.dtype), device, op, [&] {
      return instance("packed_parameter_gradients", input.dtype, p.count);
    });
    launch_kernel(f, device, op, blocks_of_rows(groups * parts), Grid{32, 8}, 0, grad.data,
                  input.data, mean, rstd.data, memory, parts, r);
    f = parameters_joined.get(static_cast<uint64_t>(input.dtype), device, op,
                              [&] { return instance("join_parameter_gradients", input.dtype); });
    return launch_elements(f, device, op, r.length, memory, parts, r.length, w, w_dtype, b,
                           b_dtype);
  }
  CUfunction f = parameters.get(static_cast<uint64_t>(input.dtype), device, op,
                                [&] { return instance("row_parameter_gradients", input.dtype); });
  launch_kernel(f, device, op, blocks_of_rows(r.groups * r.per_group),
                Grid{threads_for(r.rows / r.groups * r.places)}, 0, grad.data, input.data, mean,
                rstd.data, w, w_dtype, b, b_dtype, r);
}

void run_backward(const Context& context, const char* op, const View& grad, const View& input,
                  void* mean, const View& rstd, const View* grad_input, const View* grad_weight,
                  const View* grad_bias, const Rows& r) {
  int device = context.device.index;
  use(device);
  if (!input.numel) {  // no rows to add up
    for (const View* g : {grad_weight, grad_bias})
      if (g) set_zero(context, g->data, static_cast<size_t>(g->numel * itemsize(g->dtype)));
    return;
  }
  if (grad_input) run_input_gradient(op, grad, input, mean, rstd, *grad_input, r, device);
  int64_t channels = r.groups * r.per_group;
  if ((grad_weight || grad_bias) && channels)
    run_parameter_gradients(op, grad, input, mean, rstd, grad_weight, grad_bias, r, device);
}

}  // namespace

void layer_norm(const Context& c, const View& input, const View* weight, const View* bias,
                double eps, const View& out, const View& mean, const View& rstd) {
  run_forward(c, "layer_norm", input, out, mean.data, rstd,
              rows_of(input, mean.numel, weight, bias, eps, true));
}
void layer_norm_backward(const Context& c, const View& grad, const View& input, const View& mean,
                         const View& rstd, const View* weight, const View* grad_input,
                         const View* grad_weight, const View* grad_bias) {
  run_backward(c, "layer_norm_backward", grad, input, mean.data, rstd, grad_input, grad_weight,
               grad_bias, rows_of(input, mean.numel, weight, nullptr, 0, true));
}
void rms_norm(const Context& c, const View& input, const View* weight, double eps, const View& out,
              const View& rstd) {
  run_forward(c, "rms_norm", input, out, nullptr, rstd,
              rows_of(input, rstd.numel, weight, nullptr, eps, false));
}
void rms_norm_backward(const Context& c, const View& grad, const View& input, const View& rstd,
                       const View* weight, const View* grad_input, const View* grad_weight) {
  run_backward(c, "rms_norm_backward", grad, input, nullptr, rstd, grad_input, grad_weight, nullptr,
               rows_of(input, rstd.numel, weight, nullptr, 0, false));
}
void group_norm(const Context& c, const View& input, const View* weight, const View* bias,
                double eps, const View& out, const View& mean, const View& rstd) {
  run_forward(c, "group_norm", input, out, mean.data, rstd,
              groups_of(input, mean, weight, bias, eps));
}
void group_norm_backward(const Context& c, const View& grad, const View& input, const View& mean,
                         const View& rstd, const View* weight, const View* grad_input,
                         const View* grad_weight, const View* grad_bias) {
  run_backward(c, "group_norm_backward", grad, input, mean.data, rstd, grad_input, grad_weight,
               grad_bias, groups_of(input, mean, weight, nullptr, 0));
}

}  // namespace rl::cuda
