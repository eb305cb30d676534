#include "kernels/distance.h"

#include "kernels/cuda/device/distance.h"
#include "kernels/cuda/launch.h"

namespace rl::cuda {
namespace {

constexpr const char* header = "kernels/cuda/device/distance.cuh";

KernelTemplate forwards(header), gradients(header);

void check_kind(const char* op, DType t) {
  check_implemented(t == DType::Float32 || t == DType::Float64, op,
                    ": not implemented on CUDA for dtype ", t);
}
DistanceArgs args_of(const View& a, const View& b, double p) {
  return {a.sizes[a.ndim - 2], b.sizes[b.ndim - 2], a.sizes[a.ndim - 1], p, false, false};
}
int64_t matrices_of(const View& v) { return product(IntSpan(v.sizes, v.ndim - 2)); }

void forward(const Context& context, const char* op, const View& a, const View& b, const View& out,
             const DistanceArgs& args, int64_t batches) {
  int device = context.device.index;
  use(device);
  check_kind(op, a.dtype);
  if (!out.numel) return;
  CUfunction f = forwards.get(static_cast<uint64_t>(a.dtype), device, op,
                              [&] { return instance("distances", a.dtype); });
  launch_elements(f, device, op, batches * args.n * args.m, strided_as_is(a, op),
                  strided_as_is(b, op), out.data, batches, args);
}
void gradient(const Context& context, const char* op, const View& grad, const View& distances,
              const View& a, const View& b, const View& out, const DistanceArgs& args,
              int64_t batches) {
  int device = context.device.index;
  use(device);
  check_kind(op, a.dtype);
  if (!out.numel) return;
  CUfunction f = gradients.get(static_cast<uint64_t>(a.dtype), device, op,
                               [&] { return instance("distance_gradients", a.dtype); });
  launch_elements(f, device, op, out.numel, grad.data, distances.data, strided_as_is(a, op),
                  strided_as_is(b, op), out.data, batches, args);
}

}  // namespace

void pair_distances(const Context& c, const View& a, const View& b, double p, const View& out) {
  forward(c, "cdist", a, b, out, args_of(a, b, p), matrices_of(out));
}
void pair_distance_gradient(const Context& c, const View& grad, const View& distances,
                            const View& a, const View& b, double p, bool by_columns,
                            const View& out) {
  DistanceArgs args = args_of(a, b, p);
  args.by_columns = by_columns;
  gradient(c, "cdist", grad, distances, a, b, out, args, matrices_of(out));
}
void own_distances(const Context& c, const View& a, double p, const View& out) {
  DistanceArgs args = args_of(a, a, p);
  args.own = true;
  forward(c, "pdist", a, a, out, args, 1);
}
void own_distance_gradient(const Context& c, const View& grad, const View& distances, const View& a,
                           double p, const View& out) {
  DistanceArgs args = args_of(a, a, p);
  args.own = true;
  gradient(c, "pdist", grad, distances, a, a, out, args, 1);
}

}  // namespace rl::cuda
