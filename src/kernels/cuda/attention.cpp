#include "kernels/attention.h"

#include <algorithm>

#include "kernels/cuda/device/attention.h"
#include "kernels/cuda/launch.h"

namespace rl::cuda {
namespace {

using kernels::AttentionViews;

constexpr const char* header = "kernels/cuda/device/attention.cuh";

constexpr const char* flash_header = "kernels/cuda/device/flash_attention.cuh";

KernelTemplate forward(header), dots(header), key_gradients(header), query_gradients(header),
    draws(header), flash_forward(flash_header), flash_key_gradients(flash_header),
    flash_query_gradients(flash_header);

HeadMatrices matrices(const View& v) {
  return {v.data, v.strides[0], v.strides[1], v.strides[2], v.strides[3]};
}

AttentionArgs arguments(const AttentionViews& a, const View& out, const View& log_sum) {
  AttentionArgs args{};
  args.query = matrices(a.query);
  args.key = matrices(a.key);
  args.value = matrices(a.value);
  args.out = matrices(out);
  if (a.mask) {
    args.mask = matrices(*a.mask);
    args.mask_dtype = static_cast<int>(a.mask->dtype);
  }
  if (a.kept && a.kept->dtype == DType::Int64) args.state = static_cast<int64_t*>(a.kept->data);
  else if (a.kept) args.kept = matrices(*a.kept);
  args.causal = a.causal;
  args.samples = a.query.sizes[0];
  args.heads = a.query.sizes[1];
  args.shared_heads = a.key.sizes[1];
  args.queries = a.query.sizes[2];
  args.keys = a.key.sizes[2];
  args.width = a.query.sizes[3];
  args.value_width = a.value.sizes[3];
  args.scale = a.scale;
  args.kept_scale = a.kept_scale;
  args.log_sum = log_sum.data;
  return args;
}

// The kernels' parameters `tile` and `width`: what fits into registers and 48 KiB of shared memory.
struct Tiles {
  int64_t rows, width;
};
Tiles tiles_for(DType dtype, int64_t width, bool backward) {
  int64_t room = width <= 64 ? 64 : width <= 128 ? 128 : 256;
  bool small = dtype == DType::Float64 || (backward && room == 256);
  return {small ? 32 : 64, room};
}

void run(const Context& context, KernelTemplate& kernel, const char* name, const Tiles& tiles,
         int64_t rows, int64_t heads, DType dtype, const AttentionArgs& args) {
  int device = context.device.index;
  int64_t tasks = (rows + tiles.rows - 1) / tiles.rows * heads * args.samples;
  if (!tasks) return;
  uint64_t variant = static_cast<uint64_t>(dtype) << 16 | static_cast<uint64_t>(tiles.rows) << 9 |
                     static_cast<uint64_t>(tiles.width);
  CUfunction f = kernel.get(variant, device, name,
                            [&] { return instance(name, dtype, tiles.rows, tiles.width); });
  launch_kernel(f, device, name, blocks_of_rows(tasks), Grid{256}, 0, args);
}

// ---- on tensor cores

// Rows that packs of 16 bytes are read of, or written to in words.
bool lies_in_rows(const View& v, int64_t pack) {
  bool right = v.strides[3] == 1 && v.sizes[3] % 8 == 0 && v.sizes[3] <= 128 &&
               reinterpret_cast<uintptr_t>(v.data) % static_cast<uintptr_t>(2 * pack) == 0;
  for (int d = 0; d < 3; ++d) right = right && (v.sizes[d] == 1 || v.strides[d] % pack == 0);
  return right;
}
int width_of(const AttentionArgs& args) {
  return std::max(args.width, args.value_width) <= 64 ? 64 : 128;
}
bool takes_flash(const AttentionViews& a, const View& out) {
  return is_reduced(out.dtype) && lies_in_rows(a.query, 8) && lies_in_rows(a.key, 8) &&
         lies_in_rows(a.value, 8) && lies_in_rows(out, 2);
}

// What a block has: `tiles` times 16 rows a warp of four, or `groups` warpgroups with 64 rows each;
// `columns` rows of two other matrices at a time, twice in shared memory behind its rows of
// `matrices`.
struct FlashShape {
  int matrices, columns, tiles, groups;
  int rows() const { return groups ? 64 * groups : 64 * tiles; }
};
// Heads of at most 64 elements stay with warps until the kernels have been checked on a GPU.
bool takes_warpgroups(int device, const AttentionArgs& args, int64_t rows) {
  return rows > 64 && width_of(args) == 128 && has_warpgroup_products(device);
}
// Products that are not scaled have the order of scores where the scale is positive alone.
bool is_masked(const AttentionArgs& args) { return args.mask.data || !(args.scale > 0); }
bool is_random(const AttentionArgs& args) { return args.state || args.kept.data; }

FlashShape forward_shape(int device, const AttentionArgs& args) {
  if (takes_warpgroups(device, args, args.queries)) return {1, 64, 1, 2};
  return {1, 64, width_of(args) == 64 && args.queries > 64 ? 2 : 1, 0};
}
// Fewer columns at once where registers hold more for each.
FlashShape backward_shape(int device, const AttentionArgs& args, int64_t rows, bool of_keys) {
  if (takes_warpgroups(device, args, rows)) return {2, 64, 1, 2};
  return {2, of_keys && width_of(args) == 128 ? 32 : 64, 1, 0};
}

void run_flash(const Context& context, KernelTemplate& kernel, const char* name, int64_t rows,
               int64_t heads, DType dtype, const AttentionArgs& args, const FlashShape& shape) {
  int device = context.device.index, block = shape.rows();
  int64_t tasks = (rows + block - 1) / block * heads * args.samples;
  if (!tasks) return;
  int width = width_of(args), columns = shape.columns;
  bool masked = is_masked(args), random = is_random(args);
  uint64_t variant = static_cast<uint64_t>(dtype) << 8 | uint64_t(shape.groups) << 5 |
                     uint64_t(shape.tiles == 2) << 4 | uint64_t(width == 64) << 3 |
                     uint64_t(columns >= 64) << 2 | uint64_t(masked) << 1 | uint64_t(random);
  bool forwards = shape.matrices == 1;
  CUfunction f = kernel.get(variant, device, name, [&] {
    return forwards
               ? instance(name, dtype, width, columns, masked, random, shape.tiles, shape.groups)
               : instance(name, dtype, width, columns, masked, random, shape.groups);
  });
  int bytes = 2 * (shape.matrices * block + 4 * columns) * (shape.groups ? width : width + 8);
  if (!forwards) bytes += 4 * columns * 4;  // log_sum and dots of queries, twice
  launch_kernel(f, device, name, blocks_of_rows(tasks),
                Grid{shape.groups ? 128u * unsigned(shape.groups) : 128u},
                static_cast<unsigned>(bytes), args);
}

}  // namespace

void attention(const Context& context, const AttentionViews& a, const View& out,
               const View& log_sum) {
  use(context.device.index);
  AttentionArgs args = arguments(a, out, log_sum);
  if (takes_flash(a, out))
    return run_flash(context, flash_forward, "flash_forward", args.queries, args.heads, out.dtype,
                     args, forward_shape(context.device.index, args));
  run(context, forward, "attention_forward", tiles_for(out.dtype, args.value_width, false),
      args.queries, args.heads, out.dtype, args);
}

void attention_backward(const Context& context, const AttentionViews& a, const View& grad,
                        const View& out, const View& log_sum, const View& grad_query,
                        const View& grad_key, const View& grad_value) {
  int device = context.device.index;
  use(device);
  AttentionArgs args = arguments(a, out, log_sum);
  args.grad = matrices(grad);
  args.grad_query = matrices(grad_query);
  args.grad_key = matrices(grad_key);
  args.grad_value = matrices(grad_value);
  Scratch products(static_cast<size_t>(log_sum.numel * itemsize(log_sum.dtype)), device);
  args.dots = products.get();
  CUfunction f = dots.get(static_cast<uint64_t>(out.dtype), device, "attention_dots",
                          [&] { return instance("attention_dots", out.dtype); });
  launch_elements(f, device, "attention_dots", log_sum.numel * 32, args);
  if (takes_flash(a, out) && lies_in_rows(grad, 8) && lies_in_rows(grad_query, 2) &&
      lies_in_rows(grad_key, 2) && lies_in_rows(grad_value, 2)) {
    run_flash(context, flash_key_gradients, "flash_key_gradients", args.keys, args.shared_heads,
              out.dtype, args, backward_shape(device, args, args.keys, true));
    return run_flash(context, flash_query_gradients, "flash_query_gradients", args.queries,
                     args.heads, out.dtype, args,
                     backward_shape(device, args, args.queries, false));
  }
  Tiles tiles = tiles_for(out.dtype, std::max(args.width, args.value_width), true);
  run(context, key_gradients, "attention_key_gradients", tiles, args.keys, args.shared_heads,
      out.dtype, args);
  run(context, query_gradients, "attention_query_gradients", tiles, args.queries, args.heads,
      out.dtype, args);
}

void attention_kept(const Context& context, const View& state, double kept_scale, const View& out) {
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  CUfunction f = draws.get(0, device, "attention_kept",
                           [] { return instance("attention_draw", DType::Float64); });
  launch_elements(f, device, "attention_kept", out.numel, strided_as_is(out, "attention_kept"),
                  static_cast<const int64_t*>(state.data), kept_scale);
}

}  // namespace rl::cuda
