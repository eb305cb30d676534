#include "kernels/softmax.h"

#include <algorithm>

#include "kernels/cross_entropy.h"
#include "kernels/cuda/device/softmax.h"
#include "kernels/cuda/launch.h"
#include "kernels/nll_loss.h"

namespace rl::cuda {
namespace {

using kernels::CrossEntropy;
using kernels::Reduction;

constexpr const char* header = "kernels/cuda/device/softmax.cuh";

// The beginnings of a view's lines along `dim`, and what one is.
Strided lines_of(const View& v, int64_t dim, Line& line, const char* op) {
  Dims sizes, strides;
  for (int64_t d = 0; d < v.ndim; ++d)
    if (d != dim) {
      sizes.push_back(v.sizes[d]);
      strides.push_back(v.strides[d]);
    }
  line = v.ndim ? Line{v.sizes[dim], v.strides[dim]} : Line{1, 1};
  return strided(
      View{v.data, sizes.data(), strides.data(), sizes.size(), product(sizes), v.dtype, v.device},
      op);
}
unsigned threads_for(int64_t count) {
  return static_cast<unsigned>(std::clamp<int64_t>((count + 31) / 32 * 32, 32, block_threads));
}

KernelTemplate forward(header), forward_packs(header), backward(header), backward_packs(header),
    entropy(header), summed(header), entropy_gradient(header), likelihood(header),
    likelihood_gradient(header);

// Lines whose elements are neighbours and that begin at multiples of 16 bytes.
bool keeps_packs(const Strided& lines, const Line& line, DType dtype) {
  int64_t count = 16 / itemsize(dtype);
  for (int d = 0; d < lines.ndim; ++d)
    if (lines.strides[d] % count) return false;
  return line.step == 1 && is_aligned(lines.data);
}

void run_forward(const Context& context, const View& input, int64_t dim, const View& out,
                 bool logarithm, const char* op) {
  int device = context.device.index;
  use(device);
  if (!input.numel) return;
  Line from, to;
  Strided x = lines_of(input, dim, from, op), y = lines_of(out, dim, to, op);
  bool aligned = keeps_packs(x, from, input.dtype) && keeps_packs(y, to, input.dtype);
  if (RowPlan p(from.count, input.dtype, aligned); p) {
    uint64_t variant = (static_cast<uint64_t>(input.dtype) * 2 + logarithm) << 8;
    CUfunction f = forward_packs.get(variant | uint64_t(p.packs), device, op, [&] {
      return instance("softmax_packed", input.dtype, logarithm, p.count, p.packs);
    });
    return launch_kernel(f, device, op, p.grid(x.numel), p.block(), 0, x, y, from.count);
  }
  CUfunction f = forward.get(static_cast<uint64_t>(input.dtype) * 2 + logarithm, device, op,
                             [&] { return instance("softmax_forward", input.dtype, logarithm); });
  launch_kernel(f, device, op, blocks_of_rows(x.numel), Grid{threads_for(from.count)}, 0, x, y,
                from, to);
}
void run_backward(const Context& context, const View& grad, const View& output, int64_t dim,
                  const View& grad_input, bool logarithm, const char* op) {
  int device = context.device.index;
  use(device);
  if (!grad.numel) return;
  Line g, o, r;
  Strided gs = lines_of(grad, dim, g, op), os = lines_of(output, dim, o, op),
          rs = lines_of(grad_input, dim, r, op);
  bool aligned = keeps_packs(gs, g, grad.dtype) && keeps_packs(os, o, grad.dtype) &&
                 keeps_packs(rs, r, grad.dtype);
  if (RowPlan p(g.count, grad.dtype, aligned); p) {
    uint64_t variant = (static_cast<uint64_t>(grad.dtype) * 2 + logarithm) << 8;
    CUfunction f = backward_packs.get(variant | uint64_t(p.packs), device, op, [&] {
      return instance("softmax_packed_gradient", grad.dtype, logarithm, p.count, p.packs);
    });
    return launch_kernel(f, device, op, p.grid(gs.numel), p.block(), 0, gs, os, rs, g.count);
  }
  CUfunction f = backward.get(static_cast<uint64_t>(grad.dtype) * 2 + logarithm, device, op,
                              [&] { return instance("softmax_backward", grad.dtype, logarithm); });
  launch_kernel(f, device, op, blocks_of_rows(gs.numel), Grid{threads_for(g.count)}, 0, gs, os, rs,
                g, o, r);
}

// (N, C, ...) as (N, C, S), (N, ...) as (N, S); copies where the places do not join.
class Folded {
 public:
  Folded(const Context& context, const View& v, int64_t leading, const char* op) {
    const View* view = &v;
    int64_t places = 1, step = 1;
    bool joins = true;
    for (int64_t d = v.ndim - 1; d >= leading; --d) {
      if (v.sizes[d] != 1) {
        if (places == 1) step = v.strides[d];
        else joins = joins && v.strides[d] == step * places;
      }
      places *= v.sizes[d];
    }
    if (!joins) {
      copy_.emplace(context, v);
      view = &copy_->view();
      if (!view->contiguous()) joins = false;
      step = 1;
    }
    strided_.data = view->data;
    strided_.numel = v.numel;
    strided_.dtype = static_cast<int>(v.dtype);
    strided_.ndim = static_cast<int>(leading) + 1;
    for (int64_t d = 0; d < leading; ++d) {
      strided_.sizes[d] = view->sizes[d];
      strided_.strides[d] = view->strides[d];
    }
    strided_.sizes[leading] = places;
    strided_.strides[leading] = step;
    (void)op;
  }
  const Strided& get() const { return strided_; }

 private:
  std::optional<Contiguous> copy_;
  Strided strided_{};
};

LossArgs loss_args(const Context& context, const Strided& input, const Strided& target,
                   const View* weight, int64_t ignore_index, double smoothing, const char* op) {
  return {input,        target,    weight ? weight->data : nullptr,
          ignore_index, smoothing, faults(context.device.index, op)};
}

// What the lines gave, reduced: sum, mean, or as it is into `out`.
void finish(const Context& context, const char* op, DType dtype, Reduction reduction,
            const View& losses, const View& weights, const View& out, const View& total_weight) {
  int device = context.device.index;
  if (reduction == Reduction::None) {
    View shaped{losses.data, out.sizes, nullptr, out.ndim, out.numel, losses.dtype, losses.device};
    Dims strides = contiguous_strides(out.shape());
    shaped.strides = strides.data();
    copy(context, shaped, out);
    fill(context, total_weight, Scalar(0));
    return;
  }
  CUfunction f = summed.get(static_cast<uint64_t>(dtype), device, op,
                            [&] { return instance("sum_losses", dtype); });
  launch_kernel(f, device, op, Grid{1}, Grid{threads_for(losses.numel)}, 0, losses.numel,
                losses.data, weights.data, static_cast<int>(reduction == Reduction::Mean), out.data,
                static_cast<int>(out.dtype), total_weight.data,
                static_cast<int>(total_weight.dtype));
}

int reduction_number(Reduction r) {
  return r == Reduction::None ? 0 : r == Reduction::Mean ? 1 : 2;
}

}  // namespace

void softmax(const Context& c, const View& input, int64_t dim, const View& out) {
  run_forward(c, input, dim, out, false, "softmax");
}
void log_softmax(const Context& c, const View& input, int64_t dim, const View& out) {
  run_forward(c, input, dim, out, true, "log_softmax");
}
void softmax_backward(const Context& c, const View& grad, const View& output, int64_t dim,
                      const View& grad_input) {
  run_backward(c, grad, output, dim, grad_input, false, "softmax_backward");
}
void log_softmax_backward(const Context& c, const View& grad, const View& output, int64_t dim,
                          const View& grad_input) {
  run_backward(c, grad, output, dim, grad_input, true, "log_softmax_backward");
}

void cross_entropy(const Context& context, const CrossEntropy& given, const View& out,
                   const View& largest, const View& sums, const View& total_weight) {
  int device = context.device.index;
  use(device);
  DType dtype = given.input.dtype;
  Folded input(context, given.input, 2, "cross_entropy");
  Folded target(context, given.target, 1, "cross_entropy");
  LossArgs a = loss_args(context, input.get(), target.get(), given.weight, given.ignore_index,
                         given.smoothing, "cross_entropy");
  ScratchView losses(Dims{given.target.numel}, compute_dtype(dtype), device);
  ScratchView weights(Dims{given.target.numel}, compute_dtype(dtype), device);
  if (given.target.numel) {
    CUfunction f = entropy.get(static_cast<uint64_t>(dtype), device, "cross_entropy",
                               [&] { return instance("cross_entropy_lines", dtype); });
    launch_kernel(f, device, "cross_entropy", blocks_of_rows(given.target.numel),
                  Grid{threads_for(a.input.sizes[1])}, 0, a, losses.view().data,
                  weights.view().data, largest.data, sums.data);
  }
  finish(context, "cross_entropy", dtype, given.reduction, losses, weights, out, total_weight);
}
void cross_entropy_backward(const Context& context, const CrossEntropy& given, const View& grad,
                            const View& largest, const View& sums, const View& total_weight,
                            const View& grad_input) {
  int device = context.device.index;
  use(device);
  if (!grad_input.numel) return;
  DType dtype = given.input.dtype;
  Folded input(context, given.input, 2, "cross_entropy");
  Folded target(context, given.target, 1, "cross_entropy");
  bool each = given.reduction == Reduction::None;
  Folded grads(context, grad, each ? 1 : 0, "cross_entropy");
  ContiguousResult result(context, grad_input);
  Folded to(context, result.view(), 2, "cross_entropy");
  LossArgs a = loss_args(context, input.get(), target.get(), given.weight, given.ignore_index,
                         given.smoothing, "cross_entropy");
  CUfunction f = entropy_gradient.get(static_cast<uint64_t>(dtype), device, "cross_entropy",
                                      [&] { return instance("cross_entropy_gradient", dtype); });
  launch_kernel(f, device, "cross_entropy", blocks_of_rows(given.target.numel),
                Grid{threads_for(a.input.sizes[1])}, 0, a, grads.get(),
                reduction_number(given.reduction), largest.data, sums.data, total_weight.data,
                static_cast<int>(total_weight.dtype), to.get());
  result.finish();
}

void nll_loss(const Context& context, const View& input, const View& target, const View* weight,
              int64_t ignore_index, Reduction reduction, const View& out,
              const View& total_weight) {
  int device = context.device.index;
  use(device);
  Folded scores(context, input, 2, "nll_loss"), targets(context, target, 1, "nll_loss");
  LossArgs a = loss_args(context, scores.get(), targets.get(), weight, ignore_index, 0, "nll_loss");
  ScratchView losses(Dims{target.numel}, compute_dtype(input.dtype), device);
  ScratchView weights(Dims{target.numel}, compute_dtype(input.dtype), device);
  if (target.numel) {
    CUfunction f = likelihood.get(static_cast<uint64_t>(input.dtype), device, "nll_loss",
                                  [&] { return instance("nll_lines", input.dtype); });
    launch_elements(f, device, "nll_loss", target.numel, a, losses.view().data,
                    weights.view().data);
  }
  finish(context, "nll_loss", input.dtype, reduction, losses, weights, out, total_weight);
}
void nll_loss_backward(const Context& context, const View& grad, const View& target,
                       const View* weight, int64_t ignore_index, Reduction reduction,
                       const View& total_weight, const View& grad_input) {
  int device = context.device.index;
  use(device);
  if (!grad_input.numel) return;
  Folded targets(context, target, 1, "nll_loss");
  bool each = reduction == Reduction::None;
  Folded grads(context, grad, each ? 1 : 0, "nll_loss");
  ContiguousResult result(context, grad_input);
  Folded to(context, result.view(), 2, "nll_loss");
  LossArgs a = loss_args(context, Strided{}, targets.get(), weight, ignore_index, 0, "nll_loss");
  CUfunction f =
      likelihood_gradient.get(static_cast<uint64_t>(grad_input.dtype), device, "nll_loss",
                              [&] { return instance("nll_gradient", grad_input.dtype); });
  launch_elements(f, device, "nll_loss", grad_input.numel, a, grads.get(),
                  reduction_number(reduction), total_weight.data,
                  static_cast<int>(total_weight.dtype), to.get());
  result.finish();
}

}  // namespace rl::cuda
