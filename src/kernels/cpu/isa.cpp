#include "kernels/cpu/isa.h"

#include <cstdlib>
#include <cstring>

#include "kernels/cpu/units.h"
#include "kernels/instruction_set.h"
#ifdef __x86_64__
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace rl {
namespace {

#define RL_SET(set, ...) Isa::set,
constexpr Isa sets[] = {RL_EACH_ISA(RL_SET, )};
#undef RL_SET
#define RL_QUOTED(text) #text
#define RL_NAME(set, ...) RL_QUOTED(set),
constexpr const char* names[] = {RL_EACH_ISA(RL_NAME, )};
#undef RL_NAME
#undef RL_QUOTED

bool wishes(const char* what) {
  const char* wish = std::getenv("RUSHLIGHT_ISA");
  return wish && std::strcmp(wish, what) == 0;
}

#ifdef __x86_64__
bool processor_has(Isa set) {
  __builtin_cpu_init();
  if (set == Isa::avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  if (set == Isa::avx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
  return true;
}

bool choose_bfloat16_products() {
  if (!processor_has(Isa::avx512) || !__builtin_cpu_supports("avx512bf16")) return false;
  return wishes("avx512_bf16") || (__builtin_cpu_is("amd") && !wishes("avx512"));
}

bool choose_bfloat16_conversions() { return __builtin_cpu_supports("avx512bf16"); }

bool choose_byte_products() { return __builtin_cpu_supports("avx512vnni"); }

// Linux gives the unit's registers, of 8 KB, to those who ask.
bool choose_matrix_unit() {
#ifdef __linux__
  constexpr unsigned all = 1u << 22 | 1u << 24 | 1u << 25;  // bfloat16, tiles, bytes
  constexpr long ask_for_state = 0x1023, tile_data = 18;    // ARCH_REQ_XCOMP_PERM
  unsigned a, b, c, d;
  if (wishes("avx512") || wishes("avx512_bf16") || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  return (d & all) == all && syscall(SYS_arch_prctl, ask_for_state, tile_data) == 0;
#else
  return false;
#endif
}

bool is_amd() {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
}
#else
bool is_amd() { return false; }
bool choose_matrix_unit() { return false; }
bool choose_bfloat16_conversions() { return false; }
bool processor_has(Isa) { return true; }  // neon is part of every aarch64

#if defined(__aarch64__) && defined(__linux__)
// `neon` as a wish does without, as `avx512` does.
bool choose_bfloat16_products() { return getauxval(AT_HWCAP2) & HWCAP2_BF16 && !wishes("neon"); }
bool choose_byte_products() { return getauxval(AT_HWCAP2) & HWCAP2_I8MM; }
#else
bool choose_bfloat16_products() { return false; }
bool choose_byte_products() { return false; }
#endif
#endif

// The set that is asked for, if the processor has it; otherwise the best it has.
int initial_index() {
  int index = 0;
  for (int i = 0; i < kernels::isa_count; ++i)
    if (processor_has(sets[i])) {
      index = i;
      if (wishes(names[i])) break;
    }
  return index;
}

bool has_products(bool chosen) { return chosen && (isa() == Isa::avx512 || isa() == Isa::neon); }

}  // namespace

int kernels::isa_index = initial_index();
Isa isa() { return sets[kernels::isa_index]; }

const char* kernels::instruction_set() { return names[kernels::isa_index]; }

std::string kernels::complaint_of_chosen_set() {
  const char* wish = std::getenv("RUSHLIGHT_ISA");
  if (!wish || !*wish || wishes(instruction_set())) return "";
  const bool with_products = wishes("avx512_bf16");
  if (with_products && has_bfloat16_products()) return "";
  std::string text = "RUSHLIGHT_ISA=" + std::string(wish) + ": ";
  bool known = with_products;
  for (const char* name : names) known = known || wishes(name);
  if (known) return text + "this processor does not have it; " + instruction_set() + " is used";
  text += "expected one of";
  for (const char* name : names) text += std::string(" ") + name;
#ifdef __x86_64__
  text += " avx512_bf16";
#endif
  return text + "; " + instruction_set() + " is used";
}

bool kernels::has_bfloat16_products() {
  static const bool has = choose_bfloat16_products();
  return has_products(has);
}

bool kernels::has_bfloat16_conversions() {
  static const bool has = choose_bfloat16_conversions();
  return has && isa() == Isa::avx512;
}

bool kernels::has_byte_products() {
  static const bool has = choose_byte_products();
  return has_products(has);
}

bool kernels::has_matrix_unit() {
  static const bool has = choose_matrix_unit();
  return has && isa() == Isa::avx512;
}

bool kernels::third_cache_follows() { return is_amd(); }

}  // namespace rl
