// Scans along a dim, and their gradients.
#include "kernels/scan.h"

#include <algorithm>

#include "kernels/cuda/device/scan.h"
#include "kernels/cuda/lines.h"

namespace rl::cuda {
namespace {

constexpr const char* header = "kernels/cuda/device/scan.cuh";

KernelTemplate tiles(header), columns(header), product_gradients(header), sum_gradients(header);

uint64_t of(DType t) { return static_cast<uint64_t>(t); }

struct Scan {
  int device;
  const char* op;
  ScanKind kind;
  Strided x, y, z;  // z: places of extremes
  ScanLine line;
  DType in, out, carried;

  bool placed() const { return kind >= ScanMax || is_complex(carried); }
  bool extreme() const { return kind >= ScanMax; }
  uint64_t variant() const { return (of(in) * dtype_count + of(out)) * 8 + kind; }

  // How many neighbours are read at once: packs of 16 bytes at most in lines that keep them whole.
  int pack() const {
    int count = static_cast<int>(16 / std::max(itemsize(in), itemsize(out)));
    count = std::clamp(count, 1, placed() ? 8 : 16);
    auto whole = [&](const Strided& v, int64_t step) {
      if (step != 1 || !is_aligned(v.data)) return false;
      for (int d = 0; d < v.ndim; ++d)
        if (v.sizes[d] > 1 && v.strides[d] % count) return false;
      return true;
    };
    bool packs = count > 1 && whole(x, line.in_step) && whole(y, line.out_step) &&
                 (!extreme() || whole(z, line.second_step)) &&
                 (!line.reverse || line.count % count == 0);
    return packs ? count : 1;
  }

  // Are the lines neighbours in memory, or so short that a thread takes one?
  bool side_by_side() const {
    auto beside = [](const Strided& v) { return v.ndim && v.strides[v.ndim - 1] == 1; };
    return line.count <= 16 || (line.in_step != 1 && x.numel >= 16 && beside(x) && beside(y));
  }

  // Few lines are cut into parts, so that all multiprocessors have work.
  void cut(int64_t groups, int64_t tile, int64_t most) {
    int64_t wanted = properties(device).multiprocessors, in_line = (line.count + tile - 1) / tile;
    line.parts = 1;
    if (groups * 2 >= wanted || in_line < 4) return;
    line.parts =
        static_cast<int>(std::min({(2 * wanted + groups - 1) / groups, in_line / 2, most}));
  }

  void launch(CUfunction f, int64_t groups, Grid block) {
    std::optional<Scratch> totals;
    int64_t jobs = groups * line.parts;
    Grid grid = blocks_of_rows(jobs);
    line.phase = ScanWhole;
    if (line.parts > 1) {
      totals.emplace(static_cast<size_t>(x.numel * line.parts * most_carried_bytes), device);
      line.totals = totals->get();
      line.phase = ScanTotals;
      launch_kernel(f, device, op, grid, block, 0, x, y, z, line);
      line.phase = ScanFromTotals;
    }
    launch_kernel(f, device, op, grid, block, 0, x, y, z, line);
  }

  void by_columns() {
    CUfunction f = columns.get(variant(), device, op, [&] {
      return instance("scan_columns", in, out, carried_type(), static_cast<int>(kind));
    });
    int64_t items = placed() ? 4 : itemsize(carried) > 4 ? 8 : 16;
    unsigned teams =
        line.count <= 16 ? static_cast<unsigned>((line.count + items - 1) / items) : 16;
    unsigned lanes = teams <= 4 ? 128 : 32;
    int64_t groups = (x.numel + lanes - 1) / lanes;
    cut(groups, items * teams, 64);
    launch(f, groups, Grid{lanes, teams});
  }
  void by_tiles() {
    int count = pack();
    CUfunction f = tiles.get(variant() * 32 + static_cast<uint64_t>(count), device, op, [&] {
      return instance("scan_tiles", in, out, carried_type(), static_cast<int>(kind), count);
    });
    int64_t items = std::max(placed() ? 8 : 16, count);
    unsigned threads = static_cast<unsigned>(
        std::clamp<int64_t>(((line.count + items - 1) / items + 31) / 32 * 32, 32, block_threads));
    cut(x.numel, items * threads, most_scan_parts);
    unsigned rows = threads == 32 ? 8 : 1;
    launch(f, (x.numel + rows - 1) / rows, Grid{threads, rows});
  }
  std::string carried_type() const {
    return carried == DType::Bool ? std::string("bool") : std::string(device_type(carried));
  }
};

void scan(const Context& context, const char* op, ScanKind kind, const View& input, int64_t dim,
          const View& out, const View* second, bool reverse) {
  int device = context.device.index;
  use(device);
  if (!input.numel) return;
  Scan s{};
  s.device = device;
  s.op = op;
  s.kind = kind;
  int64_t unused;
  s.x = lines_of(input, dim, s.line.count, s.line.in_step, op);
  s.y = lines_of(out, dim, unused, s.line.out_step, op);
  if (second) s.z = lines_of(*second, dim, unused, s.line.second_step, op);
  s.line.reverse = reverse;
  s.in = input.dtype;
  s.out = out.dtype;
  s.carried = compute_dtype(out.dtype);
  if (kind <= ScanProd && is_integral_or_bool(out.dtype)) s.carried = DType::Int64;
  if (s.side_by_side()) s.by_columns();
  else s.by_tiles();
}

}  // namespace

void cumsum(const Context& c, const View& input, int64_t dim, const View& out, bool reverse) {
  scan(c, "cumsum", ScanSum, input, dim, out, nullptr, reverse);
}
void cumprod(const Context& c, const View& input, int64_t dim, const View& out, bool reverse) {
  scan(c, "cumprod", ScanProd, input, dim, out, nullptr, reverse);
}
void logcumsumexp(const Context& c, const View& input, int64_t dim, const View& out, bool reverse) {
  scan(c, "logcumsumexp", ScanLogSumExp, input, dim, out, nullptr, reverse);
}
void cummax(const Context& c, const View& input, int64_t dim, const View& values,
            const View& indices) {
  scan(c, "cummax", ScanMax, input, dim, values, &indices, false);
}
void cummin(const Context& c, const View& input, int64_t dim, const View& values,
            const View& indices) {
  scan(c, "cummin", ScanMin, input, dim, values, &indices, false);
}

void cumprod_backward(const Context& context, const View& grad, const View& input, int64_t dim,
                      const View& grad_input) {
  int device = context.device.index;
  use(device);
  if (!grad.numel) return;
  if (is_reduced(grad.dtype)) {  // sums of what was written would be rounded again
    Contiguous wide_grad(context, grad, DType::Float32), wide_input(context, input, DType::Float32);
    ContiguousResult result(context, grad_input, DType::Float32);
    cumprod_backward(context, wide_grad, wide_input, dim, result);
    return result.finish();
  }
  ScanLine line{};
  int64_t unused;
  Strided g = lines_of(grad, dim, line.count, line.out_step, "cumprod_backward"),
          x = lines_of(input, dim, unused, line.in_step, "cumprod_backward"),
          r = lines_of(grad_input, dim, unused, line.second_step, "cumprod_backward");
  CUfunction f = product_gradients.get(of(grad.dtype), device, "cumprod_backward",
                                       [&] { return instance("cumprod_gradient", grad.dtype); });
  launch_elements(f, device, "cumprod_backward", g.numel, g, x, r, line);
}
void logcumsumexp_backward(const Context& context, const View& grad, const View& input,
                           const View& out, int64_t dim, const View& grad_input) {
  int device = context.device.index;
  use(device);
  if (!grad.numel) return;
  ScanLine line{};
  int64_t unused, grad_step;
  Strided g = lines_of(grad, dim, line.count, grad_step, "logcumsumexp_backward"),
          x = lines_of(input, dim, unused, line.in_step, "logcumsumexp_backward"),
          o = lines_of(out, dim, unused, line.out_step, "logcumsumexp_backward"),
          r = lines_of(grad_input, dim, unused, line.second_step, "logcumsumexp_backward");
  CUfunction f = sum_gradients.get(of(grad.dtype), device, "logcumsumexp_backward",
                                   [&] { return instance("logcumsumexp_gradient", grad.dtype); });
  launch_elements(f, device, "logcumsumexp_backward", g.numel, g, x, o, r, line, grad_step);
}

}  // namespace rl::cuda
