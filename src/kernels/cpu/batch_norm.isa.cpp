#include <algorithm>

#include "core/parallel.h"
#include "kernels/cpu/batch_norm_loops.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels::RL_ISA {
namespace {

// Data whose elements are of T.
template <class T> T* run_of(const ChannelData& d, int64_t n, int64_t c) {
  return static_cast<T*>(d.data) + n * d.batch_step + c * d.channel_step;
}

// Runs of `length` elements as T: where they lie, or converted to and from memory nearby, as many
// as `most` behind each other.
template <class T> class Runs {
 public:
  Runs(const ChannelData& d, int64_t length, int64_t most = 1)
      : d_(d),
        length_(length),
        step_(d.batch_step * itemsize(d.dtype)),
        converts_(d.dtype != dtype_of<T>),
        memory_(converts_ ? most * length : 0) {}
  const T* read(int64_t n, int64_t c, int64_t count = 1) const {
    if (!converts_) return run_of<const T>(d_, n, c);
    if (gapless(count))
      convert_direct(d_.dtype, dtype_of<T>, d_.at(n, c), memory_.data(), count * length_);
    else
      load_panel(d_.dtype, static_cast<const char*>(d_.at(n, c)), step_, itemsize(d_.dtype),
                 dtype_of<T>, memory_.data(), count, length_);
    return memory_.data();
  }
  T* place(int64_t n, int64_t c) const { return converts_ ? memory_.data() : run_of<T>(d_, n, c); }
  // What was written there.
  void write(int64_t n, int64_t c, int64_t count = 1) const {
    if (!converts_) return;
    if (gapless(count))
      convert_direct(dtype_of<T>, d_.dtype, memory_.data(), d_.at(n, c), count * length_);
    else
      store_panel(dtype_of<T>, memory_.data(), d_.dtype, static_cast<char*>(d_.at(n, c)), step_,
                  itemsize(d_.dtype), count, length_);
  }

 private:
  bool gapless(int64_t count) const { return count == 1 || d_.batch_step == length_; }

  const ChannelData& d_;
  int64_t length_, step_;
  bool converts_;
  Buffer<T> memory_;
};

struct Pair {
  double first, second;
};

// The sum of the lanes, in double.
inline double sum_lanes(vec<double> v) {
  double sum;
  fold_lanes<Add>(v, &sum);
  return sum;
}
inline double sum_lanes(vec<float> v) {
  vec<float, vector_bytes / 2> halves[2];
  std::memcpy(halves, &v, sizeof v);
  return sum_lanes(__builtin_convertvector(halves[0], vec<double>) +
                   __builtin_convertvector(halves[1], vec<double>));
}

// The sums of first(at) and second(at) over runs of n elements, in two vectors of partial sums
// each. The functions take a reader: read(p) is p's element, or its vector of elements, at the
// place.
template <class T, class First, class Second>
Pair sum_run(int64_t n, First&& first, Second&& second) {
  constexpr int64_t lanes = Vector<T>::lanes, block = 8192;
  Pair total{0, 0};
  for (int64_t i = 0; i < n;) {  // blocks are added up in double: float32 has too few digits
    const int64_t end = std::min(n, i + block);
    vec<T> a[2] = {}, b[2] = {};
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      auto here = [&](const T* p) { return load(p + i); };
      auto next = [&](const T* p) { return load(p + i + lanes); };
      a[0] += first(here);
      a[1] += first(next);
      b[0] += second(here);
      b[1] += second(next);
    }
    T rest_a = 0, rest_b = 0;
    for (; i < end; ++i) {
      auto here = [&](const T* p) { return p[i]; };
      rest_a += first(here);
      rest_b += second(here);
    }
    total.first += static_cast<double>(rest_a) + sum_lanes(a[0] + a[1]);
    total.second += static_cast<double>(rest_b) + sum_lanes(b[0] + b[1]);
  }
  return total;
}

// f(c) for each channel of planes, in parallel.
template <class F> void for_channels(const ChannelLayout& l, F&& f) {
  int64_t work = l.batch * l.length;
  parallel_for(0, l.channels, default_grain / (work + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) f(c);
  });
}

// f(n, count) for the runs of a channel, `together` at a time.
template <class F> void for_runs(const ChannelLayout& l, int64_t together, F&& f) {
  for (int64_t n = 0; n < l.batch; n += together) f(n, std::min(together, l.batch - n));
}

// How many runs are taken at a time: of those that are converted as many as have 512 elements,
// because a call for each of 64 took as long as the sums; more would leave the first-level cache.
int64_t runs_together(const ChannelLayout& l, std::initializer_list<const ChannelData*> all) {
  for (const ChannelData* d : all)
    if (d->dtype == l.dtype) return 1;
  return std::max<int64_t>(1, 512 / std::max<int64_t>(1, l.length));
}

// Blocks of rows that stay in the second-level cache. Their number follows from the sizes alone.
struct RowBlocks {
  int64_t rows, size, count;
  explicit RowBlocks(const ChannelLayout& l)
      : rows(l.batch),
        size(std::max<int64_t>(16, (int64_t(1) << 16) / l.channels)),
        count((rows + size - 1) / size) {}
  int64_t length(int64_t block) const { return std::min(size, rows - block * size); }
};

// f(c, width) with width<n>, n vectors of channels from c on; the last vector may begin among the
// channels of the one before. Channels that fill no vector come one by one, as width<0>.
template <int n> struct width {
  static constexpr int vectors = n;
};
template <class T, class F> void for_strips(int64_t channels, F&& f) {
  constexpr int64_t lanes = Vector<T>::lanes;
  int64_t c = 0;
  if (channels < lanes)
    for (; c < channels; ++c) f(c, width<0>());
  for (; c + 4 * lanes <= channels; c += 4 * lanes) f(c, width<4>());
  for (; c < channels; c += lanes) f(std::min(c, channels - lanes), width<1>());
}

// The same arithmetic on n vectors, or on one number.
template <class T, int n> struct Lanes {
  vec<T> v[n];
  static Lanes at(const T* p) {
    Lanes x;
    for (int i = 0; i < n; ++i) x.v[i] = load(p + i * Vector<T>::lanes);
    return x;
  }
  void to(T* p) const {
    for (int i = 0; i < n; ++i) store(p + i * Vector<T>::lanes, v[i]);
  }
  Lanes& operator+=(const Lanes& o) {
    for (int i = 0; i < n; ++i) v[i] += o.v[i];
    return *this;
  }
  Lanes operator-(const Lanes& o) const {
    Lanes x;
    for (int i = 0; i < n; ++i) x.v[i] = v[i] - o.v[i];
    return x;
  }
  void add_product(const Lanes& a, const Lanes& b) {
    for (int i = 0; i < n; ++i) v[i] = mul_add(a.v[i], b.v[i], v[i]);
  }
  Lanes operator*(T o) const {
    Lanes x;
    for (int i = 0; i < n; ++i) x.v[i] = v[i] * o;
    return x;
  }
};
template <class T> struct Lanes<T, 0> {
  T v = 0;
  static Lanes at(const T* p) { return {*p}; }
  void to(T* p) const { *p = v; }
  Lanes& operator+=(const Lanes& o) {
    v += o.v;
    return *this;
  }
  Lanes operator-(const Lanes& o) const { return {v - o.v}; }
  void add_product(const Lanes& a, const Lanes& b) { v = mul_add(a.v, b.v, v); }
  Lanes operator*(T o) const { return {v * o}; }
};

// Rows [first, first + count), worked out if they are what a formula gives, or converted.
template <class T>
class Rows {
 public:
  Rows(const ChannelLayout& l, const ChannelData& d, int64_t most)
      : channels_(l.channels),
        from_(d),
        converts_(d.dtype != dtype_of<T>),
        memory_(d.formula || converts_ ? most * l.channels : 0) {}
  ChannelData at(int64_t first, int64_t count) {
    ChannelData near{dtype_of<T>, memory_.data() - first * channels_, channels_, 1};
    if constexpr (std::is_same_v<T, float>)
      if (from_.formula) {
        from_.formula->evaluate(first * channels_, count * channels_, memory_.data());
        return near;
      }
    if (!converts_) return from_;
    bool gapless = from_.batch_step == channels_;
    int64_t together = gapless ? count : 1;
    for (int64_t i = 0; i < count; i += together)
      convert_direct(from_.dtype, dtype_of<T>, from_.at(first + i, 0),
                     memory_.data() + i * channels_, together * channels_);
    return near;
  }

 private:
  int64_t channels_;
  const ChannelData& from_;
  bool converts_;
  Buffer<T> memory_;
};

// Per-channel constants in the type of the data.
template <class T> Buffer<T> narrowed(const double* values, int64_t n) {
  Buffer<T> copy(n);
  for (int64_t i = 0; i < n; ++i) copy[i] = static_cast<T>(values[i]);
  return copy;
}

// Joins the moments of n more values to those of `count`.
void join_moments(double count, double& mean, double& squares, double n, double more_mean,
                  double more_squares) {
  double apart = more_mean - mean, total = count + n;
  mean += apart * n / total;
  squares += more_squares + apart * apart * count * n / total;
}

// Narrow rows without gaps: `rows` of them are one row of as many times the channels, which fill
// vectors, and some are left over.
struct WidenedRows {
  static constexpr int64_t rows = 16;
  ChannelLayout wide, rest;

  template <class T>
  static bool pay(const ChannelLayout& l, std::initializer_list<const ChannelData*> all) {
    bool gapless = l.channels < Vector<T>::lanes && l.batch >= 2 * rows;
    for (const ChannelData* d : all)
      gapless = gapless && d->batch_step == l.channels && !d->formula;
    return gapless;
  }
  explicit WidenedRows(const ChannelLayout& l)
      : wide{l.dtype, l.batch / rows, rows * l.channels, 1, true},
        rest{l.dtype, l.batch % rows, l.channels, 1, true} {}
  ChannelData wide_of(const ChannelData& d) const { return {d.dtype, d.data, wide.channels, 1}; }
  ChannelData rest_of(const ChannelData& d) const {
    return {d.dtype, d.at(wide.batch * rows, 0), rest.channels, 1};
  }
};

template <class T>
void moments_by_rows(const ChannelLayout& l, const ChannelData& x, double* mean, double* squares) {
  if (WidenedRows::pay<T>(l, {&x})) {
    const WidenedRows of(l);
    Buffer<double> means(of.wide.channels), sums(of.wide.channels);
    moments_by_rows<T>(of.wide, of.wide_of(x), means.data(), sums.data());
    moments_by_rows<T>(of.rest, of.rest_of(x), mean, squares);
    double seen = static_cast<double>(of.rest.batch), more = static_cast<double>(of.wide.batch);
    for (int64_t i = 0; i < of.wide.channels; i += l.channels, seen += more)
      for (int64_t c = 0; c < l.channels; ++c)
        join_moments(seen, mean[c], squares[c], more, means[i + c], sums[i + c]);
    return;
  }
  RowBlocks blocks(l);
  int64_t channels = l.channels;
  Buffer<T> partial(2 * blocks.count * channels);
  parallel_for(0, blocks.count, default_grain / (blocks.size * channels) + 1,
               [&](int64_t begin, int64_t end) {
                 Rows<T> rows(l, x, blocks.size);
                 for (int64_t b = begin; b < end; ++b) {
                   T *means = partial.data() + 2 * b * channels, *sums = means + channels;
                   int64_t first = b * blocks.size, last = first + blocks.length(b);
                   T share = T(1) / static_cast<T>(last - first);
                   ChannelData values = rows.at(first, last - first);
                   for_strips<T>(channels, [&](int64_t c, auto tag) {
                     constexpr int n = decltype(tag)::vectors;
                     Lanes<T, n> sum{}, square{};
                     for (int64_t row = first; row < last; ++row)
                       sum += Lanes<T, n>::at(run_of<const T>(values, row, c));
                     Lanes<T, n> center = sum * share;
                     for (int64_t row = first; row < last; ++row) {
                       Lanes<T, n> d = Lanes<T, n>::at(run_of<const T>(values, row, c)) - center;
                       square.add_product(d, d);
                     }
                     center.to(means + c);
                     square.to(sums + c);
                   });
                 }
               });
  for (int64_t c = 0; c < channels; ++c) {
    mean[c] = squares[c] = 0;
    for (int64_t b = 0; b < blocks.count; ++b)
      join_moments(static_cast<double>(b * blocks.size), mean[c], squares[c],
                   static_cast<double>(blocks.length(b)),
                   static_cast<double>(partial[2 * b * channels + c]),
                   static_cast<double>(partial[(2 * b + 1) * channels + c]));
  }
}

template <class T>
void moments_typed(const ChannelLayout& l, const ChannelData& x, double* mean, double* squares) {
  if (l.by_rows) return moments_by_rows<T>(l, x, mean, squares);
  auto zero = [](auto&&) { return T(0); };
  const int64_t together = runs_together(l, {&x});
  for_channels(l, [&](int64_t c) {
    mean[c] = squares[c] = 0;
    Runs<T> runs(x, l.length, together);
    for_runs(l, together, [&](int64_t n, int64_t count) {
      const T* v = runs.read(n, c, count);
      const int64_t all = count * l.length;
      double sum = sum_run<T>(all, [=](auto&& at) { return at(v); }, zero).first;
      T m = static_cast<T>(sum / static_cast<double>(all));
      double square =
          sum_run<T>(all, [=](auto&& at) { return (at(v) - m) * (at(v) - m); }, zero).first;
      join_moments(static_cast<double>(n * l.length), mean[c], squares[c], static_cast<double>(all),
                   static_cast<double>(m), square);
    });
  });
}

template <class T>
void grad_sums_by_rows(const ChannelLayout& l, const ChannelData& g, const ChannelData& x,
                       const T* center, double* sums, double* products) {
  if (WidenedRows::pay<T>(l, {&g, &x})) {
    const WidenedRows of(l);
    Buffer<T> centers(of.wide.channels);
    for (int64_t i = 0; i < of.wide.channels; ++i) centers[i] = center[i % l.channels];
    Buffer<double> more(of.wide.channels), more_products(of.wide.channels);
    grad_sums_by_rows<T>(of.wide, of.wide_of(g), of.wide_of(x), centers.data(), more.data(),
                         more_products.data());
    grad_sums_by_rows<T>(of.rest, of.rest_of(g), of.rest_of(x), center, sums, products);
    for (int64_t i = 0; i < of.wide.channels; ++i) {
      sums[i % l.channels] += more[i];
      products[i % l.channels] += more_products[i];
    }
    return;
  }
  RowBlocks blocks(l);
  int64_t channels = l.channels;
  Buffer<T> partial(2 * blocks.count * channels);
  parallel_for(0, blocks.count, default_grain / (blocks.size * channels) + 1,
               [&](int64_t begin, int64_t end) {
                 Rows<T> rows(l, g, blocks.size), seen(l, x, blocks.size);
                 for (int64_t b = begin; b < end; ++b) {
                   T *some = partial.data() + 2 * b * channels, *more = some + channels;
                   int64_t first = b * blocks.size, last = first + blocks.length(b);
                   ChannelData gradient = rows.at(first, last - first);
                   ChannelData values = seen.at(first, last - first);
                   for_strips<T>(channels, [&](int64_t c, auto tag) {
                     constexpr int n = decltype(tag)::vectors;
                     Lanes<T, n> sum{}, product{}, middle = Lanes<T, n>::at(center + c);
                     for (int64_t row = first; row < last; ++row) {
                       Lanes<T, n> d = Lanes<T, n>::at(run_of<const T>(gradient, row, c));
                       sum += d;
                       product.add_product(
                           d, Lanes<T, n>::at(run_of<const T>(values, row, c)) - middle);
                     }
                     sum.to(some + c);
                     product.to(more + c);
                   });
                 }
               });
  for (int64_t c = 0; c < channels; ++c) {
    sums[c] = products[c] = 0;
    for (int64_t b = 0; b < blocks.count; ++b) {
      sums[c] += static_cast<double>(partial[2 * b * channels + c]);
      products[c] += static_cast<double>(partial[(2 * b + 1) * channels + c]);
    }
  }
}

// Rows of channels without gaps between them are taken some at a time, as one longer row, so that
// narrow ones fill vectors too.
struct WideRows {
  int64_t rows = 1;
  WideRows(const ChannelLayout& l, std::initializer_list<const ChannelData*> all) {
    bool gapless = l.by_rows;
    for (const ChannelData* d : all) gapless = gapless && d->batch_step == l.channels;
    if (gapless) rows = std::max<int64_t>(1, 512 / l.channels);
  }
  // Per-channel constants, once for each row, in the type of the data.
  template <class T> Buffer<T> repeated(const double* values, int64_t channels) const {
    Buffer<T> copy(rows * channels);
    for (int64_t i = 0; i < rows * channels; ++i) copy[i] = static_cast<T>(values[i % channels]);
    return copy;
  }
};

// f(each) for parts of the wide rows, in parallel, where each(g) calls g(n, count) for those of a
// part: as many rows from n on.
template <class F> void for_wide_rows(const ChannelLayout& l, const WideRows& wide, F&& f) {
  int64_t runs = (l.batch + wide.rows - 1) / wide.rows;
  parallel_for(0, runs, default_grain / (l.channels * wide.rows + 1) + 1,
               [&](int64_t begin, int64_t end) {
                 f([&](auto&& g) {
                   for (int64_t n = begin * wide.rows; n < std::min(end * wide.rows, l.batch);
                        n += wide.rows)
                     g(n, std::min(wide.rows, l.batch - n));
                 });
               });
}

template <class T>
void affine_typed(const ChannelLayout& l, const ChannelData& x, const double* scale,
                  const double* shift, const ChannelData& out) {
  const int64_t together = runs_together(l, {&x, &out});
  if (!l.by_rows)
    return for_channels(l, [&](int64_t c) {
      T s = static_cast<T>(scale[c]), t = static_cast<T>(shift[c]);
      Runs<T> from(x, l.length, together), results(out, l.length, together);
      for_runs(l, together, [&](int64_t n, int64_t count) {
        const T* __restrict v = from.read(n, c, count);
        T* __restrict to = results.place(n, c);
        for (int64_t i = 0; i < count * l.length; ++i) to[i] = mul_add(v[i], s, t);
        results.write(n, c, count);
      });
    });
  WideRows wide(l, {&x, &out});
  Buffer<T> scales = wide.repeated<T>(scale, l.channels);
  Buffer<T> shifts = wide.repeated<T>(shift, l.channels);
  for_wide_rows(l, wide, [&](auto&& each) {
    Runs<T> from(x, l.channels, wide.rows), results(out, l.channels, wide.rows);
    each([&](int64_t n, int64_t count) {
      const T* __restrict v = from.read(n, 0, count);
      const T* __restrict s = scales.data(), * __restrict t = shifts.data();
      T* __restrict to = results.place(n, 0);
      for (int64_t c = 0; c < count * l.channels; ++c) to[c] = mul_add(v[c], s[c], t[c]);
      results.write(n, 0, count);
    });
  });
}

template <class T>
void grad_by_rows(const ChannelLayout& l, const ChannelData& g, const ChannelData& x,
                  const ChannelGradient& of, const ChannelData& out) {
  WideRows wide(l, {&g, &x, &out});
  Buffer<double> offset(l.channels), slope(l.channels);
  for (int64_t c = 0; c < l.channels; ++c) {
    offset[c] = of.offset(c, l.count());
    slope[c] = of.slope(c, l.count());
  }
  Buffer<T> centers = wide.repeated<T>(of.center, l.channels);
  Buffer<T> offsets = wide.repeated<T>(offset.data(), l.channels);
  Buffer<T> slopes = wide.repeated<T>(slope.data(), l.channels);
  Buffer<T> scales = wide.repeated<T>(of.scale, l.channels);
  for_wide_rows(l, wide, [&](auto&& each) {
    Runs<T> gradients(g, l.channels, wide.rows), from(x, l.channels, wide.rows);
    Runs<T> results(out, l.channels, wide.rows);
    each([&](int64_t n, int64_t count) {
      const T *v = from.read(n, 0, count), *d = g.formula ? nullptr : gradients.read(n, 0, count);
      const int64_t length = count * l.channels;
      const T *m = centers.data(), *o = offsets.data(), *k = slopes.data(), *s = scales.data();
      T* to = results.place(n, 0);
      if constexpr (std::is_same_v<T, float>)
        if (g.formula) {
          g.formula->evaluate(n * l.channels, length, to);
          d = to;
        }
      RL_INDEPENDENT
      for (int64_t c = 0; c < length; ++c) to[c] = mul_add(m[c] - v[c], k[c], d[c] - o[c]) * s[c];
      results.write(n, 0, count);
    });
  });
}

// Channel by channel: the second time they are read, the planes are in the second-level cache.
template <class T>
void backward_by_planes(const ChannelLayout& l, const ChannelData& g, const ChannelData& x,
                        const ChannelGradient& of, const ChannelData* out) {
  const int64_t together = runs_together(l, {&g, &x, out ? out : &x});
  for_channels(l, [&](int64_t c) {
    T m = static_cast<T>(of.center[c]);
    of.sums[c] = of.products[c] = 0;
    Runs<T> gradients(g, l.length, together), from(x, l.length, together);
    for_runs(l, together, [&](int64_t n, int64_t count) {
      const T *d = gradients.read(n, c, count), *v = from.read(n, c, count);
      Pair part = sum_run<T>(
          count * l.length, [=](auto&& at) { return at(d); },
          [=](auto&& at) { return at(d) * (at(v) - m); });
      of.sums[c] += part.first;
      of.products[c] += part.second;
    });
    if (!out) return;
    T o = static_cast<T>(of.offset(c, l.count())), k = static_cast<T>(of.slope(c, l.count())),
      s = static_cast<T>(of.scale[c]);
    Runs<T> results(*out, l.length, together);
    for_runs(l, together, [&](int64_t n, int64_t count) {
      const T *d = gradients.read(n, c, count), *v = from.read(n, c, count);
      T* to = results.place(n, c);
      RL_INDEPENDENT
      for (int64_t i = 0; i < count * l.length; ++i) to[i] = mul_add(m - v[i], k, d[i] - o) * s;
      results.write(n, c, count);
    });
  });
}

template <class T>
void backward_typed(const ChannelLayout& l, const ChannelData& g, const ChannelData& x,
                    const ChannelGradient& of, const ChannelData* out) {
  if (!l.by_rows) return backward_by_planes<T>(l, g, x, of, out);
  grad_sums_by_rows<T>(l, g, x, narrowed<T>(of.center, l.channels).data(), of.sums, of.products);
  if (out) grad_by_rows<T>(l, g, x, of, *out);
}

}  // namespace

void channel_moments(const ChannelLayout& l, const ChannelData& x, double* mean, double* squares) {
  l.dtype == DType::Float64 ? moments_typed<double>(l, x, mean, squares)
                            : moments_typed<float>(l, x, mean, squares);
}

void channel_affine(const ChannelLayout& l, const ChannelData& x, const double* scale,
                    const double* shift, const ChannelData& out) {
  l.dtype == DType::Float64 ? affine_typed<double>(l, x, scale, shift, out)
                            : affine_typed<float>(l, x, scale, shift, out);
}

void channel_backward(const ChannelLayout& l, const ChannelData& g, const ChannelData& x,
                      const ChannelGradient& of, const ChannelData* out) {
  l.dtype == DType::Float64 ? backward_typed<double>(l, g, x, of, out)
                            : backward_typed<float>(l, g, x, of, out);
}

}  // namespace rl::kernels::RL_ISA
