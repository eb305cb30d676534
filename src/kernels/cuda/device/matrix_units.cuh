// Tensor cores: products of 16-bit floats with sums in float, and what brings their operands from
// shared memory. A warp computes together; lane l has row l / 4 (and that plus 8) and columns
// 2 (l % 4) and the next (and those plus 8) of a fragment.
#pragma once
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

// 16 by 16, row by row: (row, column), (row + 8, column), (row, column + 8), (row + 8, column + 8),
// two neighbours each.
struct FragmentA {
  uint32_t parts[4];
};
// 16 by 8, column by column: rows (2 (l % 4), ...) and those plus 8 of column l / 4.
struct FragmentB {
  uint32_t parts[2];
};
// Two of those that lie beside each other.
struct FragmentsB {
  FragmentB first, second;
};

// Two neighbours as one word, the first in its lower half.
template <class T> __device__ uint32_t pack_pair(float first, float second);

#ifdef RL_EMULATOR

template <class T> uint32_t pack_pair(float first, float second) {
  return T(first).bits | static_cast<uint32_t>(T(second).bits) << 16;
}
template <class T> float part_of(uint32_t word, int place) {
  T value(0.0f);
  value.bits = static_cast<uint16_t>(word >> (16 * place));
  return static_cast<float>(value);
}

// sums (16 by 8: rows and columns as of FragmentA's first two parts) += a b.
template <class T> void multiply_add(float (&sums)[4], const FragmentA& a, const FragmentB& b) {
  FragmentA all_a[32];
  FragmentB all_b[32];
  emulator::gather(a, all_a);
  emulator::gather(b, all_b);
  int lane = static_cast<int>(emulator::lane());
  for (int i = 0; i < 4; ++i) {
    int row = lane / 4, column = lane % 4 * 2 + i % 2;
    float sum = sums[i];
    for (int k = 0; k < 16; ++k)
      sum += part_of<T>(all_a[row * 4 + k % 8 / 2].parts[k / 8 * 2 + i / 2], k % 2) *
             part_of<T>(all_b[column * 4 + k % 8 / 2].parts[k / 8], k % 2);
    sums[i] = sum;
  }
}

// Four matrices of 8 by 8, of which lane l names the row l % 8 of matrix l / 8.
template <class T, bool transposed> void load_matrices(const T* row, uint32_t (&parts)[4]) {
  const T* rows[32];
  emulator::gather(row, rows);
  int lane = static_cast<int>(emulator::lane());
  for (int i = 0; i < 4; ++i) {
    const T* from = rows[i * 8 + lane / 4] + lane % 4 * 2;
    T first = from[0], second = from[1];
    if (transposed) {
      first = rows[i * 8 + lane % 4 * 2][lane / 4];
      second = rows[i * 8 + lane % 4 * 2 + 1][lane / 4];
    }
    parts[i] = first.bits | static_cast<uint32_t>(second.bits) << 16;
  }
}

// 16 bytes to shared memory, which are there after wait_for_copies and a barrier; zeros unless
// `inside`.
inline void copy_async(void* to, const void* from, bool inside) {
  if (inside) __builtin_memcpy(to, from, 16);
  else __builtin_memset(to, 0, 16);
}
inline void commit_copies() {}
template <int left> void wait_for_copies() {}

inline float power_of_two(float x) { return __builtin_exp2f(x); }
inline float larger_number(float a, float b) { return a > b || b != b ? a : b; }

#else

template <> __device__ inline uint32_t pack_pair<bfloat16>(float first, float second) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
template <> __device__ inline uint32_t pack_pair<half>(float first, float second) {
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

#define RL_MULTIPLY_ADD(type)                                                              \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                      \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"       \
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                \
               : "r"(a.parts[0]), "r"(a.parts[1]), "r"(a.parts[2]), "r"(a.parts[3]),       \
                 "r"(b.parts[0]), "r"(b.parts[1]))
template <class T>
__device__ void multiply_add(float (&sums)[4], const FragmentA& a, const FragmentB& b) {
  if constexpr (std::is_same_v<T, half>) RL_MULTIPLY_ADD("f16");
  else RL_MULTIPLY_ADD("bf16");
}
#undef RL_MULTIPLY_ADD

__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
template <class T, bool transposed>
__device__ void load_matrices(const T* row, uint32_t (&parts)[4]) {
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
                 : "r"(shared_address(row))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ inline void copy_async(void* to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(inside ? 16 : 0)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int left> __device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

__device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
// The other where one is NaN.
__device__ inline float larger_number(float a, float b) {
  float result;
  asm("max.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

#endif

// Rows [row, row + 16) and columns [column, column + 16) of a matrix whose rows are `step` apart.
template <class T> __device__ FragmentA load_a(const T* matrix, int step, int row, int column) {
  int lane = threadIdx.x & 31;
  FragmentA a;
  load_matrices<T, false>(matrix + (row + lane % 16) * step + column + lane / 16 * 8, a.parts);
  return a;
}
// The transpose of rows [row, row + 16), columns [column, column + 16): 16 by 8 twice.
template <class T>
__device__ FragmentsB load_rows_as_columns(const T* matrix, int step, int row, int column) {
  int lane = threadIdx.x & 31;
  uint32_t parts[4];
  load_matrices<T, false>(
      matrix + (row + lane % 8 + lane / 16 * 8) * step + column + lane / 8 % 2 * 8, parts);
  return {{{parts[0], parts[1]}}, {{parts[2], parts[3]}}};
}
// Rows [row, row + 16), columns [column, column + 16), 16 by 8 twice.
template <class T>
__device__ FragmentsB load_columns(const T* matrix, int step, int row, int column) {
  int lane = threadIdx.x & 31;
  uint32_t parts[4];
  load_matrices<T, true>(matrix + (row + lane % 16) * step + column + lane / 16 * 8, parts);
  return {{{parts[0], parts[1]}}, {{parts[2], parts[3]}}};
}

}  // namespace rl::cuda
