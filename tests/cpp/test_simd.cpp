// The vectors of one instruction set beside plain loops: each function of simd.h that has
// instructions of its own gives the same bits. Compiled once per set, as *.isa.cpp files are.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "kernels/cpu/simd.h"
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/reduced_floats.h"

using namespace rl;
using namespace rl::kernels::RL_ISA;

namespace {

#define REQUIRE(condition)                                              \
  do {                                                                  \
    if (!(condition)) {                                                 \
      std::printf("line %d: %s does not hold\n", __LINE__, #condition); \
      std::exit(1);                                                     \
    }                                                                   \
  } while (false)

uint32_t next_bits() {  // a xorshift generator
  static uint32_t state = 2463534242u;
  state ^= state << 13, state ^= state >> 17, state ^= state << 5;
  return state;
}
float next_float() { return static_cast<float>(static_cast<int32_t>(next_bits())) * 1e-8f; }

template <class T> bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (a != a && b != b);
}

template <class T> void multiplies_and_adds() {
  constexpr int n = Vector<T>::lanes;
  T x[n], y[n], z[n], out[n];
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < n; ++i) x[i] = next_float(), y[i] = next_float(), z[i] = -x[i] * y[i];
    store(out, mul_add(load(x), load(y), load(z)));
    for (int i = 0; i < n; ++i) REQUIRE(same(out[i], math::mul_add<T>(x[i], y[i], z[i])));
    store(out, mul_add(load(x), y[0], load(z)));
    for (int i = 0; i < n; ++i) REQUIRE(same(out[i], math::mul_add<T>(x[i], y[0], z[i])));
  }
}

template <class T> void moves_lanes() {
  constexpr int n = Vector<T>::lanes;
  T x[4 * n], part[n];
  for (int i = 0; i < 4 * n; ++i) x[i] = next_float();
  for (int count = 1; count < n; ++count) {
    vec<T> v = load_part(x, count);
    for (int i = 0; i < n; ++i) REQUIRE(same(v[i], i < count ? x[i] : T(0)));
    for (T& value : part) value = T(7);
    store_part(part, load(x), count);
    for (int i = 0; i < n; ++i) REQUIRE(same(part[i], i < count ? x[i] : T(7)));
  }
  vec<LaneOf<T>> at{};
  for (int i = 0; i < n; ++i) at[i] = i % 3 == 2 ? -1 - i : (7 * i + 1) % (4 * n);
  vec<T> gathered = gather<T, LaneOf<T>>(x, at);
  for (int i = 0; i < n; ++i) REQUIRE(same(gathered[i], at[i] < 0 ? T(0) : x[at[i]]));
  vec<T> all = broadcast<vec<T>>(T(-0.0));
  for (int i = 0; i < n; ++i) REQUIRE(same(all[i], T(-0.0)));
  vec<T> once = read_once<vec<T>>(x);
  keep_in_register(once);
  auto low = lower_half(once), high = upper_half(once);
  for (int i = 0; i < n / 2; ++i) REQUIRE(same(low[i], x[i]) && same(high[i], x[n / 2 + i]));
  alignas(64) T streamed[n];
  stream(streamed, once);
  for (int i = 0; i < n; ++i) REQUIRE(same(streamed[i], x[i]));
}

// Every number that a half can hold, and floats between them.
void converts_halves_exactly() {
  constexpr int n = Vector<float>::lanes;
  half bits[n];
  float values[n];
  for (uint32_t first = 0; first < 65536; first += n) {
    for (int i = 0; i < n; ++i) bits[i].bits = static_cast<uint16_t>(first + i);
    store(values, load_wide(bits));
    for (int i = 0; i < n; ++i) REQUIRE(same(values[i], half::decode(bits[i].bits)));
  }
  for (int round = 0; round < 20000; ++round) {
    for (float& value : values) value = bits_to_float(next_bits());
    if (round % 2)
      for (float& value : values) value = std::ldexp(next_float(), int(next_bits() % 40) - 24);
    store_narrow(bits, load(values));
    for (int i = 0; i < n; ++i)
      REQUIRE(values[i] != values[i] || bits[i].bits == half::encode(values[i]));
  }
}

void adds_pairs_of_integers() {
  constexpr int n = Vector<uint32_t>::lanes;
  int16_t x[2 * n], y[2 * n];
  for (int i = 0; i < 2 * n; ++i)
    x[i] = static_cast<int16_t>(next_bits()), y[i] = static_cast<int16_t>(next_bits() >> 1);
  vec<uint32_t> a, b, sum;
  std::memcpy(&a, x, sizeof a), std::memcpy(&b, y, sizeof b);
  for (int i = 0; i < n; ++i) sum[i] = next_bits();
  vec<uint32_t> result = add_int16_pairs(sum, a, b);
  for (int i = 0; i < n; ++i)
    REQUIRE(result[i] == sum[i] + static_cast<uint32_t>(x[2 * i] * y[2 * i]) +
                             static_cast<uint32_t>(x[2 * i + 1] * y[2 * i + 1]));
}

#ifdef RL_NEON
void adds_bytes() {
  constexpr int n = Vector<uint32_t>::lanes;
  uint8_t x[4 * n];
  int8_t y[4 * n];
  for (int i = 0; i < 4 * n; ++i)
    x[i] = static_cast<uint8_t>(next_bits()), y[i] = static_cast<int8_t>(next_bits());
  vec<uint32_t> a, b;
  std::memcpy(&a, x, sizeof a), std::memcpy(&b, y, sizeof b);
  vec<uint32_t> result = add_byte_groups(vec<uint32_t>{} + 5u, a, b);
  for (int i = 0; i < n; ++i) {
    int expected = 5;
    for (int k = 4 * i; k < 4 * i + 4; ++k) expected += x[k] * y[k];
    REQUIRE(result[i] == static_cast<uint32_t>(expected));
  }
}

void adds_pairs_of_bfloat16() {
  constexpr int n = Vector<float>::lanes;
  bfloat16 x[2 * n], y[2 * n];
  // Small integers, whose products and sums are exact.
  for (int i = 0; i < 2 * n; ++i)
    x[i] = static_cast<float>(next_bits() % 17) - 8, y[i] = static_cast<float>(next_bits() % 9) - 4;
  vec<float> a, b, result;
  std::memcpy(&a, x, sizeof a), std::memcpy(&b, y, sizeof b);
  result = add_bfloat16_pairs(vec<float>{} + 3.0f, a, b);
  for (int i = 0; i < n; ++i)
    REQUIRE(result[i] == 3.0f + x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1]);
}

void uses_what_the_processor_has() {
  unsigned long has = getauxval(AT_HWCAP2);
  if (has & HWCAP2_I8MM) adds_bytes();
  if (has & HWCAP2_BF16) adds_pairs_of_bfloat16();
}
#else
void uses_what_the_processor_has() {}
#endif

}  // namespace

int main() {
  multiplies_and_adds<float>();
  multiplies_and_adds<double>();
  moves_lanes<float>();
  moves_lanes<double>();
  converts_halves_exactly();
  adds_pairs_of_integers();
  uses_what_the_processor_has();
  std::puts("passed");
}
