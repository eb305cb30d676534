// The samplers' loops that gain from SIMD.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// out[i] = low + span * (24 bits of words[i], or 53 of words[2i] and words[2i + 1], as a fraction),
// rounded once.
RL_ISA_KERNEL(uniform_floats, (const uint32_t* words, float* out, int64_t n, float low, float span))
RL_ISA_KERNEL(uniform_doubles,
              (const uint32_t* words, double* out, int64_t n, double low, double span))

// Turns blocks of 16 uniforms into 16 normals in place, bit for bit as PyTorch does with AVX2.
RL_ISA_KERNEL(normal_blocks, (float* data, int64_t blocks, float mean, float std))

}  // namespace rl::kernels
