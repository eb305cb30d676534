#include "kernels/random.h"

#include <cmath>

#include "kernels/cpu/random_fill.h"
#include "kernels/cpu/random_loops.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {

namespace {

constexpr double pi = 3.14159265358979323846;

// A complex view as one of twice as many reals.
struct RealView {
  Dims sizes, strides;
  View view;
  explicit RealView(const View& z) : sizes(z.shape()), strides(z.stride()), view(z) {
    for (int64_t& s : strides) s *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    view.sizes = sizes.data();
    view.strides = strides.data();
    view.ndim += 1;
    view.numel *= 2;
    view.dtype = to_real(z.dtype);
  }
};

}  // namespace

namespace {

// `count` uniforms of [low, low + span): one word each gives 24 bits, for double two give 53.
void draw_uniforms(float* out, int64_t count, float low, float span, Generator& generator,
                   GeneratorLock& lock) {
  uint32_t words[random_chunk];
  for (int64_t chunk = 1; count > 0; count -= random_chunk, out += random_chunk, ++chunk) {
    if (chunk % (polled_elements / random_chunk) == 0) lock.poll();
    int64_t n = std::min(random_chunk, count);
    draw(generator, words, n);
    uniform_floats(words, out, n, low, span);
  }
}
void draw_uniforms(double* out, int64_t count, double low, double span, Generator& generator,
                   GeneratorLock& lock) {
  uint32_t words[2 * random_chunk];
  for (int64_t chunk = 1; count > 0; count -= random_chunk, out += random_chunk, ++chunk) {
    if (chunk % (polled_elements / random_chunk) == 0) lock.poll();
    int64_t n = std::min(random_chunk, count);
    draw(generator, words, 2 * n);
    uniform_doubles(words, out, n, low, span);
  }
}

}  // namespace

// A value that rounds up to `to` becomes `from`.
void uniform(const View& out, double from, double to, Generator& generator) {
  if (is_complex(out.dtype)) return uniform(RealView(out).view, from, to, generator);
  visit_floating("uniform", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    const C low = static_cast<C>(from), span = static_cast<C>(to) - low;
    const C excluded = convert<C>(convert<T>(to)), substitute = convert<C>(convert<T>(from));
    C values[random_chunk];
    GeneratorLock lock(generator);
    for_each_run<1>({&out}, [&](auto data, auto step, int64_t n) {
      T* to = reinterpret_cast<T*>(data[0]);
      for (int64_t begin = 0; begin < n; begin += random_chunk) {
        if (begin % polled_elements == 0) lock.poll();
        int64_t count = std::min(random_chunk, n - begin);
        draw_uniforms(values, count, low, span, generator, lock);
        auto rounded = [&](int64_t i) {
          C value = convert<C>(convert<T>(values[i]));
          return convert<T>(value == excluded ? substitute : value);
        };
        if (step[0] == 1)  // in vectors
          for (int64_t i = 0; i < count; ++i) to[begin + i] = rounded(i);
        else
          for (int64_t i = 0; i < count; ++i) to[(begin + i) * step[0]] = rounded(i);
      }
    });
  });
}

// The Box-Muller transform one value at a time, in double whatever the dtype; the second value of
// each pair waits in the generator.
double scalar_normal(Generator& generator, double mean, double std) {
  double value;
  if (generator.next_double_normal) {
    value = *generator.next_double_normal;
    generator.next_double_normal.reset();
  } else {
    double u1 = fraction53(generator), u2 = fraction53(generator);
    double radius = std::sqrt(-2.0 * std::log1p(-u2)), theta = 2.0 * pi * u1;
    generator.next_double_normal = radius * std::sin(theta);
    value = radius * std::cos(theta);
  }
  return std::fma(value, std, mean);
}

namespace {

// The Box-Muller transform in blocks of 16, as random_loops.h has it for float: uniforms 0-7 give
// the radii and 8-15 the angles.
void box_muller(double* data, int64_t blocks, double mean, double std) {
  for (double* x = data; x < data + 16 * blocks; x += 16) {
    for (int i = 0; i < 8; ++i) {
      double radius = std::sqrt(-2.0 * std::log(1.0 - x[i])), theta = 2.0 * pi * x[i + 8];
      x[i] = std::fma(radius * std::cos(theta), std, mean);
      x[i + 8] = std::fma(radius * std::sin(theta), std, mean);
    }
  }
}

void box_muller(float* data, int64_t blocks, float mean, float std) {
  normal_blocks(data, blocks, mean, std);
}

// Contiguous out of at least 16 elements. A last partial block is drawn anew as the last 16
// elements; float and double draw (and drop) its uniforms once more, the 16-bit floats do not.
template <class T>
void fill_normal(T* out, int64_t n, double mean, double std, Generator& generator,
                 GeneratorLock& lock) {
  using C = compute_t<T>;
  constexpr bool in_place = std::is_same_v<T, C>;
  C m = static_cast<C>(mean), s = static_cast<C>(std), values[random_chunk];
  auto draw = [&](int64_t begin, int64_t count) {
    C* x = in_place ? reinterpret_cast<C*>(out + begin) : values;
    draw_uniforms(x, count, 0, 1, generator, lock);
    box_muller(x, count / 16, m, s);
    if constexpr (!in_place)
      for (int64_t i = 0; i < count; ++i) out[begin + i] = T(x[i]);
  };
  const int64_t whole = n / 16 * 16;
  for (int64_t i = 0; i < whole; i += random_chunk) {
    if (i % polled_elements == 0) lock.poll();
    draw(i, std::min(random_chunk, whole - i));
  }
  if (n == whole) return;
  if (in_place) draw_uniforms(values, n - whole, 0, 1, generator, lock);
  draw(n - 16, 16);
}

}  // namespace

void normal(const View& out, double mean, double std, Generator& generator) {
  if (is_complex(out.dtype))  // the variance is shared by the two parts
    return normal(RealView(out).view, mean, std / std::sqrt(2.0), generator);
  visit_floating("normal", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (out.numel >= 16 && out.contiguous()) {
      GeneratorLock lock(generator);
      fill_normal(out.ptr<T>(), out.numel, mean, std, generator, lock);
    } else {
      fill_serially<T>(out, generator,
                       [&] { return convert<T>(scalar_normal(generator, mean, std)); });
    }
  });
}

namespace {
// 1 or 0 without a branch, which random bits would make a slow one.
template <class T> T from_bool(bool value) {
  if constexpr (is_reduced_v<T>) {
    const T one = 1.0f;
    T result;
    result.bits = static_cast<uint16_t>(value * one.bits);
    return result;
  } else {
    return static_cast<T>(value);
  }
}
}  // namespace

// x < p for the 53-bit fraction x; in integers, which is exact: bits < ceil(p 2^53).
void bernoulli(const View& out, double p, Generator& generator) {
  int64_t threshold = static_cast<int64_t>(std::ceil(p * 0x1p53));
  visit_real("bernoulli", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_chunks<T, 2>(
        out, generator, [&](T* to, int64_t step, int64_t count, const uint32_t* words) {
          uint8_t below[random_chunk];
          T values[random_chunk];
          below_threshold(words, below, count, threshold);
          convert_contiguous(DType::UInt8, out.dtype, below, step == 1 ? to : values, count);
          for (int64_t i = 0; step != 1 && i < count; ++i) to[i * step] = values[i];
        });
  });
}

// A double probability meets a 53-bit fraction, any other a 24-bit one.
void bernoulli_each(const View& out, const View& p, Generator& generator) {
  visit_real("bernoulli", out.dtype, [&](auto out_tag) {
    using T = typename decltype(out_tag)::type;
    visit_floating("bernoulli", p.dtype, [&](auto p_tag) {
      using P = typename decltype(p_tag)::type;
      using C = compute_t<P>;
      map_serially<T, P>(out, p, generator, [&](P element) {
        C probability = convert<C>(element);
        check(probability >= 0 && probability <= 1,
              "bernoulli: expected probabilities in [0, 1], got ", probability);
        C x;
        if constexpr (std::is_same_v<P, double>) x = fraction53(generator);
        else x = fraction24(generator.random());
        return from_bool<T>(x < probability);
      });
    });
  });
}

void geometric(const View& out, double p, Generator& generator) {
  visit<float, double, half, bfloat16, int64_t, int32_t, int16_t, int8_t, uint8_t>(
      "geometric", out.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        double scale = std::log1p(-p);
        fill<T, 2>(out, generator, [=](const uint32_t* w) {
          return convert<T>(std::ceil(std::log(fraction53(w)) / scale));
        });
      });
}

void exponential(const View& out, double lambda, Generator& generator) {
  visit_floating("exponential", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    double scale = -1.0 / lambda;
    fill<T, 2>(out, generator,
               [=](const uint32_t* w) { return convert<T>(scale * std::log1p(-fraction53(w))); });
  });
}

void cauchy(const View& out, double median, double sigma, Generator& generator) {
  visit_floating("cauchy", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill<T, 2>(out, generator, [=](const uint32_t* w) {
      return convert<T>(std::fma(sigma, std::tan(pi * (fraction53(w) - 0.5)), median));
    });
  });
}

void log_normal(const View& out, double mean, double std, Generator& generator) {
  visit_floating("log_normal", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_serially<T>(out, generator,
                     [&] { return convert<T>(std::exp(scalar_normal(generator, mean, std))); });
  });
}

namespace {

// The precision of T's integers: it holds every one up to 2^digits.
template <class T> constexpr int digits() {
  if constexpr (std::is_same_v<T, half>) return 11;
  else if constexpr (std::is_same_v<T, bfloat16>) return 8;
  else return std::numeric_limits<compute_t<T>>::digits;
}
template <class T> constexpr double largest() {
  if constexpr (std::is_same_v<T, half>) return 65504;
  else if constexpr (std::is_same_v<T, bfloat16>) return 3.3895313892515355e38;
  else return static_cast<double>(std::numeric_limits<compute_t<T>>::max());
}
int64_t exponent_of(int64_t value) {  // floor(log2(|value|)), 0 for 0
  uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return magnitude ? 63 - __builtin_clzll(magnitude) : 0;
}

// Bounds beyond a float's precision move inwards to integers that it holds, so that rounding cannot
// leave the interval.
template <class T> int64_t round_trip(int64_t value) { return convert<int64_t>(convert<T>(value)); }
template <class T> int64_t representable_from(int64_t from) {
  int64_t next = round_trip<T>(from + 1);
  return next < from ? next + (int64_t(1) << (exponent_of(from + 1) - digits<T>() + 1)) : from;
}
template <class T> int64_t representable_to(int64_t to) {
  int64_t last = round_trip<T>(to - 1);
  return last >= to ? last - (int64_t(1) << (exponent_of(to - 1) - digits<T>() + 1)) : to;
}

// Raises unless T reaches from `from` to `last`.
template <class T> void check_bounds(int64_t from, int64_t last) {
  bool above, below;
  if constexpr (is_integral_element_v<T>) {
    using Limits = std::numeric_limits<compute_t<T>>;
    auto within = [](int64_t v) {
      return v >= static_cast<int64_t>(Limits::lowest()) &&
             v <= static_cast<int64_t>(Limits::max());
    };
    above = within(from);
    below = within(last) && from <= last;
  } else {
    above = static_cast<double>(from) >= -largest<T>();
    below = static_cast<double>(last) <= largest<T>();
  }
  check(above, "random_: from is out of bounds for ", dtype_of<T>, ": [", from, ", ", last, "]");
  check(below, "random_: to - 1 is out of bounds for ", dtype_of<T>, ": [", from, ", ", last, "]");
}

// base + a word modulo `range`; ranges from 2^28 on take two words, which keeps the skew under 5%.
template <class T>
void fill_range(const View& out, uint64_t range, int64_t base, Generator& generator) {
  auto shift = [base](uint64_t offset) {
    return convert<T>(static_cast<int64_t>(offset + static_cast<uint64_t>(base)));
  };
  if (range >= uint64_t(1) << 28) {
    fill<T, 2>(out, generator, [=](const uint32_t* w) { return shift(join(w) % range); });
  } else {
    uint32_t narrow = static_cast<uint32_t>(range);
    fill<T, 1>(out, generator, [=](const uint32_t* w) { return shift(*w % narrow); });
  }
}

template <class T> constexpr uint64_t natural_range() {
  if constexpr (is_integral_element_v<T>)
    return uint64_t(std::numeric_limits<compute_t<T>>::max()) + 1;
  else return (uint64_t(1) << digits<T>()) + 1;
}

}  // namespace

void random_from_to(const View& out, int64_t from, int64_t to, Generator& generator) {
  check(from < to, "random_: expected 'from' to be less than 'to', got from=", from,
        " and to=", to);
  visit_real("random_", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!is_integral_element_v<T>) {
      from = representable_from<T>(from);
      to = representable_to<T>(to);
      check(from < to, "random_: no ", dtype_of<T>, " lies between the bounds");
    }
    check_bounds<T>(from, to - 1);
    fill_range<T>(out, static_cast<uint64_t>(to) - static_cast<uint64_t>(from), from, generator);
  });
}

void random_from(const View& out, int64_t from, Generator& generator) {
  if (from == std::numeric_limits<int64_t>::lowest()) {
    visit<int64_t, double, float, bfloat16>("random_", out.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      fill<T, 2>(out, generator,
                 [](const uint32_t* w) { return convert<T>(static_cast<int64_t>(join(w))); });
    });
    return;
  }
  visit_real("random_", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    int64_t last;
    if constexpr (is_integral_element_v<T>) {
      last = static_cast<int64_t>(std::numeric_limits<compute_t<T>>::max());
    } else {
      last = int64_t(1) << digits<T>();
      if (from < last) from = representable_from<T>(from);
      check(from < last, "random_: from=", from, " exceeds the integers of ", dtype_of<T>);
    }
    check_bounds<T>(from, last);
    uint64_t range = static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1;
    fill_range<T>(out, range, from, generator);
  });
}

void random_natural(const View& out, Generator& generator) {
  visit_real("random_", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr uint64_t range = natural_range<T>();
    auto to_element = [](uint64_t value) { return convert<T>(static_cast<int64_t>(value)); };
    if constexpr (sizeof(T) == 8)
      fill<T, 2>(out, generator, [=](const uint32_t* w) { return to_element(join(w) % range); });
    else fill<T, 1>(out, generator, [=](const uint32_t* w) { return to_element(*w % range); });
  });
}

}  // namespace rl::kernels
