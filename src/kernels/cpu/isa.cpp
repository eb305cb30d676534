#include "kernels/cpu/isa.h"

#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "kernels/cpu/units.h"

namespace rl {
namespace {

constexpr const char* names[] = {"sse42", "avx2", "avx512"};

Isa cpu_isa() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return Isa::AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return Isa::AVX2;
  return Isa::SSE42;
}

constexpr const char* with_bfloat16 = "avx512_bf16";  // AVX512, and products of bfloat16

bool wishes(const char* what) {
  const char* wish = std::getenv("RUSHLIGHT_ISA");
  return wish && std::strcmp(wish, what) == 0;
}

int initial_index() {
  int index = static_cast<int>(best_isa());
  for (int i = 0; i <= index; ++i)
    if (wishes(names[i])) return i;
  return index;
}

bool choose_bfloat16_products() {
  if (best_isa() != Isa::AVX512 || !__builtin_cpu_supports("avx512bf16")) return false;
  return wishes(with_bfloat16) || (__builtin_cpu_is("amd") && !wishes(name(Isa::AVX512)));
}

}  // namespace

Isa best_isa() {
  static Isa best = cpu_isa();
  return best;
}

int kernels::isa_index = initial_index();
Isa isa() { return static_cast<Isa>(kernels::isa_index); }
const char* name(Isa i) { return names[static_cast<int>(i)]; }

void set_isa(Isa i) {
  check(i <= best_isa(), "set_isa: this CPU cannot run ", name(i));
  kernels::isa_index = static_cast<int>(i);
}

bool kernels::has_bfloat16_products() {
  static const bool has = choose_bfloat16_products();
  return has && isa() == Isa::AVX512;
}

bool kernels::has_byte_products() {
  static const bool has = __builtin_cpu_supports("avx512vnni");
  return has && isa() == Isa::AVX512;
}

}  // namespace rl
