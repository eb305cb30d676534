// The samplers' loops that gain from SIMD.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// The words of MT19937: its next state, and the numbers of some words of one.
RL_ISA_KERNEL(twist_words, (uint32_t* state))
RL_ISA_KERNEL(temper_words, (const uint32_t* words, uint32_t* out, int64_t n))

// out[i] = whether the 53 bits of words[2i] and words[2i + 1] are below the threshold.
RL_ISA_KERNEL(below_threshold, (const uint32_t* words, uint8_t* out, int64_t n, int64_t threshold))

// out[i] = low + span * (24 bits of words[i], or 53 of words[2i] and words[2i + 1], as a fraction),
// rounded once.
RL_ISA_KERNEL(uniform_floats, (const uint32_t* words, float* out, int64_t n, float low, float span))
RL_ISA_KERNEL(uniform_doubles,
              (const uint32_t* words, double* out, int64_t n, double low, double span))

// Turns blocks of 16 uniforms into 16 normals in place, bit for bit as PyTorch does with AVX2.
RL_ISA_KERNEL(normal_blocks, (float* data, int64_t blocks, float mean, float std))

}  // namespace rl::kernels
