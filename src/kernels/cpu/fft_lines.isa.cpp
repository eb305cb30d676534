#include "kernels/cpu/fft_lines.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/pairs.h"
#include "kernels/cpu/transpose_square.h"

namespace rl::kernels::RL_ISA {
namespace {

// A point of all lanes' lines.
template <class V> struct Point {
  V re, im;
  friend Point operator+(Point a, Point b) { return {a.re + b.re, a.im + b.im}; }
  friend Point operator-(Point a, Point b) { return {a.re - b.re, a.im - b.im}; }
  template <class R> Point times(R c, R s) const {
    return {mul_add(re, c, -(im * s)), mul_add(im, c, re * s)};
  }
  Point times(Point b) const { return times(b.re, b.im); }
  template <class R> Point plus(Point b, R c) const {  // c times b
    return {mul_add(b.re, c, re), mul_add(b.im, c, im)};
  }
  template <class R> Point scaled(R c) const { return {re * c, im * c}; }
  Point down() const { return {im, -re}; }  // times -i
};

// ---- butterflies: t becomes its transform

template <class P> [[gnu::always_inline]] inline void transform2(P* t) {
  P sum = t[0] + t[1];
  t[1] = t[0] - t[1];
  t[0] = sum;
}

template <class R, class P> [[gnu::always_inline]] inline void transform3(P* t) {
  constexpr R half_root = R(0.86602540378443864676);
  P sum = t[1] + t[2], turned = (t[1] - t[2]).down();
  P middle = t[0].plus(sum, R(-0.5));
  t[0] = t[0] + sum;
  t[1] = middle.plus(turned, half_root);
  t[2] = middle.plus(turned, -half_root);
}

template <class P> [[gnu::always_inline]] inline void transform4(P* t) {
  P even = t[0] + t[2], odd = t[0] - t[2], sum = t[1] + t[3], turned = (t[1] - t[3]).down();
  t[0] = even + sum;
  t[1] = odd + turned;
  t[2] = even - sum;
  t[3] = odd - turned;
}

template <class R, class P> [[gnu::always_inline]] inline void transform5(P* t) {
  constexpr R c1 = R(0.30901699437494742410), c2 = R(-0.80901699437494742410),
              s1 = R(0.95105651629515357212), s2 = R(0.58778525229247312917);
  P a = t[1] + t[4], b = t[2] + t[3], d = (t[1] - t[4]).down(), e = (t[2] - t[3]).down();
  P p = t[0].plus(a, c1).plus(b, c2), q = t[0].plus(a, c2).plus(b, c1);
  P u = d.scaled(s1).plus(e, s2), v = d.scaled(s2).plus(e, -s1);
  t[0] = t[0] + a + b;
  t[1] = p + u;
  t[2] = q + v;
  t[3] = q - v;
  t[4] = p - u;
}

template <class R, class P> [[gnu::always_inline]] inline void transform8(P* t) {
  constexpr R root = R(0.70710678118654752440);
  P even[4] = {t[0], t[2], t[4], t[6]}, odd[4] = {t[1], t[3], t[5], t[7]};
  transform4(even);
  transform4(odd);
  odd[1] = {odd[1].re + odd[1].im, odd[1].im - odd[1].re};
  odd[2] = odd[2].down();
  odd[3] = {odd[3].im - odd[3].re, -odd[3].re - odd[3].im};
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    t[k] = k % 2 ? even[k].plus(odd[k], root) : even[k] + odd[k];
    t[k + 4] = k % 2 ? even[k].plus(odd[k], -root) : even[k] - odd[k];
  }
}

// Any odd radix: pairs of points that are conjugates' factors share their products.
template <class R, class P> void transform_odd(P* t, int64_t radix, const R* roots, int64_t step) {
  P sums[largest_fft_radix / 2], turns[largest_fft_radix / 2], first = t[0];
  int64_t pairs = radix / 2;
  for (int64_t q = 0; q < pairs; ++q) {
    sums[q] = t[q + 1] + t[radix - 1 - q];
    turns[q] = (t[q + 1] - t[radix - 1 - q]).down();
    t[0] = t[0] + sums[q];
  }
  for (int64_t p = 1; p <= pairs; ++p) {
    P even = first, odd{};
    for (int64_t q = 0, turn = p; q < pairs; ++q, turn += p) {
      if (turn >= radix) turn -= radix;
      const R* root = roots + 2 * (turn * step);
      even = even.plus(sums[q], root[0]);
      odd = odd.plus(turns[q], -root[1]);
    }
    t[p] = even + odd;
    t[radix - p] = even - odd;
  }
}

// ---- a block: as many lines as lanes

template <class R> struct Block {
  using V = vec<R>;
  using P = Point<V>;
  static constexpr int lanes = Vector<R>::lanes;

  static P get(const R* block, int64_t point) {
    const R* p = block + 2 * lanes * point;
    return {load(p), load(p + lanes)};
  }
  static void put(R* block, int64_t point, P value) {
    R* p = block + 2 * lanes * point;
    store(p, value.re);
    store(p + lanes, value.im);
  }

  // Where a stage takes points from and where it puts them.
  struct FromBlock {
    const R* block;
    P operator()(int64_t point) const { return get(block, point); }
  };
  struct ToBlock {
    R* block;
    void operator()(int64_t point, P value) const { put(block, point, value); }
  };
  // Complex lines side by side.
  struct FromColumns {
    const R* in;
    int64_t step;
    bool turned;
    P operator()(int64_t point) const {
      P p = load_complex(in + point * step);
      return turned ? P{p.im, p.re} : p;
    }
  };
  struct ToColumns {
    R* out;
    int64_t step;
    const R* factors;
    bool turned;
    R scale;
    void operator()(int64_t point, P value) const {
      P p = value.scaled(scale);
      if (turned) p = {p.im, p.re};
      if (factors) p = p.times(load_complex(factors + point * step));
      store_complex(out + point * step, p);
    }
  };

  // `from` holds transforms of length `done` of the points / done subsequences; `to` gets those of
  // length done * radix: Y[k + p done] = sum over q of root^(q k) X_q[k] exp(-2 pi i p q / radix).
  template <int known_radix, class From, class To>
  static void stage(const FftLines<R>& job, int64_t any_radix, int64_t done, From from, To to) {
    const int64_t radix = known_radix ? known_radix : any_radix;
    const int64_t groups = job.points / (done * radix);
    for (int64_t k = 0; k < done; ++k) {
      for (int64_t j = 0; j < groups; ++j) {
        P t[known_radix ? known_radix : largest_fft_radix];
#pragma GCC unroll 8
        for (int64_t q = 0; q < radix; ++q) t[q] = from((q * groups + j) * done + k);
        if (k) {
          const R* root = job.roots;
#pragma GCC unroll 8
          for (int64_t q = 1; q < radix; ++q) {
            root += 2 * k * groups;
            t[q] = t[q].times(root[0], root[1]);
          }
        }
        if constexpr (known_radix == 2) transform2(t);
        else if constexpr (known_radix == 3) transform3<R>(t);
        else if constexpr (known_radix == 4) transform4(t);
        else if constexpr (known_radix == 5) transform5<R>(t);
        else if constexpr (known_radix == 8) transform8<R>(t);
        else transform_odd<R>(t, radix, job.roots, job.points / radix);
#pragma GCC unroll 8
        for (int64_t p = 0; p < radix; ++p) to(j * done * radix + k + p * done, t[p]);
      }
    }
  }
  template <class From, class To>
  static void stage_of(const FftLines<R>& job, int64_t radix, int64_t done, From from, To to) {
    switch (radix) {
      case 2: return stage<2>(job, radix, done, from, to);
      case 3: return stage<3>(job, radix, done, from, to);
      case 4: return stage<4>(job, radix, done, from, to);
      case 5: return stage<5>(job, radix, done, from, to);
      case 8: return stage<8>(job, radix, done, from, to);
      default: return stage<0>(job, radix, done, from, to);
    }
  }

  // ---- to and from a block

  static P load_complex(const R* p) {
    Parts<R> parts = load_pairs(p);
    return {parts.real, parts.imaginary};
  }
  static void store_complex(R* to, P p) { store_pairs(to, p.re, p.im); }

  static void gather(const FftLines<R>& job, const R* in, int64_t first, int64_t points,
                     int64_t count, R* to) {
    for (int64_t p = first; p < points; ++p)
      for (int64_t l = 0; l < lanes; ++l) {
        const R* from = in + l * job.in_line + p * job.in_step;
        to[2 * lanes * p + l] = l < count ? from[0] : R(0);
        to[2 * lanes * p + lanes + l] = l < count ? from[job.in_imag] : R(0);
      }
  }
  static void read(const FftLines<R>& job, int64_t line, int64_t points, int64_t count, R* to) {
    const R* in = job.in + line * job.in_line;
    if (count == lanes && job.in_step == 2 && job.in_imag == 1) {
      int64_t p = 0, bytes = sizeof(R);
      for (; p + lanes / 2 <= points; p += lanes / 2)
        transpose_square<R>(reinterpret_cast<const char*>(in + 2 * p), job.in_line * bytes,
                            reinterpret_cast<char*>(to + 2 * lanes * p), lanes * bytes);
      gather(job, in, p, points, count, to);
    } else if (job.in_line == 2 && job.in_imag == 1) {
      R padded[2 * lanes] = {};
      for (int64_t p = 0; p < points; ++p) {
        std::copy_n(in + p * job.in_step, 2 * count, padded);
        put(to, p, load_complex(padded));
      }
    } else {
      gather(job, in, 0, points, count, to);
    }
  }
  static void exchange_parts(const FftLines<R>& job, R* block) {
    for (int64_t p = 0; p < job.points; ++p) {
      P t = get(block, p);
      put(block, p, {t.im, t.re});
    }
  }

  // ---- real lines

  static void mix_pairs(const FftLines<R>& job, R* block) {
    const FftPairs<R>& pairs = *job.pairs;
    for (int64_t k = 1; 2 * k <= pairs.m; ++k) {
      P x = get(block, k), y = get(block, pairs.m - k);
      P even{x.re + y.re, x.im - y.im}, odd{x.re - y.re, x.im + y.im};
      P turned =
          odd.times(pairs.turns[2 * k] * pairs.turn_re, pairs.turns[2 * k + 1] * pairs.turn_im);
      P high = even - turned;
      put(block, pairs.m - k, P{high.re, -high.im}.scaled(pairs.factor));
      put(block, k, (even + turned).scaled(pairs.factor));
    }
  }
  static void mix_before(const FftLines<R>& job, R* block) {
    P first = get(block, 0), last = get(block, job.points);
    mix_pairs(job, block);
    put(block, 0, P{first.re + last.re, first.re - last.re}.scaled(job.ends));
  }
  static void mix_after(const FftLines<R>& job, R* block) {
    P first = get(block, 0);
    mix_pairs(job, block);
    put(block, 0, P{first.re + first.im, V{}}.scaled(job.ends));
    put(block, job.points, P{first.re - first.im, V{}}.scaled(job.ends));
  }

  static void scatter(const FftLines<R>& job, const R* from, int64_t first, int64_t points,
                      int64_t count, R* out) {
    for (int64_t p = first; p < points; ++p)
      for (int64_t l = 0; l < count; ++l) {
        R* to = out + l * job.out_line + p * job.out_step;
        to[0] = from[2 * lanes * p + l];
        to[job.out_imag] = from[2 * lanes * p + lanes + l];
      }
  }
  static void write(const FftLines<R>& job, R* from, int64_t line, int64_t points, int64_t count) {
    R* out = job.out + line * job.out_line;
    if (job.factors) multiply(job, from, line, count);
    if (count == lanes && job.out_step == 2 && job.out_imag == 1) {
      int64_t p = 0, bytes = sizeof(R);
      for (; p + lanes / 2 <= points; p += lanes / 2)
        transpose_square<R>(reinterpret_cast<const char*>(from + 2 * lanes * p), lanes * bytes,
                            reinterpret_cast<char*>(out + 2 * p), job.out_line * bytes);
      scatter(job, from, p, points, count, out);
    } else if (job.out_line == 2 && job.out_imag == 1) {
      R padded[2 * lanes];
      for (int64_t p = 0; p < points; ++p) {
        store_complex(padded, get(from, p));
        std::copy_n(padded, 2 * count, out + p * job.out_step);
      }
    } else {
      scatter(job, from, 0, points, count, out);
    }
  }
  static void multiply(const FftLines<R>& job, R* block, int64_t line, int64_t count) {
    for (int64_t p = 0; p < job.points; ++p)
      for (int64_t l = 0; l < count; ++l) {
        const R* f = job.factors + (line + l) * job.out_line + p * job.out_step;
        R &re = block[2 * lanes * p + l], &im = block[2 * lanes * p + lanes + l];
        R product = mul_add(re, f[0], -(im * f[job.out_imag]));
        im = mul_add(im, f[0], re * f[job.out_imag]);
        re = product;
      }
  }

  // The stages on `count` lines. Where lines lie side by side the first stage reads them itself,
  // and the last one writes them.
  static void transform(const FftLines<R>& job, int64_t line, int64_t count) {
    bool full = count == lanes && job.radix_count;
    bool before = job.pairs && job.mixes_first, after = job.pairs && !job.mixes_first;
    bool reads = full && !before && job.in_line == 2 && job.in_imag == 1,
         writes = full && !after && job.out_line == 2 && job.out_imag == 1;
    R *a = job.scratch, *b = a + 2 * lanes * job.points;
    FromColumns columns{job.in + line * job.in_line, job.in_step, job.turned_in};
    ToColumns results{job.out + line * job.out_line, job.out_step,
                      job.factors ? job.factors + line * job.out_line : nullptr, job.turned_out,
                      job.scale};
    if (!reads) {
      read(job, line, job.points + before, count, a);
      if (before) mix_before(job, a);
      if (job.turned_in) exchange_parts(job, a);
    }
    int64_t done = 1;
    for (int64_t i = 0; i < job.radix_count; ++i) {
      int64_t radix = job.radices[i];
      bool first = reads && i == 0, last = writes && i == job.radix_count - 1;
      if (first && last) stage_of(job, radix, done, columns, results);
      else if (first) stage_of(job, radix, done, columns, ToBlock{b});
      else if (last) stage_of(job, radix, done, FromBlock{a}, results);
      else stage_of(job, radix, done, FromBlock{a}, ToBlock{b});
      std::swap(a, b);
      done *= radix;
    }
    if (writes) return;
    if (job.scale != R(1))
      for (int64_t p = 0; p < job.points; ++p) put(a, p, get(a, p).scaled(job.scale));
    if (job.turned_out) exchange_parts(job, a);
    if (after) mix_after(job, a);
    write(job, a, line, job.points + after, count);
  }

  static void run(const FftLines<R>& job) {
    for (int64_t line = 0; line < job.lines; line += lanes) {
      int64_t count = std::min<int64_t>(lanes, job.lines - line);
      if (count < lanes && job.lines >= lanes && job.in != job.out) {
        line = job.lines - lanes;  // some lines once more: cheaper than a part of a block
        count = lanes;
      }
      transform(job, line, count);
    }
  }
};

// ---- pairs of points from both ends of a line

template <class R> struct Pairs {
  using V = vec<R>;
  static constexpr int lanes = Vector<R>::lanes, points = lanes / 2;

  template <int... lane> static V last_first(V v, std::integer_sequence<int, lane...>) {
    return shuffle<(lanes - 2 - (lane & ~1) + (lane & 1))...>(v, v);
  }
  template <int... lane> static V real_parts(V v, std::integer_sequence<int, lane...>) {
    return shuffle<(lane & ~1)...>(v, v);
  }
  template <int... lane> static V imaginary_parts(V v, std::integer_sequence<int, lane...>) {
    return shuffle<(lane | 1)...>(v, v);
  }
  template <int... lane> static V by_turns(R re, R im, std::integer_sequence<int, lane...>) {
    return V{(lane & 1 ? im : re)...};
  }

  static void run(const FftPairs<R>& job) {
    int64_t m = job.m, k = 1;
    const V conjugate = by_turns(1, -1, lane_list<R>);
    for (; 2 * k + 2 * points - 1 <= m; k += points) {  // the vectors do not meet
      int64_t mirrored = m - k - points + 1;
      V a = load(job.from + 2 * k),
        b = last_first(load(job.from + 2 * mirrored), lane_list<R>) * conjugate;
      V turn = load(job.turns + 2 * k), even = a + b, odd = a - b;
      V c = real_parts(turn, lane_list<R>) * job.turn_re,
        s = imaginary_parts(turn, lane_list<R>) * job.turn_im;
      V turned = mul_add(c, odd, -(s * swap_pairs(odd, lane_list<R>) * conjugate));
      store(job.to + 2 * k, (even + turned) * job.factor);
      store(job.to + 2 * mirrored,
            last_first((even - turned) * conjugate * job.factor, lane_list<R>));
    }
    for (; 2 * k <= m; ++k) {
      const R *x = job.from + 2 * k, *y = job.from + 2 * (m - k);
      R c = job.turns[2 * k] * job.turn_re, s = job.turns[2 * k + 1] * job.turn_im;
      R even_re = x[0] + y[0], even_im = x[1] - y[1], odd_re = x[0] - y[0], odd_im = x[1] + y[1];
      R turned_re = mul_add(c, odd_re, -(s * odd_im)), turned_im = mul_add(c, odd_im, s * odd_re);
      R *high = job.to + 2 * (m - k), *low = job.to + 2 * k;
      high[0] = (even_re - turned_re) * job.factor;
      high[1] = (turned_im - even_im) * job.factor;
      low[0] = (even_re + turned_re) * job.factor;
      low[1] = (even_im + turned_im) * job.factor;
    }
  }
};

template <class R> void multiply_pairs(const R* x, const R* y, R* to, int64_t n) {
  constexpr int64_t width = Vector<R>::lanes;
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    Parts<R> a = load_pairs(x + 2 * i), b = load_pairs(y + 2 * i);
    store_pairs(to + 2 * i, mul_add(a.real, b.real, -(a.imaginary * b.imaginary)),
                mul_add(a.real, b.imaginary, a.imaginary * b.real));
  }
  for (; i < n; ++i) {
    R re = mul_add(x[2 * i], y[2 * i], -(x[2 * i + 1] * y[2 * i + 1]));
    to[2 * i + 1] = mul_add(x[2 * i], y[2 * i + 1], x[2 * i + 1] * y[2 * i]);
    to[2 * i] = re;
  }
}

}  // namespace

void fft_lines_of_floats(const FftLines<float>& lines) { Block<float>::run(lines); }
void fft_lines_of_doubles(const FftLines<double>& lines) { Block<double>::run(lines); }
void fft_pairs_of_floats(const FftPairs<float>& pairs) { Pairs<float>::run(pairs); }
void fft_pairs_of_doubles(const FftPairs<double>& pairs) { Pairs<double>::run(pairs); }

void multiply_float_pairs(const float* x, const float* y, float* to, int64_t n) {
  multiply_pairs(x, y, to, n);
}
void multiply_double_pairs(const double* x, const double* y, double* to, int64_t n) {
  multiply_pairs(x, y, to, n);
}

}  // namespace rl::kernels::RL_ISA
