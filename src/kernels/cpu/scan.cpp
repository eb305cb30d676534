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

// Does x take the place of what was best before? NaN, once met, stays; the last of equals wins.
template <bool largest, class T>
bool takes_over_number(T x, T best) {
  return largest ? x >= best : x <= best;
}
template <bool largest, class T>
bool takes_over(T x, T best) {
  return (x != x) | ((best == best) & takes_over_number<largest>(x, best));
}

// Along a line, or (dense across) down `width` neighbouring lines.
template <class T, bool largest>
class RunningExtreme {
 public:
  RunningExtreme(const View& input, int64_t dim, const View& values, const View& indices)
      : input_(input),
        values_(values),
        indices_(indices),
        in_(input, dim),
        value_(values, dim),
        index_(indices, dim),
        lines_({&values, &indices, &input}, true, dim) {}

  void run() {
    bool dense_across = lines_.sizes[0] >= 4 && lines_.strides[2][0] != 0 &&
                        std::abs(lines_.strides[2][0]) < std::abs(in_.step);
    lines_.parallel_runs(lines_per_thread(in_), [&](char* const* start, int64_t m) {
      for (int64_t j = 0; j < m; j += dense_across ? block : 1) {
        char* p[3];
        for (int k = 0; k < 3; ++k) p[k] = start[k] + j * lines_.strides[k][0];
        if (dense_across) block_of_lines(p, std::min(block, m - j));
        else line(p);
      }
    });
  }

 private:
  void line(char* const* p) {
    T values[strip], best{};
    int64_t indices[strip], place = 0;
    bool values_here = values_.dtype == dtype_of<T> && value_.step == sizeof(T);
    bool indices_here = index_.step == sizeof(int64_t);
    Interruption interruption;
    for (int64_t i = 0; i < in_.size; i += strip) {
      if (i > 0) interruption.poll();
      int64_t n = std::min(strip, in_.size - i);
      char *to = p[0] + i * value_.step, *offsets_to = p[1] + i * index_.step;
      T* x = values_here ? reinterpret_cast<T*>(to) : values;
      int64_t* places = indices_here ? reinterpret_cast<int64_t*>(offsets_to) : indices;
      load_strip(input_.dtype, p[2] + i * in_.step, in_.step, dtype_of<T>, x, n);
      if (i == 0) best = x[0];
      bool nan = false;
      if constexpr (!std::is_integral_v<T>) find_nan(dtype_of<T>, x, n, &nan);
      bool numbers = best == best && !nan;
      if (numbers) extreme_row(largest, dtype_of<T>, x, places, n, i, &best, &place);
      for (int64_t k = 0; !numbers && k < n; ++k) {
        bool beaten = takes_over<largest>(x[k], best);
        best = beaten ? x[k] : best;
        place = beaten ? i + k : place;
        x[k] = best;
        places[k] = place;
      }
      if (!values_here) store_strip(dtype_of<T>, x, values_.dtype, to, value_.step, n);
      if (!indices_here)
        store_strip(DType::Int64, places, indices_.dtype, offsets_to, index_.step, n);
    }
  }

  void block_of_lines(char* const* p, int64_t width) {
    T x[block], best[block];
    int64_t places[block] = {};
    Interruption interruption;
    for (int64_t i = 0; i < in_.size; ++i) {
      if (i % strip == strip - 1) interruption.poll();
      load_strip(input_.dtype, p[2] + i * in_.step, lines_.strides[2][0], dtype_of<T>, x, width);
      if (i == 0) std::copy_n(x, width, best);
      for (int64_t j = 0; j < width; ++j) {
        bool beaten = takes_over<largest>(x[j], best[j]);
        best[j] = beaten ? x[j] : best[j];
        places[j] = beaten ? i : places[j];
      }
      store_strip(dtype_of<T>, best, values_.dtype, p[0] + i * value_.step, lines_.strides[0][0],
                  width);
      store_strip(DType::Int64, places, indices_.dtype, p[1] + i * index_.step,
                  lines_.strides[1][0], width);
    }
  }

  const View &input_, &values_, &indices_;
  Axis in_, value_, index_;
  StridedIterator<3> lines_;
};

template <bool largest>
void running_extreme(const char* name, const View& input, int64_t dim, const View& values,
                     const View& indices) {
  check_implemented(!is_complex(input.dtype), name, ": not implemented for dtype ", input.dtype);
  if (input.numel == 0) return;
  if (is_integral_or_bool(input.dtype))
    RunningExtreme<int64_t, largest>(input, dim, values, indices).run();
  else if (input.dtype == DType::Float64)
    RunningExtreme<double, largest>(input, dim, values, indices).run();
  else RunningExtreme<float, largest>(input, dim, values, indices).run();
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
  running_extreme<true>("cummax", input, dim, values, indices);
}
void cummin(const View& input, int64_t dim, const View& values, const View& indices) {
  running_extreme<false>("cummin", input, dim, values, indices);
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
