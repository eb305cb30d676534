// One function per instruction set, chosen at start by cpuid (or RUSHLIGHT_ISA=sse42|avx2|avx512).
//
// A file `*.isa.cpp` is compiled once per instruction set, each time with RL_ISA set to the
// namespace (sse42, avx2 or avx512) its functions live in:
//   header:   RL_ISA_KERNEL(softmax_rows, (const View& input, const View& out))
//   file:     namespace rl::kernels::RL_ISA { void softmax_rows(const View& input, const View& out)
//   {...} } caller:   kernels::softmax_rows(input, out);
// Such files must not define inline or template functions outside that namespace: the linker would
// keep one copy, perhaps the one for the wrong instruction set.
#pragma once

namespace rl {

enum class Isa { SSE42, AVX2, AVX512 };
Isa isa();            // in use
Isa best_isa();       // what this CPU and this build can run
void set_isa(Isa i);  // RuntimeError if the CPU or the build lacks it
const char* name(Isa i);

namespace kernels {
extern int isa_index;

template <class Signature> struct IsaTable;
template <class... Args> struct IsaTable<void(Args...)> {
  void (*functions[3])(Args...);
  void operator()(Args... args) const { functions[isa_index](args...); }
};
}  // namespace kernels

// A development build may compile one set alone: RL_ISA_ONLY is its namespace.
#ifdef RL_ISA_ONLY
#define RL_ISA_KERNEL(name, params)            \
  namespace RL_ISA_ONLY {                      \
  void name params;                            \
  }                                            \
  inline constexpr IsaTable<void params> name{ \
      {RL_ISA_ONLY::name, RL_ISA_ONLY::name, RL_ISA_ONLY::name}};
#else
#define RL_ISA_KERNEL(name, params) \
  namespace sse42 {                 \
  void name params;                 \
  }                                 \
  namespace avx2 {                  \
  void name params;                 \
  }                                 \
  namespace avx512 {                \
  void name params;                 \
  }                                 \
  inline constexpr IsaTable<void params> name{{sse42::name, avx2::name, avx512::name}};
#endif

}  // namespace rl
