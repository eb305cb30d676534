// Instructions beyond an instruction set, which single kernels use where they pay.
#pragma once

namespace rl::kernels {

// Products of pairs of bfloat16, added up in float (vdpbf16ps, bfdot), where they are twice as fast
// as FMA: on AMD's and ARM's processors. On Intel's they have half its rate, and
// RUSHLIGHT_ISA=avx512_bf16 has to ask for them; RUSHLIGHT_ISA=avx512 or neon does without.
bool has_bfloat16_products();

// Whether floats are rounded to bfloat16 in one instruction (vcvtne2ps2bf16).
bool has_bfloat16_conversions();

// Products of four unsigned bytes by four signed ones, added up in int32 (vpdpbusd, usdot).
bool has_byte_products();

// The matrix unit of Intel's processors (AMX), for bfloat16 and bytes. RUSHLIGHT_ISA=avx512 does
// without.
bool has_matrix_unit();

// Whether the third cache takes what the second one gives up, and soon has it again, as AMD's: a
// copy of 4 MB and a pass over it took twice as long through the memory.
bool third_cache_follows();

}  // namespace rl::kernels
