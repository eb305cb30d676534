#include "kernels/scan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/interruptible.h"
#include "kernels/cpu/line_tiles.h"
#include "kernels/cpu/scan_rows.h"
#include "math/complex.h"

namespace rl::kernels {
namespace {

constexpr int64_t polled = 512;  // elements of a slow loop between looks for an interruption

// The elements of one line of a tile.
template <class T> struct Line {
  T* first;
  int64_t step;
  Line(const TileOperand& of, int64_t block, int64_t line)
      : first(reinterpret_cast<T*>(of.data + block * of.block + line * of.line)),
        step(of.step / static_cast<int64_t>(sizeof(T))) {}
  T& operator[](int64_t i) const { return first[i * step]; }
};

double log_add_exp(double a, double b) {
  double high = a != a || a > b ? a : b, low = a != a || a > b ? b : a;
  if (std::isinf(high) && high == low) return high;
  return high + std::log1p(std::exp(low - high));
}

// y = carry op x[0] op ... op x[i] down the lines of a tile, in T, from the identity of op on.
template <class T, class Op>
void scan_lines(const LineTile& tile, T identity, Op op) {
  T* carry = static_cast<T*>(tile.carry);
  for (int64_t b = 0; b < tile.blocks; ++b)
    for (int64_t j = 0; j < tile.lines; ++j) {
      const Line<T> x(tile.from[0], b, j), y(tile.to[0], b, j);
      T total = tile.begin > 0 ? carry[j] : identity;
      for (int64_t i = 0; i < tile.n; ++i) y[i] = total = op(total, x[i]);
      if (carry) carry[j] = total;
    }
}

ScanTile scan_tile_of(const LineTile& tile) {
  return {tile.from[0], tile.to[0], tile.begin, tile.n, tile.lines, tile.blocks, tile.carry};
}

// In what a scan with that result is computed. Floats accumulate in double, as the error of a long
// scan needs.
DType scan_dtype(DType out) {
  if (is_complex(out)) return DType::Complex128;
  return is_floating(out) ? compute_dtype(out) : DType::Int64;
}

// Complex numbers as pairs of real ones.
struct RealPairs {
  Dims sizes, strides;
  View view;
  explicit RealPairs(const View& v) : sizes(v.shape()), strides(v.stride()) {
    for (int64_t& step : strides) step *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    view = {v.data, sizes.data(), strides.data(), v.ndim + 1, 2 * v.numel, to_real(v.dtype)};
  }
};

void scan(bool product, const View& input, int64_t dim, const View& out, bool reverse) {
  if (out.numel == 0) return;
  if (!product && out.ndim > 0 && is_complex(input.dtype) && is_complex(out.dtype))
    return scan(false, RealPairs(input).view, dim, RealPairs(out).view, reverse);
  const DType element = scan_dtype(out.dtype);
  LineTiles tiles({{&input, &out, element}}, dim, LineShape::pieces, reverse);
  tiles.run([=](const LineTile& tile) {
    if (element != DType::Complex128) return scan_tile(product, element, scan_tile_of(tile));
    scan_lines<complex128>(tile, product ? 1 : 0, [=](complex128 a, complex128 b) {
      return product ? math::times(a, b) : a + b;
    });
  });
}

// g[i] exp(x[i] - out[i]) and so on: sum_{j >= i} g[j] conj(exp(x[i] - out[j])) by a running sum of
// g[j] exp(out[i] - out[j]), whose exponents are at most 0 where the numbers are real.
template <class T>
void log_sum_gradient(Line<T> to, Line<T> g, Line<T> x, Line<T> out, int64_t n) {
  T tail(0);
  Interruption interruption;
  for (int64_t i = n - 1; i >= 0; --i) {
    if (i % polled == polled - 1) interruption.poll();
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
    to[i] = nothing ? T(0) : tail * std::exp(slope);
  }
}

template <class T>
void logcumsumexp_gradient(const View& grad, const View& input, const View& result, int64_t dim,
                           const View& grad_input) {
  constexpr DType element = dtype_of<T>;
  LineTiles tiles(
      {{&grad, &grad_input, element}, {&input, nullptr, element}, {&result, nullptr, element}}, dim,
      LineShape::whole);
  tiles.run([](const LineTile& tile) {
    for (int64_t b = 0; b < tile.blocks; ++b)
      for (int64_t j = 0; j < tile.lines; ++j) {
        auto line = [&](const TileOperand& of) { return Line<T>(of, b, j); };
        log_sum_gradient(line(tile.to[0]), line(tile.from[0]), line(tile.from[1]),
                         line(tile.from[2]), tile.n);
      }
  });
}

void running_extreme(bool largest, const View& input, int64_t dim, const View& values,
                     const View& indices) {
  check_implemented(!is_complex(input.dtype), largest ? "cummax" : "cummin",
                    ": not implemented for dtype ", input.dtype);
  if (input.numel == 0) return;
  const DType element = is_floating(input.dtype) ? compute_dtype(input.dtype) : DType::Int64;
  LineTiles tiles({{&input, &values, element}, {nullptr, &indices, DType::Int64}}, dim,
                  LineShape::pieces);
  tiles.run([=](const LineTile& tile) {
    extreme_tile(largest, element,
                 {tile.from[0], tile.to[0], tile.to[1], tile.begin, tile.n, tile.lines, tile.blocks,
                  tile.carry});
  });
}

// d(sum_i g[i] * x[0] ... x[i]) / d(x[k]), with P[k] = x[0] ... x[k]: before the first zero z it is
// (sum_{i >= k} g[i] P[i]) / x[k]; at z it is P[z - 1] times sum_{i >= z} g[i] x[z + 1] ... x[i];
// after z it is 0.
template <class T>
void product_gradient(Line<T> to, Line<T> g, Line<T> given, int64_t n) {
  auto x = [&](int64_t i) {
    if constexpr (is_complex_v<T>) return std::conj(given[i]);
    else return given[i];
  };
  int64_t z = 0;
  T product(1), tail(0);
  interruptible_for(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && z == i && x(i) != T(0); z = ++i)
      to[i] = g[i] * (product *= x(i));
  });
  if (z < n) {
    T at_zero = g[z], after = T(1);
    interruptible_for(n - (z + 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = z + 1 + begin; i < z + 1 + end; ++i) {
        if (after != T(0)) at_zero += g[i] * (after *= x(i));
        to[i] = T(0);
      }
    });
    to[z] = product * at_zero;
  }
  interruptible_for(z, [&](int64_t begin, int64_t end) {
    for (int64_t i = z - 1 - begin; i > z - 1 - end; --i) {
      tail += to[i];
      to[i] = tail / x(i);
    }
  });
}

// The same for all lines at once, without a division, in half the time; returned are the products
// of the lines. Right where these are normal numbers and the sum at to[0], which has all factors,
// is finite.
std::vector<double> products_and_gradients(const LineTile& tile) {
  const int64_t n = tile.n;
  std::vector<double> products(static_cast<size_t>(tile.lines * tile.blocks), 1.0);
  ProductTile rows{tile.from[1], tile.from[2], tile.to[0],     n, 0, n,
                   tile.lines,   tile.blocks,  products.data()};
  interruptible_for(n, [&](int64_t begin, int64_t end) {
    rows.begin = n - end;
    rows.end = n - begin;
    product_tails(rows);
  });
  interruptible_for(n, [&](int64_t begin, int64_t end) {
    rows.begin = begin;
    rows.end = end;
    product_heads(rows);
  });
  return products;
}

template <class T>
void cumprod_gradient(const View& grad, const View& input, int64_t dim, const View& grad_input) {
  constexpr DType element = dtype_of<T>;
  LineTiles tiles(
      {{nullptr, &grad_input, element}, {&grad, nullptr, element}, {&input, nullptr, element}}, dim,
      LineShape::whole);
  tiles.run([](const LineTile& tile) {
    std::vector<double> products;
    if constexpr (!is_complex_v<T>) products = products_and_gradients(tile);
    for (int64_t b = 0; b < tile.blocks; ++b)
      for (int64_t j = 0; j < tile.lines; ++j) {
        const Line<T> to(tile.to[0], b, j);
        if constexpr (!is_complex_v<T>) {
          const double product = products[static_cast<size_t>(b * tile.lines + j)];
          if (std::isnormal(product) && std::isfinite(to[0])) continue;
        }
        product_gradient(to, Line<T>(tile.from[1], b, j), Line<T>(tile.from[2], b, j), tile.n);
      }
  });
}

}  // namespace

void cumsum(const View& input, int64_t dim, const View& out, bool reverse) {
  scan(false, input, dim, out, reverse);
}
void cumprod(const View& input, int64_t dim, const View& out, bool reverse) {
  scan(true, input, dim, out, reverse);
}
void logcumsumexp(const View& input, int64_t dim, const View& out, bool reverse) {
  check_implemented(is_differentiable(input.dtype), "logcumsumexp: not implemented for dtype ",
                    input.dtype);
  if (out.numel == 0) return;
  const DType element = is_complex(input.dtype) ? DType::Complex128 : DType::Float64;
  LineTiles tiles({{&input, &out, element}}, dim, LineShape::turned, reverse);
  tiles.run([=](const LineTile& tile) {
    constexpr double none = -std::numeric_limits<double>::infinity();
    if (element == DType::Complex128)
      scan_lines<complex128>(tile, none,
                             [](complex128 a, complex128 b) { return math::logaddexp(b, a); });
    else if (tile.lines == 1) scan_lines<double>(tile, none, log_add_exp);
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
