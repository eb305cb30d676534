// One function per instruction set, chosen at start by what the processor has, or by
// RUSHLIGHT_ISA=sse42|avx2|avx512.
//
// A file `*.isa.cpp` is compiled once per instruction set, each time with RL_ISA set to the
// namespace (sse42, avx2, avx512, neon or generic) its functions live in:
//   header:   RL_ISA_KERNEL(softmax_rows, (const View& input, const View& out))
//   file:     namespace rl::kernels::RL_ISA { void softmax_rows(const View& input, const View& out)
//   {...} } caller:   kernels::softmax_rows(input, out);
// Such files must not define inline or template functions outside that namespace: the linker would
// keep one copy, perhaps the one for the wrong instruction set.
#pragma once

// X(set, ...) for each set of this build, least first. A build may compile one alone, as that for a
// processor without a set of its own does: `generic` names no instruction.
#if defined(RL_ISA_ONLY)
#define RL_EACH_ISA(X, ...) X(RL_ISA_ONLY, __VA_ARGS__)
#elif defined(__x86_64__)
#define RL_EACH_ISA(X, ...) X(sse42, __VA_ARGS__) X(avx2, __VA_ARGS__) X(avx512, __VA_ARGS__)
#elif defined(__aarch64__)
#define RL_EACH_ISA(X, ...) X(neon, __VA_ARGS__)
#else
#define RL_EACH_ISA(X, ...) X(generic, __VA_ARGS__)
#endif

namespace rl {

enum class Isa { generic, neon, sse42, avx2, avx512 };
Isa isa();  // in use

// Whether the set has instructions that widen binary16.
inline bool converts_halves() { return isa() != Isa::sse42 && isa() != Isa::generic; }

namespace kernels {
#define RL_PLUS_ONE(set, ...) +1
inline constexpr int isa_count = RL_EACH_ISA(RL_PLUS_ONE, );
#undef RL_PLUS_ONE
extern int isa_index;  // of the set in use

template <class Signature> struct IsaTable;
template <class... Args> struct IsaTable<void(Args...)> {
  void (*functions[isa_count])(Args...);
  void operator()(Args... args) const { functions[isa_index](args...); }
};
}  // namespace kernels

#define RL_DECLARE_IN(set, name, params) \
  namespace set {                        \
  void name params;                      \
  }
#define RL_KERNEL_OF(set, name, params) set::name,
#define RL_ISA_KERNEL(name, params)        \
  RL_EACH_ISA(RL_DECLARE_IN, name, params) \
  inline constexpr IsaTable<void params> name{{RL_EACH_ISA(RL_KERNEL_OF, name, params)}};

}  // namespace rl
