#include "kernels/cuda/device/bag.h"
#include "kernels/cuda/device/fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/embedding.h"

namespace rl::cuda {
namespace {

using kernels::Bag;

static_assert(static_cast<int>(Bag::Sum) == BagSum && static_cast<int>(Bag::Mean) == BagMean &&
              static_cast<int>(Bag::Max) == BagMax);

constexpr const char* header = "kernels/cuda/device/bag.cuh";

KernelTemplate forwards(header), gradients(header), scale_gradients(header), countings(header),
    renorms(header);

Strided or_null(const View* v, const char* op) { return v ? strided_as_is(*v, op) : Strided{}; }

BagArgs bag_args(const Context& context, const char* op, const View& index, const View& offsets,
                 Bag mode, const View* sample_weights, int64_t padding, int64_t rows) {
  return {strided_as_is(index, op),
          strided_as_is(offsets, op),
          or_null(sample_weights, op),
          static_cast<int>(mode),
          padding,
          rows,
          nullptr,
          faults(context.device.index, op)};
}

// How often each row of a table is named.
class RowCounts {
 public:
  RowCounts(const Context& context, const char* op, const View& index, int64_t rows)
      : memory_(static_cast<size_t>(rows) * 8, context.device.index) {
    int device = context.device.index;
    set_zero(context, memory_.get(), static_cast<size_t>(rows) * 8);
    if (!index.numel || !rows) return;
    BagArgs args{};
    Contiguous given(context, index);  // of any number of dims
    Dims sizes{index.numel}, strides{1};
    args.index = strided_as_is(View{given.view().data, sizes.data(), strides.data(), 1, index.numel,
                                    index.dtype, index.device},
                               op);
    args.rows = rows;
    CUfunction f = countings.get(0, device, op, [&] { return instance("bag_counts", 0); });
    launch_elements(f, device, op, index.numel, args, get());
  }
  int64_t* get() const { return memory_.get<int64_t>(); }

 private:
  Scratch memory_;
};

CUfunction kernel_of(KernelTemplate& kernel, const char* name, DType dtype, int device,
                     const char* op) {
  check_implemented(is_floating(dtype), op, ": not implemented on CUDA for dtype ", dtype);
  return kernel.get(static_cast<uint64_t>(dtype), device, op,
                    [&] { return instance(name, dtype); });
}

}  // namespace

void embedding_bag(const Context& context, const View& weight, const View& index,
                   const View& offsets, Bag mode, const View* sample_weights, int64_t padding_idx,
                   const View& out, const View* max_indices) {
  const char* op = "embedding_bag";
  int device = context.device.index;
  use(device);
  CUfunction f = kernel_of(forwards, "bag_forward", weight.dtype, device, op);
  if (!out.numel) return;
  launch_elements(
      f, device, op, out.numel, strided_as_is(weight, op), strided_as_is(out, op),
      or_null(max_indices, op),
      bag_args(context, op, index, offsets, mode, sample_weights, padding_idx, weight.sizes[0]));
}
void embedding_bag_backward(const Context& context, const View& grad, const View& index,
                            const View& offsets, Bag mode, const View* sample_weights,
                            int64_t padding_idx, bool scale_by_frequency, const View* max_indices,
                            const View& grad_weight) {
  const char* op = "embedding_bag_backward";
  int device = context.device.index;
  use(device);
  CUfunction f = kernel_of(gradients, "bag_gradient", grad.dtype, device, op);
  ContiguousResult sums(context, grad_weight, compute_dtype(grad.dtype));
  fill(context, sums.view(), Scalar(0));
  if (grad.numel) {
    BagArgs args = bag_args(context, op, index, offsets, mode, sample_weights, padding_idx,
                            grad_weight.sizes[0]);
    std::optional<RowCounts> counts;
    if (scale_by_frequency)
      args.counts = counts.emplace(context, op, index, grad_weight.sizes[0]).get();
    launch_elements(f, device, op, grad.numel, strided_as_is(grad, op), or_null(max_indices, op),
                    strided_as_is(sums.view(), op), args);
  }
  sums.finish();
}
void embedding_bag_sample_weights_backward(const Context& context, const View& grad,
                                           const View& weight, const View& index,
                                           const View& offsets, int64_t padding_idx,
                                           const View& out) {
  const char* op = "embedding_bag_sample_weights_backward";
  int device = context.device.index;
  use(device);
  CUfunction f = kernel_of(scale_gradients, "bag_scale_gradient", weight.dtype, device, op);
  if (!out.numel || !offsets.numel) return;
  launch_kernel(
      f, device, op, blocks_of_rows(offsets.numel), Grid{block_threads}, 0, strided_as_is(grad, op),
      strided_as_is(weight, op), strided_as_is(out, op),
      bag_args(context, op, index, offsets, Bag::Sum, nullptr, padding_idx, weight.sizes[0]));
}
void embedding_renorm(const Context& context, const View& weight, const View& index,
                      double max_norm, double p) {
  const char* op = "embedding_renorm";
  int device = context.device.index;
  use(device);
  CUfunction f = kernel_of(renorms, "renorm_rows", weight.dtype, device, op);
  if (!index.numel || !weight.numel) return;
  RowCounts counts(context, op, index, weight.sizes[0]);
  launch_kernel(f, device, op, blocks_of_rows(weight.sizes[0]), Grid{block_threads}, 0,
                strided_as_is(weight, op), counts.get(), max_norm, p);
}

}  // namespace rl::cuda
