#include "kernels/isa.h"

#include <cstdlib>
#include <cstring>

#include "core/error.h"

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

int initial_index() {
  int index = static_cast<int>(best_isa());
  if (const char* wish = std::getenv("RUSHLIGHT_ISA"))
    for (int i = 0; i <= index; ++i)
      if (std::strcmp(wish, names[i]) == 0) return i;
  return index;
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

}  // namespace rl
