#include "kernels/scan.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "kernels/cpu/interruptible.h"
#include "kernels/cpu/line_tiles.h"
#include "kernels/cpu/scan_rows.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "math/complex.h"

namespace rl::kernels {
namespace {

constexpr int64_t strip = 512;
constexpr int64_t block = 64;  // lines scanned side by side

// One dim of a view: how many elements, and the bytes from each to the next.
struct Axis {
  int64_t size, step;
  Axis(const View& v, int64_t dim)
      : size(v.ndim ? v.sizes[dim] : 1), step(v.ndim ? v.strides[dim] * itemsize(v.dtype) : 0) {}
  // From the last element to the first, for pointers moved by the returned offset.
  int64_t turn_round() {
    int64_t offset = (size - 1) * step;
    step = -step;
    return offset;
  }
};

int64_t lines_per_thread(const Axis& axis) {
  return std::max<int64_t>(1, default_grain / 4 / axis.size);
}

struct LogAddExp {
  template <class T> static T identity() { return T(-std::numeric_limits<double>::infinity()); }
  double operator()(double a, double b) const {
    double high = a != a || a > b ? a : b, low = a != a || a > b ? b : a;
    if (std::isinf(high) && high == low) return high;
    return high + std::log1p(std::exp(low - high));
  }
  complex128 operator()(complex128 a, complex128 b) const { return math::logaddexp(a, b); }
};

// Integers wrap around.
struct Plus {
  static constexpr bool product = false;
  template <class T> static T identity() { return T(0); }
  template <class T> T operator()(T a, T b) const { return a + b; }
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct Times {
  static constexpr bool product = true;
  template <class T> static T identity() { return T(1); }
  template <class T> T operator()(T a, T b) const {
    if constexpr (is_complex_v<T>) return math::times(a, b);
    else return a * b;
  }
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};

// y = carry op x[0] op ... op x[i] down the lines of a tile, in T.
template <class T, class Op>
void scan_lines(Op op, const LineTile<1>& tile) {
  const TileOperand &from = tile.from[0], &to = tile.to[0];
  T* carry = static_cast<T*>(tile.carry);
  for (int64_t b = 0; b < tile.blocks; ++b)
    for (int64_t j = 0; j < tile.lines; ++j) {
      const char* x = from.data + b * from.block + j * from.line;
      char* y = to.data + b * to.block + j * to.line;
      T total = tile.begin > 0 ? carry[j] : Op::template identity<T>();
      for (int64_t i = 0; i < tile.n; ++i, x += from.step, y += to.step)
        *reinterpret_cast<T*>(y) = total = op(total, *reinterpret_cast<const T*>(x));
      if (carry) carry[j] = total;
    }
}

ScanTile scan_tile_of(const LineTile<1>& tile) {
  return {tile.from[0], tile.to[0], tile.begin, tile.n, tile.lines, tile.blocks, tile.carry};
}

// In what a scan with that result is computed. Floats accumulate in double, as the error of a long
// scan needs.
DType scan_dtype(DType out) {
  if (is_complex(out)) return DType::Complex128;
  return is_floating(out) ? compute_dtype(out) : DType::Int64;
}

template <class Op>
void scan_any(const View& input, int64_t dim, const View& out, bool reverse, Op op) {
  if (out.numel == 0) return;
  DType element = scan_dtype(out.dtype);
  LineTiles<2, 1> tiles({&out, &input}, dim, {{{1, 0, element}}}, LineShape::pieces, reverse);
  tiles.run([=](const LineTile<1>& tile) {
    if (is_complex(element)) return scan_lines<complex128>(op, tile);
    scan_tile(Op::product, element, scan_tile_of(tile));
  });
}

// g[i] exp(x[i] - out[i]) and so on: sum_{j >= i} g[j] conj(exp(x[i] - out[j])) by a running sum of
// g[j] exp(out[i] - out[j]), whose exponents are at most 0 where the numbers are real.
template <class T>
void log_sum_gradient(T* g, const T* x, const T* out, int64_t n) {
  T tail(0);
  Interruption interruption;
  for (int64_t i = n - 1; i >= 0; --i) {
    if (i % strip == strip - 1) interruption.poll();
    if (i + 1 < n) {
      T step = out[i] - out[i + 1];
      if constexpr (is_complex_v<T>) step = std::conj(step);
      // Nothing has been summed up to an infinity below, and nothing counts beside one above.
      constexpr double infinity = std::numeric_limits<double>::infinity();
      bool above = std::real(out[i]) == infinity && std::real(out[i + 1]) == infinity;
      if (!above) tail = std::real(out[i]) == -infinity ? T(0) : tail * std::exp(step);
    }
    tail += g[i];
    T slope = x[i] - out[i];
    if constexpr (is_complex_v<T>) slope = std::conj(slope);
    bool nothing = std::real(x[i]) == -std::numeric_limits<double>::infinity();
    g[i] = nothing ? T(0) : tail * std::exp(slope);
  }
}

template <class T>
void logcumsumexp_gradient(const View& grad, const View& input, const View& result, int64_t dim,
                           const View& grad_input) {
  StridedIterator<4> lines({&grad_input, &grad, &input, &result}, true, dim);
  Axis to(grad_input, dim), from(grad, dim), in(input, dim), out(result, dim);
  lines.parallel_each(lines_per_thread(in), [&](char* const* p) {
    size_t n = static_cast<size_t>(in.size);
    std::vector<T> g(n), x(n), y(n);
    load_strip(grad.dtype, p[1], from.step, dtype_of<T>, g.data(), in.size);
    load_strip(input.dtype, p[2], in.step, dtype_of<T>, x.data(), in.size);
    load_strip(result.dtype, p[3], out.step, dtype_of<T>, y.data(), in.size);
    log_sum_gradient(g.data(), x.data(), y.data(), in.size);
    store_strip(dtype_of<T>, g.data(), grad_input.dtype, p[0], to.step, in.size);
  });
}

void running_extreme(bool largest, const View& input, int64_t dim, const View& values,
                     const View& indices) {
  check_implemented(!is_complex(input.dtype), largest ? "cummax" : "cummin",
                    ": not implemented for dtype ", input.dtype);
  if (input.numel == 0) return;
  const DType element = is_floating(input.dtype) ? compute_dtype(input.dtype) : DType::Int64;
  LineTiles<3, 2> tiles({&values, &indices, &input}, dim,
                        {{{2, 0, element}, {LineOperand::none, 1, DType::Int64}}},
                        LineShape::pieces);
  tiles.run([=](const LineTile<2>& tile) {
    extreme_tile(largest, element,
                 {tile.from[0], tile.to[0], tile.to[1], tile.begin, tile.n, tile.lines, tile.blocks,
                  tile.carry});
  });
}

// d(sum_i g[i] * x[0] ... x[i]) / d(x[k]), in place of g, with P[k] = x[0] ... x[k]:
// before the first zero z it is (sum_{i >= k} g[i] P[i]) / x[k]; at z it is P[z - 1] times
// sum_{i >= z} g[i] x[z + 1] ... x[i]; after z it is 0.
template <class T>
void product_gradient(T* g, const T* x, int64_t n) {
  int64_t z = std::find(x, x + n, T(0)) - x;
  std::vector<T> products(static_cast<size_t>(z));
  T product(1), tail(0);
  interruptible_for(z, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) products[static_cast<size_t>(i)] = product *= x[i];
  });
  if (z < n) {
    T at_zero = g[z], after = T(1);
    interruptible_for(n - (z + 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = z + 1 + begin; i < z + 1 + end && after != T(0); ++i)
        at_zero += g[i] * (after *= x[i]);
    });
    std::fill(g + z, g + n, T(0));
    g[z] = product * at_zero;
  }
  interruptible_for(z, [&](int64_t begin, int64_t end) {
    for (int64_t i = z - 1 - begin; i > z - 1 - end; --i) {
      tail += g[i] * products[static_cast<size_t>(i)];
      g[i] = tail / x[i];
    }
  });
}

template <class T>
void cumprod_gradient(const View& grad, const View& input, int64_t dim, const View& grad_input) {
  StridedIterator<3> lines({&grad_input, &grad, &input}, true, dim);
  Axis to(grad_input, dim), from(grad, dim), in(input, dim);
  lines.parallel_each(lines_per_thread(in), [&](char* const* p) {
    std::vector<T> g(static_cast<size_t>(in.size)), x(static_cast<size_t>(in.size));
    load_strip(grad.dtype, p[1], from.step, dtype_of<T>, g.data(), in.size);
    load_strip(input.dtype, p[2], in.step, dtype_of<T>, x.data(), in.size);
    if constexpr (is_complex_v<T>)
      for (T& v : x) v = std::conj(v);
    product_gradient(g.data(), x.data(), in.size);
    store_strip(dtype_of<T>, g.data(), grad_input.dtype, p[0], to.step, in.size);
  });
}

}  // namespace

void cumsum(const View& input, int64_t dim, const View& out, bool reverse) {
  scan_any(input, dim, out, reverse, Plus());
}
void cumprod(const View& input, int64_t dim, const View& out, bool reverse) {
  scan_any(input, dim, out, reverse, Times());
}
void logcumsumexp(const View& input, int64_t dim, const View& out, bool reverse) {
  check_implemented(is_differentiable(input.dtype), "logcumsumexp: not implemented for dtype ",
                    input.dtype);
  if (out.numel == 0) return;
  const DType element = is_complex(input.dtype) ? DType::Complex128 : DType::Float64;
  LineTiles<2, 1> tiles({&out, &input}, dim, {{{1, 0, element}}}, LineShape::pieces_turned,
                        reverse);
  tiles.run([=](const LineTile<1>& tile) {
    if (element == DType::Complex128) scan_lines<complex128>(LogAddExp(), tile);
    else if (tile.lines == 1) scan_lines<double>(LogAddExp(), tile);
    else scan_log_sums(scan_tile_of(tile));
  });
}
void cummax(const View& input, int64_t dim, const View& values, const View& indices) {
  running_extreme(true, input, dim, values, indices);
}
void cummin(const View& input, int64_t dim, const View& values, const View& indices) {
  running_extreme(false, input, dim, values, indices);
}
void cumprod_backward(const View& grad, const View& input, int64_t dim, const View& grad_input) {
  if (input.numel == 0) return;
  if (is_complex(input.dtype)) cumprod_gradient<complex128>(grad, input, dim, grad_input);
  else cumprod_gradient<double>(grad, input, dim, grad_input);
}
void logcumsumexp_backward(const View& grad, const View& input, const View& out, int64_t dim,
                           const View& grad_input) {
  if (input.numel == 0) return;
  if (is_complex(input.dtype)) logcumsumexp_gradient<complex128>(grad, input, out, dim, grad_input);
  else logcumsumexp_gradient<double>(grad, input, out, dim, grad_input);
}

}  // namespace rl::kernels
