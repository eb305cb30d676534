#include "kernels/gemm.h"

#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>

#include "kernels/cpu/threads.h"
#include "kernels/gemm_small.h"
#include "kernels/workspace.h"

namespace rl::kernels {

namespace {

// How a matrix lies in memory, as BLAS sees it: rows `ld` apart, or columns if transposed.
struct Layout {
  bool usable = false, transposed = false;
  int64_t ld = 1;
};

Layout layout_of(int64_t rows, int64_t cols, int64_t row_step, int64_t col_step) {
  if ((col_step == 1 || cols == 1) && (row_step >= cols || rows == 1))
    return {true, false, rows == 1 ? cols : std::max(row_step, cols)};
  if ((row_step == 1 || rows == 1) && (col_step >= rows || cols == 1))
    return {true, true, cols == 1 ? rows : std::max(col_step, rows)};
  return {};
}

// A batch of equal products: the sizes and strides of one, and the steps between them in bytes.
struct Batch {
  GemmProblem problem;
  int64_t count, a_step, b_step, c_step;
};

// float32, float64 and complex products by a library, on the calling thread.
void library_product(const GemmProblem& p) {
  Layout a = layout_of(p.m, p.k, p.a_row, p.a_col), b = layout_of(p.k, p.n, p.b_row, p.b_col);
  LibraryCall call;
  if (p.dtype == DType::Float32) {
    dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', p.m, p.n, p.k,
               p.alpha.to<float>(), static_cast<const float*>(p.a), a.ld,
               static_cast<const float*>(p.b), b.ld, p.beta.to<float>(), static_cast<float*>(p.c),
               p.c_row);
    return;
  }
  check(std::max({p.m, p.n, p.k, a.ld, b.ld, p.c_row}) <= INT32_MAX, "matmul: a matrix of ",
        p.dtype, " with ", std::max({p.m, p.n, p.k}), " rows or columns is too large");
  auto op = [](const Layout& l) { return l.transposed ? CblasTrans : CblasNoTrans; };
  auto i32 = [](int64_t n) { return static_cast<int>(n); };
  if (p.dtype == DType::Float64) {
    scipy_cblas_dgemm(CblasRowMajor, op(a), op(b), i32(p.m), i32(p.n), i32(p.k),
                      p.alpha.to<double>(), static_cast<const double*>(p.a), i32(a.ld),
                      static_cast<const double*>(p.b), i32(b.ld), p.beta.to<double>(),
                      static_cast<double*>(p.c), i32(p.c_row));
  } else if (p.dtype == DType::Complex64) {
    complex64 alpha = p.alpha.to<complex64>(), beta = p.beta.to<complex64>();
    scipy_cblas_cgemm(CblasRowMajor, op(a), op(b), i32(p.m), i32(p.n), i32(p.k), &alpha, p.a,
                      i32(a.ld), p.b, i32(b.ld), &beta, p.c, i32(p.c_row));
  } else {
    complex128 alpha = p.alpha.to<complex128>(), beta = p.beta.to<complex128>();
    scipy_cblas_zgemm(CblasRowMajor, op(a), op(b), i32(p.m), i32(p.n), i32(p.k), &alpha, p.a,
                      i32(a.ld), p.b, i32(b.ld), &beta, p.c, i32(p.c_row));
  }
}

// Whether own code serves best: 3x faster than a library's call at 32^3, no slower at 64^3, unless
// it has to pack b first.
bool is_small(const GemmProblem& p) {
  if (is_complex(p.dtype)) return false;
  if (is_integral(p.dtype) || p.m == 1 || p.n == 1) return true;
  bool in_place = p.b_col == 1 && p.n * itemsize(p.dtype) % 64 == 0;
  return p.m * p.n * p.k <= (in_place ? 262144 : 16384);
}

void product(const GemmProblem& p) { is_small(p) ? gemm_small(p) : library_product(p); }

// The grid of tiles one product is cut into. It follows from the sizes alone, never from the number
// of threads, so that the result does not depend on that either.
struct Tiling {
  int64_t rows = 1, cols = 1, tile_m, tile_n;
  explicit Tiling(const GemmProblem& p) {
    double operations =
        2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    // Matrix-vector products are bound by memory: fewer operations fill a thread's while.
    bool vector = p.m == 1 || p.n == 1;
    double per_tile = vector ? 1e6 : 1.6e7;
    int64_t least = vector ? 1024 : 128;
    int64_t wanted = static_cast<int64_t>(std::min(16.0, operations / per_tile));
    while (rows * cols < wanted) {
      bool by_rows = p.m / rows >= p.n / cols;
      if (std::max(p.m / rows, p.n / cols) < least) break;
      (by_rows ? rows : cols) *= 2;
    }
    auto part = [](int64_t n, int64_t parts) {
      return parts == 1 ? n : (n / parts + 16) / 16 * 16;
    };
    tile_m = part(p.m, rows);
    tile_n = part(p.n, cols);
    rows = (p.m + tile_m - 1) / tile_m;
    cols = (p.n + tile_n - 1) / tile_n;
  }
  int64_t count() const { return rows * cols; }

  GemmProblem tile(const GemmProblem& whole, int64_t index) const {
    GemmProblem p = whole;
    int64_t i = index / cols * tile_m, j = index % cols * tile_n, size = itemsize(p.dtype);
    p.m = std::min(tile_m, p.m - i);
    p.n = std::min(tile_n, p.n - j);
    p.a = static_cast<const char*>(p.a) + i * p.a_row * size;
    p.b = static_cast<const char*>(p.b) + j * p.b_col * size;
    p.c = static_cast<char*>(p.c) + (i * p.c_row + j * p.c_col) * size;
    return p;
  }
};

void run(const Batch& batch) {
  const GemmProblem& one = batch.problem;
  if (batch.count == 1 && one.m * one.n * one.k <= 16384) return product(one);
  Tiling tiling(one);
  int64_t tiles = tiling.count();
  LongWork long_work(2.0 * static_cast<double>(batch.count * one.m * one.n) *
                         static_cast<double>(one.k) >
                     long_operations);
  int64_t work = std::max<int64_t>(1, one.m * one.n * one.k / tiles);
  int64_t grain = std::max<int64_t>(1, 4 * default_grain / work);
  parallel_for(0, batch.count * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      GemmProblem p = one;
      p.a = static_cast<const char*>(p.a) + i / tiles * batch.a_step;
      p.b = static_cast<const char*>(p.b) + i / tiles * batch.b_step;
      p.c = static_cast<char*>(p.c) + i / tiles * batch.c_step;
      product(tiles == 1 ? p : tiling.tile(p, i % tiles));
    }
  });
}

// out = beta * out.
template <class T> void scale_values(const View& out, T beta) {
  int64_t d0 = out.ndim == 3 ? out.sizes[0] : 1, s0 = out.ndim == 3 ? out.strides[0] : 0;
  int64_t rows = out.sizes[out.ndim - 2], cols = out.sizes[out.ndim - 1];
  int64_t row = out.strides[out.ndim - 2], col = out.strides[out.ndim - 1];
  for (int64_t b = 0; b < d0; ++b)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) {
        T& x = out.ptr<T>()[b * s0 + i * row + j * col];
        x = beta == T(0) ? T(0) : static_cast<T>(x * beta);
      }
}

void scale_output(const View& out, const Scalar& beta) {
  visit<float, double, int64_t, int32_t, half, bfloat16, uint8_t, int8_t, int16_t, complex64,
        complex128>("matmul", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    scale_values<T>(out, beta.to<T>());
  });
}

bool library_can_read(const View& v) {
  int64_t r = v.ndim - 2, c = v.ndim - 1;
  return layout_of(v.sizes[r], v.sizes[c], v.strides[r], v.strides[c]).usable;
}

// Both gemms: views of 2 or 3 dims.
void multiply(const View& a, const View& b, const View& out, const GemmScale& scale) {
  int64_t r = out.ndim - 2, c = out.ndim - 1, bytes = itemsize(out.dtype);
  check(a.ndim == out.ndim && b.ndim == out.ndim && a.dtype == out.dtype && b.dtype == out.dtype &&
            a.sizes[r] == out.sizes[r] && b.sizes[c] == out.sizes[c] && a.sizes[c] == b.sizes[r],
        "matmul: shapes ", a.shape(), " and ", b.shape(), " do not give ", out.shape(),
        ", or dtypes ", a.dtype, ", ", b.dtype, " and ", out.dtype, " differ");
  if (out.numel == 0) return;
  if (a.sizes[c] == 0) return scale_output(out, scale.beta);
  if (is_reduced(out.dtype)) {
    RowMajor a32 = RowMajor::copy_of(a, DType::Float32), b32 = RowMajor::copy_of(b, DType::Float32);
    RowMajor out32(out.shape(), DType::Float32);
    if (!scale.beta.equals(0)) copy_strided(out, out32.view());
    multiply(a32.view(), b32.view(), out32.view(), scale);
    return copy_strided(out32.view(), out);
  }
  Batch batch{{out.dtype, out.sizes[r], out.sizes[c], a.sizes[c], a.data, b.data, out.data,
               a.strides[r], a.strides[c], b.strides[r], b.strides[c], out.strides[r],
               out.strides[c], scale.alpha, scale.beta},
              1,
              0,
              0,
              0};
  if (out.ndim == 3) {
    batch.count = out.sizes[0];
    batch.a_step = a.strides[0] * bytes;
    batch.b_step = b.strides[0] * bytes;
    batch.c_step = out.strides[0] * bytes;
  }
  GemmProblem& p = batch.problem;
  if (!is_small(p)) {
    if (!library_can_read(a)) return multiply(RowMajor::copy_of(a, a.dtype).view(), b, out, scale);
    if (!library_can_read(b)) return multiply(a, RowMajor::copy_of(b, b.dtype).view(), out, scale);
    Layout to = layout_of(p.m, p.n, p.c_row, p.c_col);
    if (!to.usable) {
      RowMajor copy(out.shape(), out.dtype);
      if (!scale.beta.equals(0)) copy_strided(out, copy.view());
      multiply(a, b, copy.view(), scale);
      return copy_strided(copy.view(), out);
    }
    if (to.transposed) {  // out^T = b^T a^T
      std::swap(p.m, p.n);
      std::swap(p.a, p.b);
      std::swap(p.a_row, p.b_col);
      std::swap(p.a_col, p.b_row);
      std::swap(batch.a_step, batch.b_step);
    }
    p.c_row = to.ld;
    p.c_col = 1;
  }
  run(batch);
}

}  // namespace

void gemm(const View& a, const View& b, const View& out, const GemmScale& scale, const View* bias) {
  if (!bias) return multiply(a, b, out, scale);
  int64_t strides[2] = {0, bias->strides[0]};
  copy_strided({bias->data, out.sizes, strides, 2, out.numel, bias->dtype}, out);
  multiply(a, b, out, {scale.alpha, 1});
}

void batched_gemm(const View& a, const View& b, const View& out, const GemmScale& scale) {
  // One matrix for the whole batch: stack the rows into a single product.
  if (out.ndim == 3 && b.strides[0] == 0 && a.strides[0] == a.sizes[1] * a.strides[1] &&
      out.strides[0] == out.sizes[1] * out.strides[1] && a.sizes[0] > 1 &&
      b.sizes[0] == a.sizes[0]) {
    int64_t rows = out.sizes[0] * out.sizes[1];
    int64_t a_sizes[2] = {rows, a.sizes[2]}, out_sizes[2] = {rows, out.sizes[2]};
    return multiply({a.data, a_sizes, a.strides + 1, 2, a.numel, a.dtype},
                    {b.data, b.sizes + 1, b.strides + 1, 2, b.sizes[1] * b.sizes[2], b.dtype},
                    {out.data, out_sizes, out.strides + 1, 2, out.numel, out.dtype}, scale);
  }
  multiply(a, b, out, scale);
}

void matvec(const View& a, const View& x, const View& out, const GemmScale& scale) {
  int64_t x_sizes[2] = {x.sizes[0], 1}, x_strides[2] = {x.strides[0], 1};
  int64_t out_sizes[2] = {out.sizes[0], 1}, out_strides[2] = {out.strides[0], 1};
  multiply(a, {x.data, x_sizes, x_strides, 2, x.numel, x.dtype},
           {out.data, out_sizes, out_strides, 2, out.numel, out.dtype}, scale);
}

void dot(const View& a, const View& b, const View& out) {
  int64_t n = a.sizes[0], a_sizes[2] = {1, n}, a_strides[2] = {n, a.strides[0]};
  int64_t b_sizes[2] = {n, 1}, b_strides[2] = {b.strides[0], 1}, one[2] = {1, 1};
  multiply({a.data, a_sizes, a_strides, 2, a.numel, a.dtype},
           {b.data, b_sizes, b_strides, 2, b.numel, b.dtype}, {out.data, one, one, 2, 1, out.dtype},
           {});
}

}  // namespace rl::kernels
