// How samplers draw: words into fractions, and fills of views from a Generator in memory order.
#pragma once
#include <algorithm>

#include "core/generator.h"
#include "core/interpreter.h"
#include "kernels/cpu/memory_order.h"
#include "kernels/cpu/random_loops.h"

namespace rl::kernels {

inline constexpr int64_t random_chunk = 512;  // elements whose random words are drawn at once
inline constexpr int64_t polled_elements = int64_t(1) << 16;  // between two looks for Ctrl-C

// Let go of while signals are handled, as a handler may draw from the generator too.
class GeneratorLock {
 public:
  explicit GeneratorLock(Generator& generator) : lock_(generator.mutex) {
    check(generator.device().is_cpu(), "Expected a 'cpu' device type for generator but found '",
          name(generator.device().type), "'");
  }
  void poll() {
    if (!interruption_.is_due()) return;
    lock_.unlock();
    Interruption::ask();
    lock_.lock();
  }

 private:
  std::unique_lock<std::mutex> lock_;
  Interruption interruption_;
};

// 24 or 53 random bits as a fraction in [0, 1), from one word or from two, the upper first.
inline float fraction24(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word & 0xffffffu)) * 0x1p-24f;
}
inline uint64_t join(const uint32_t* w) { return static_cast<uint64_t>(w[0]) << 32 | w[1]; }
inline int64_t bits53(const uint32_t* w) {
  return static_cast<int64_t>(join(w) & ((uint64_t(1) << 53) - 1));
}
inline double fraction53(const uint32_t* w) { return static_cast<double>(bits53(w)) * 0x1p-53; }
inline double fraction53(Generator& generator) {
  uint32_t w[2] = {generator.random(), generator.random()};
  return fraction53(w);
}

// n words at once.
inline void draw(Generator& generator, uint32_t* words, int64_t n) {
  generator.random(words, n, twist_words, temper_words);
}

// put(to, step, count, words) writes some elements: each takes `words` draws.
template <class T, int words, class Put>
void fill_chunks(const View& out, Generator& generator, Put put) {
  GeneratorLock lock(generator);
  uint32_t buffer[random_chunk * words];
  for_each_run<1>({&out}, [&](auto data, auto step, int64_t n) {
    T* to = reinterpret_cast<T*>(data[0]);
    for (int64_t begin = 0; begin < n; begin += random_chunk) {
      if (begin % polled_elements == 0) lock.poll();
      int64_t count = std::min(random_chunk, n - begin);
      draw(generator, buffer, count * words);
      put(to + begin * step[0], step[0], count, buffer);
    }
  });
}

// out[i] = f(words).
template <class T, int words, class F> void fill(const View& out, Generator& generator, F f) {
  fill_chunks<T, words>(out, generator,
                        [=](T* to, int64_t step, int64_t count, const uint32_t* drawn) {
                          for (int64_t i = 0; i < count; ++i) to[i * step] = f(drawn + i * words);
                        });
}

// out[i] = f(): each element takes as many draws as it likes.
template <class T, class F> void fill_serially(const View& out, Generator& generator, F f) {
  GeneratorLock lock(generator);
  for_each_run<1>({&out}, [&](auto data, auto step, int64_t n) {
    T* to = reinterpret_cast<T*>(data[0]);
    for (int64_t i = 0; i < n; ++i) {
      if (i % polled_elements == 0) lock.poll();
      to[i * step[0]] = f();
    }
  });
}

// out[i] = f(in[i]), likewise.
template <class T, class P, class F>
void map_serially(const View& out, const View& in, Generator& generator, F f) {
  GeneratorLock lock(generator);
  for_each_run<2>({&out, &in}, [&](auto data, auto step, int64_t n) {
    T* to = reinterpret_cast<T*>(data[0]);
    const P* from = reinterpret_cast<const P*>(data[1]);
    for (int64_t i = 0; i < n; ++i) {
      if (i % polled_elements == 0) lock.poll();
      to[i * step[0]] = f(from[i * step[1]]);
    }
  });
}

// out[i] = f(a[i], b[i]), likewise.
template <class T, class F>
void zip_serially(const View& out, const View& a, const View& b, Generator& generator, F f) {
  GeneratorLock lock(generator);
  for_each_run<3>({&out, &a, &b}, [&](auto data, auto step, int64_t n) {
    T* to = reinterpret_cast<T*>(data[0]);
    const T *x = reinterpret_cast<const T*>(data[1]), *y = reinterpret_cast<const T*>(data[2]);
    for (int64_t i = 0; i < n; ++i) {
      if (i % polled_elements == 0) lock.poll();
      to[i * step[0]] = f(x[i * step[1]], y[i * step[2]]);
    }
  });
}

// One draw of the normal distribution, without the lock.
double scalar_normal(Generator& generator, double mean, double std);

}  // namespace rl::kernels
