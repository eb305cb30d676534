#include "kernels/fft.h"

#include <utility>

#include "kernels/cuda/device/fft.h"
#include "kernels/cuda/launch.h"

namespace rl::cuda {
namespace {

constexpr const char* header = "kernels/cuda/device/fft.cuh";

KernelTemplate roots_of(header), loads(header), passes(header), stores(header);

uint64_t of(DType t) { return static_cast<uint64_t>(t); }

int64_t smallest_factor(int64_t n) {
  if (n % 4 == 0) return 4;
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

// `dtype` is complex; `n` the points of a line.
void transform(const Context& context, const View& in, const View& out, int64_t dim, int64_t n,
               bool inverse, DType dtype, FftEnd first, FftEnd last) {
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  FftLines lines{product(IntSpan(in.sizes, dim)), n,
                 product(IntSpan(in.sizes + dim + 1, in.ndim - dim - 1))};
  int64_t total = lines.outer * n * lines.inner, item = itemsize(dtype);
  Scratch roots(static_cast<size_t>(n * item), device),
      one(static_cast<size_t>(total * item), device),
      other(static_cast<size_t>(total * item), device);
  CUfunction f =
      roots_of.get(of(dtype), device, "fft", [&] { return instance("fft_roots", dtype); });
  launch_elements(f, device, "fft", n, roots.get(), n, static_cast<int>(inverse));
  f = loads.get(of(dtype), device, "fft", [&] { return instance("fft_load", dtype); });
  launch_elements(f, device, "fft", total, in.data, one.get(), lines, first);
  void *from = one.get(), *to = other.get();
  f = passes.get(of(dtype), device, "fft", [&] { return instance("fft_pass", dtype); });
  for (FftPass pass{1, 1}; pass.before < n; pass.before *= pass.radix) {
    pass.radix = smallest_factor(n / pass.before);
    launch_elements(f, device, "fft", total, from, to, roots.get(), lines, pass);
    std::swap(from, to);
  }
  f = stores.get(of(dtype), device, "fft", [&] { return instance("fft_store", dtype); });
  launch_elements(f, device, "fft", out.numel, from, out.data, lines, last);
}

}  // namespace

void fft(const Context& c, const View& in, const View& out, int64_t dim, bool inverse,
         double scale) {
  transform(c, in, out, dim, in.sizes[dim], inverse, out.dtype, {FftComplex, false, 1},
            {FftComplex, false, scale});
}
void fft_from_real(const Context& c, const View& in, const View& out, int64_t dim, bool inverse,
                   double scale, bool twice) {
  transform(c, in, out, dim, in.sizes[dim], inverse, out.dtype, {FftReal, false, 1},
            {FftHalf, twice, scale});
}
void fft_to_real(const Context& c, const View& in, const View& out, int64_t dim, bool inverse,
                 double scale, bool twice) {
  transform(c, in, out, dim, out.sizes[dim], inverse, in.dtype, {FftHalf, twice, 1},
            {FftReal, false, scale});
}

}  // namespace rl::cuda
