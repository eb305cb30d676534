#include "kernels/norm.h"

#include <algorithm>

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

// What weight and bias are stored as, where rows of it can lie in registers.
struct PackedRows : RowPlan {
  DType parameter;

  PackedRows(const Rows& r, DType dtype, bool aligned)
      : RowPlan(r.length, dtype, aligned && r.groups == 1 && r.places == 1),
        parameter(r.weight ? static_cast<DType>(r.weight_dtype) : dtype) {
    bool known = parameter == dtype || parameter == DType::Float32;
    bool alike = (!r.bias || (r.bias_dtype == static_cast<int>(parameter))) &&
                 is_aligned(r.weight) && is_aligned(r.bias);
    if (!known || !alike) packs = 0;
  }
  uint64_t variant(DType t) const {
    return (uint64_t(t) << 8 | uint64_t(parameter)) << 8 | uint64_t(packs);
  }
};

void run_forward(const Context& context, const char* op, const View& input, const View& out,
                 void* mean, const View& rstd, const Rows& r) {
  int device = context.device.index;
  use(device);
  if (!r.rows) return;
  if (PackedRows p(r, input.dtype, is_aligned(input.data) && is_aligned(out.data)); p) {
    CUfunction f = forward_packs.get(p.variant(input.dtype), device, op, [&] {
      return instance("normalise_packed_rows", input.dtype, p.parameter, p.count, p.packs);
    });
    return launch_kernel(f, device, op, p.grid(r.rows), p.block(), 0, input.data, out.data, mean,
                         rstd.data, r);
  }
  CUfunction f = forward.get(static_cast<uint64_t>(input.dtype), device, op,
                             [&] { return instance("normalise_rows", input.dtype); });
  launch_kernel(f, device, op, blocks_of_rows(r.rows), Grid{threads_for(r.length)}, 0, input.data,
                out.data, mean, rstd.data, r);
}
void run_input_gradient(const char* op, const View& grad, const View& input, void* mean,
                        const View& rstd, const View& result, const Rows& r, int device) {
  bool aligned = is_aligned(grad.data) && is_aligned(input.data) && is_aligned(result.data);
  if (PackedRows p(r, input.dtype, aligned); p) {
    CUfunction f = backward_packs.get(p.variant(input.dtype), device, op, [&] {
      return instance("normalise_packed_rows_gradient", input.dtype, p.parameter, p.count, p.packs);
    });
    return launch_kernel(f, device, op, p.grid(r.rows), p.block(), 0, grad.data, input.data, mean,
                         rstd.data, result.data, r);
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
  if (PackedRows p(r, input.dtype, is_aligned(grad.data) && is_aligned(input.data)); p) {
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
