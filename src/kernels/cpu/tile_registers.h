// The registers of the processor's matrix unit (AMX), each a tile of 16 rows of 64 bytes; for
// *.isa.cpp files. Only where kernels::has_matrix_unit().
#pragma once
#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr bool may_have_unit = true;
#else
constexpr bool may_have_unit = false;
#endif

// The unit's registers, shaped for whole tiles, and given back at the end of the scope: the system
// saves what is in use whenever it changes threads.
class UnitScope {
 public:
  UnitScope() {
#if defined(__AVX512F__)
    struct alignas(64) {
      uint8_t palette = 1, start = 0, unused[14] = {};
      uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } const shape;
    __asm__ volatile("ldtilecfg %0" : : "m"(shape));
#endif
  }
  ~UnitScope() {
#if defined(__AVX512F__)
    __asm__ volatile("tilerelease");
#endif
  }
  UnitScope(const UnitScope&) = delete;
};

// Registers 0 to 3 hold the sums of two tiles of rows by two of columns, 4 and 5 tiles of the left
// side, 6 and 7 of the right one.
template <int tile> RL_INLINE void unit_load(const char* from, int64_t row) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row), "i"(tile) : "memory");
}
template <int tile> RL_INLINE void unit_store(float* to, int64_t row) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                   :
                   : "r"(to), "r"(row * 4), "i"(tile)
                   : "memory");
}
template <int tile> RL_INLINE void unit_clear() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
}
// What is multiplied: bfloat16, or bytes, of which those of either side are signed or not.
enum class UnitOf { bfloat16, signed_signed, signed_unsigned, unsigned_signed, unsigned_unsigned };
template <UnitOf of, int sums, int left, int right> RL_INLINE void unit_multiply() {
#define RL_UNIT(name) \
  __asm__ volatile(name " %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(left), "i"(right))
  if constexpr (of == UnitOf::bfloat16) RL_UNIT("tdpbf16ps");
  else if constexpr (of == UnitOf::signed_signed) RL_UNIT("tdpbssd");
  else if constexpr (of == UnitOf::signed_unsigned) RL_UNIT("tdpbsud");
  else if constexpr (of == UnitOf::unsigned_signed) RL_UNIT("tdpbusd");
  else RL_UNIT("tdpbuud");
#undef RL_UNIT
}

// f(kind), a constant, of bytes.
template <class F> void for_bytes(UnitOf kind, F f) {
  using std::integral_constant;
  if (kind == UnitOf::signed_signed) f(integral_constant<UnitOf, UnitOf::signed_signed>());
  else if (kind == UnitOf::signed_unsigned) f(integral_constant<UnitOf, UnitOf::signed_unsigned>());
  else if (kind == UnitOf::unsigned_signed) f(integral_constant<UnitOf, UnitOf::unsigned_signed>());
  else f(integral_constant<UnitOf, UnitOf::unsigned_unsigned>());
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
