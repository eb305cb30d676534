#include <algorithm>

#include "core/parallel.h"
#include "kernels/batch_norm_loops.h"
#include "kernels/cpu/simd.h"
#include "kernels/workspace.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class T> T* run_of(const ChannelData& d, int64_t n, int64_t c) {
  return static_cast<T*>(d.data) + n * d.batch_step + c * d.channel_step;
}

struct Pair {
  double first, second;
};

// The sums of first(at) and second(at) over runs of n elements, in two vectors of partial sums
// each. The functions take a reader: read(p) is p's element, or its vector of elements, at the
// place.
template <class T, class First, class Second>
Pair sum_run(int64_t n, First&& first, Second&& second) {
  constexpr int64_t lanes = Vector<T>::lanes;
  vec<T> a[2] = {}, b[2] = {};
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    auto here = [&](const T* p) { return load(p + i); };
    auto next = [&](const T* p) { return load(p + i + lanes); };
    a[0] += first(here);
    a[1] += first(next);
    b[0] += second(here);
    b[1] += second(next);
  }
  T rest_a = 0, rest_b = 0;
  for (; i < n; ++i) {
    auto here = [&](const T* p) { return p[i]; };
    rest_a += first(here);
    rest_b += second(here);
  }
  vec<T> all_a = a[0] + a[1], all_b = b[0] + b[1];
  Pair sums{static_cast<double>(rest_a), static_cast<double>(rest_b)};
  for (int64_t lane = 0; lane < lanes; ++lane) {
    sums.first += static_cast<double>(all_a[lane]);
    sums.second += static_cast<double>(all_b[lane]);
  }
  return sums;
}

// One run per image and channel: run(n, c) gives its sums, which are added up by channel.
template <class Run>
void sum_planes(const ChannelLayout& l, Run&& run, double* first, double* second) {
  int64_t work = l.batch * l.length;
  parallel_for(0, l.channels, default_grain / (work + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      Pair sums{0, 0};
      for (int64_t n = 0; n < l.batch; ++n) {
        Pair part = run(n, c);
        sums.first += part.first;
        sums.second += part.second;
      }
      first[c] = sums.first;
      if (second) second[c] = sums.second;
    }
  });
}

// Rows of channels, in blocks of rows whose number follows from the size alone.
template <class T, class AddRow>
void sum_rows(const ChannelLayout& l, AddRow&& add_row, double* first, double* second) {
  int64_t channels = l.channels, rows = l.batch;
  int64_t block = std::max<int64_t>({16, (rows + 63) / 64, default_grain / (channels + 1)});
  int64_t blocks = (rows + block - 1) / block;
  Buffer<T> partial(2 * blocks * channels);
  parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T *a = partial.data() + 2 * b * channels, *p = a + channels;
      std::fill(a, a + 2 * channels, T(0));
      for (int64_t row = b * block; row < std::min(rows, (b + 1) * block); ++row)
        add_row(row, a, p);
    }
  });
  for (int64_t c = 0; c < channels; ++c) {
    double a = 0, p = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      a += static_cast<double>(partial[2 * b * channels + c]);
      p += static_cast<double>(partial[(2 * b + 1) * channels + c]);
    }
    first[c] = a;
    if (second) second[c] = p;
  }
}

// Per-channel constants in the type of the data.
template <class T> Buffer<T> narrowed(const double* values, int64_t n) {
  Buffer<T> copy(n);
  for (int64_t i = 0; i < n; ++i) copy[i] = static_cast<T>(values[i]);
  return copy;
}

template <class T>
void sums_typed(const ChannelLayout& l, const ChannelData& x, const double* center, int power,
                double* sums) {
  bool square = power == 2;
  if (l.by_rows) {
    Buffer<T> centers = narrowed<T>(center, l.channels);
    return sum_rows<T>(
        l,
        [&](int64_t row, T* __restrict a, T*) {
          const T* __restrict v = run_of<const T>(x, row, 0);
          const T* __restrict m = centers.data();
          if (square)
            for (int64_t c = 0; c < l.channels; ++c) a[c] += (v[c] - m[c]) * (v[c] - m[c]);
          else
            for (int64_t c = 0; c < l.channels; ++c) a[c] += v[c] - m[c];
        },
        sums, nullptr);
  }
  sum_planes(
      l,
      [&](int64_t n, int64_t c) {
        const T* v = run_of<const T>(x, n, c);
        T m = static_cast<T>(center[c]);
        auto zero = [](auto&&) { return T(0); };
        if (square)
          return sum_run<T>(l.length, [=](auto&& at) { return (at(v) - m) * (at(v) - m); }, zero);
        return sum_run<T>(l.length, [=](auto&& at) { return at(v) - m; }, zero);
      },
      sums, nullptr);
}

template <class T>
void grad_sums_typed(const ChannelLayout& l, const ChannelData& g, const ChannelData& x,
                     const double* center, double* sums, double* products) {
  if (l.by_rows) {
    Buffer<T> centers = narrowed<T>(center, l.channels);
    return sum_rows<T>(
        l,
        [&](int64_t row, T* __restrict a, T* __restrict p) {
          const T* __restrict d = run_of<const T>(g, row, 0);
          const T* __restrict v = run_of<const T>(x, row, 0);
          const T* __restrict m = centers.data();
          for (int64_t c = 0; c < l.channels; ++c) {
            a[c] += d[c];
            p[c] += d[c] * (v[c] - m[c]);
          }
        },
        sums, products);
  }
  sum_planes(
      l,
      [&](int64_t n, int64_t c) {
        const T *d = run_of<const T>(g, n, c), *v = run_of<const T>(x, n, c);
        T m = static_cast<T>(center[c]);
        return sum_run<T>(
            l.length, [=](auto&& at) { return at(d); },
            [=](auto&& at) { return at(d) * (at(v) - m); });
      },
      sums, products);
}

// row(n) for rows of channels, plane(n, c) for runs of one channel, in parallel.
template <class Row, class Plane>
void for_runs(const ChannelLayout& l, Row&& row, Plane&& plane) {
  int64_t runs = l.by_rows ? l.batch : l.batch * l.channels;
  int64_t work = l.by_rows ? l.channels : l.length;
  parallel_for(0, runs, default_grain / (work + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (l.by_rows) row(i);
      else plane(i / l.channels, i % l.channels);
  });
}

template <class T>
void affine_typed(const ChannelLayout& l, const ChannelData& x, const double* scale,
                  const double* shift, const ChannelData& out) {
  Buffer<T> scales = narrowed<T>(scale, l.channels), shifts = narrowed<T>(shift, l.channels);
  for_runs(
      l,
      [&](int64_t n) {
        const T* __restrict v = run_of<const T>(x, n, 0);
        const T* __restrict s = scales.data(), * __restrict t = shifts.data();
        T* __restrict to = run_of<T>(out, n, 0);
        for (int64_t c = 0; c < l.channels; ++c) to[c] = v[c] * s[c] + t[c];
      },
      [&](int64_t n, int64_t c) {
        const T* __restrict v = run_of<const T>(x, n, c);
        T* __restrict to = run_of<T>(out, n, c);
        T s = scales[c], t = shifts[c];
        for (int64_t i = 0; i < l.length; ++i) to[i] = v[i] * s + t;
      });
}

template <class T>
void grad_typed(const ChannelLayout& l, const ChannelData& g, const ChannelData& x,
                const double* center, const double* offset, const double* slope,
                const double* scale, const ChannelData& out) {
  Buffer<T> centers = narrowed<T>(center, l.channels), offsets = narrowed<T>(offset, l.channels);
  Buffer<T> slopes = narrowed<T>(slope, l.channels), scales = narrowed<T>(scale, l.channels);
  for_runs(
      l,
      [&](int64_t n) {
        const T* __restrict d = run_of<const T>(g, n, 0);
        const T* __restrict v = run_of<const T>(x, n, 0);
        const T* __restrict m = centers.data(), * __restrict o = offsets.data();
        const T* __restrict k = slopes.data(), * __restrict s = scales.data();
        T* __restrict to = run_of<T>(out, n, 0);
        for (int64_t c = 0; c < l.channels; ++c)
          to[c] = (d[c] - o[c] - (v[c] - m[c]) * k[c]) * s[c];
      },
      [&](int64_t n, int64_t c) {
        const T* __restrict d = run_of<const T>(g, n, c);
        const T* __restrict v = run_of<const T>(x, n, c);
        T* __restrict to = run_of<T>(out, n, c);
        T m = centers[c], o = offsets[c], k = slopes[c], s = scales[c];
        for (int64_t i = 0; i < l.length; ++i) to[i] = (d[i] - o - (v[i] - m) * k) * s;
      });
}

}  // namespace

void channel_sums(const ChannelLayout& l, const ChannelData& x, const double* center, int power,
                  double* sums) {
  l.dtype == DType::Float64 ? sums_typed<double>(l, x, center, power, sums)
                            : sums_typed<float>(l, x, center, power, sums);
}

void channel_affine(const ChannelLayout& l, const ChannelData& x, const double* scale,
                    const double* shift, const ChannelData& out) {
  l.dtype == DType::Float64 ? affine_typed<double>(l, x, scale, shift, out)
                            : affine_typed<float>(l, x, scale, shift, out);
}

void channel_grad_sums(const ChannelLayout& l, const ChannelData& g, const ChannelData& x,
                       const double* center, double* sums, double* products) {
  l.dtype == DType::Float64 ? grad_sums_typed<double>(l, g, x, center, sums, products)
                            : grad_sums_typed<float>(l, g, x, center, sums, products);
}

void channel_grad(const ChannelLayout& l, const ChannelData& g, const ChannelData& x,
                  const double* center, const double* offset, const double* slope,
                  const double* scale, const ChannelData& out) {
  l.dtype == DType::Float64 ? grad_typed<double>(l, g, x, center, offset, slope, scale, out)
                            : grad_typed<float>(l, g, x, center, offset, slope, scale, out);
}

}  // namespace rl::kernels::RL_ISA
