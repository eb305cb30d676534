// Products of warpgroups, four warps that compute together with the tensor instructions of compute
// capability 9.0: 64 rows at a time, of which each warp has 16, with lanes as in matrix_units.cuh.
// Operands lie in shared memory in tiles of 64 columns (128 bytes) whose packs of 16 bytes are
// exchanged within each 8 rows, so that neither rows nor columns meet in one bank. Tiles begin at
// multiples of 1024 bytes; wider matrices are several behind each other.
#pragma once
#include "kernels/cuda/device/matrix_units.cuh"

namespace rl::cuda {

// Where an element of a matrix of `rows` rows lies.
template <int rows> __device__ constexpr unsigned group_place(unsigned row, unsigned column) {
  return column / 64 * rows * 64 + row * 64 + ((column % 64 / 8) ^ (row % 8)) * 8 + column % 8;
}

#ifdef RL_EMULATOR

inline void begin_products() {}
inline void end_products() {}
inline void show_to_products() {}
template <int n> void settle(float (&)[n][4]) {}

template <class T> float group_element(const T* at) { return static_cast<float>(*at); }

template <class T, int b_rows, int n>
void group_multiply_add(float (&sums)[n][4], const FragmentA& a, const T* b, int k, bool add) {
  FragmentA all[32];
  emulator::gather(a, all);
  int lane = static_cast<int>(emulator::lane());
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < 4; ++i) {
      int row = lane / 4, column = j * 8 + lane % 4 * 2 + i % 2;
      if (!add) sums[j][i] = 0;
      for (int s = 0; s < 16; ++s)
        sums[j][i] += part_of<T>(all[row * 4 + s % 8 / 2].parts[s / 8 * 2 + i / 2], s % 2) *
                      group_element(b + group_place<b_rows>(k + s, column));
    }
}
template <class T, int a_rows, int b_rows, int n>
void group_multiply_add(float (&sums)[n][4], const T* a, int row, const T* b, int k, bool add) {
  int lane = static_cast<int>(emulator::lane()), own = row + threadIdx.x / 32 % 4 * 16 + lane / 4;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < 4; ++i) {
      if (!add) sums[j][i] = 0;
      for (int s = 0; s < 16; ++s)
        sums[j][i] += group_element(a + group_place<a_rows>(own + i / 2 * 8, k + s)) *
                      group_element(b + group_place<b_rows>(j * 8 + lane % 4 * 2 + i % 2, k + s));
    }
}

#else

// Other architectures have no such instructions, and no kernel that needs them is launched there.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define RL_WARPGROUP_ASM(...) asm volatile(__VA_ARGS__)
#else
#define RL_WARPGROUP_ASM(...) __trap()
#endif

// Before the first product of several, after registers that they take were written.
__device__ inline void begin_products() {
  RL_WARPGROUP_ASM("wgmma.fence.sync.aligned;" ::: "memory");
}
// Waits for all of them.
__device__ inline void end_products() {
  RL_WARPGROUP_ASM("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                   ::: "memory");
}
// Before the barrier behind which products read what this thread wrote to shared memory.
__device__ inline void show_to_products() {
  RL_WARPGROUP_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}
// No use of the sums moves before the wait.
template <int n> __device__ void settle(float (&sums)[n][4]) {
#pragma unroll
  for (int j = 0; j < n; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sums[j][i])::"memory");
}

// Of a tile's element: from there `leading` bytes to the next 64 columns of what is read by rows,
// and 1024 bytes to the next 8 rows.
__device__ inline uint64_t tile_descriptor(const void* at, int leading) {
  return uint64_t(1) << 62 | uint64_t(1024 >> 4) << 32 | uint64_t(leading >> 4) << 16 |
         (shared_address(at) & 0x3ffff) >> 4;
}

#define RL_FOUR(s, j) "+f"(s[j][0]), "+f"(s[j][1]), "+f"(s[j][2]), "+f"(s[j][3])
#define RL_SUMS_64(s)                                                                       \
  RL_FOUR(s, 0), RL_FOUR(s, 1), RL_FOUR(s, 2), RL_FOUR(s, 3), RL_FOUR(s, 4), RL_FOUR(s, 5), \
      RL_FOUR(s, 6), RL_FOUR(s, 7)
#define RL_SUMS_128(s)                                                               \
  RL_SUMS_64(s), RL_FOUR(s, 8), RL_FOUR(s, 9), RL_FOUR(s, 10), RL_FOUR(s, 11),       \
      RL_FOUR(s, 12), RL_FOUR(s, 13), RL_FOUR(s, 14), RL_FOUR(s, 15)
#define RL_NAMES_64                                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "   \
  "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define RL_NAMES_128                                                                   \
  RL_NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, "    \
  "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, "   \
  "%61, %62, %63"
// `names` and `sums` are one of those; the numbers of the operands behind them follow.
#define RL_GROUP_OF_REGISTERS(columns, type, a0, a1, a2, a3, b_, add_)                        \
  RL_WARPGROUP_ASM("{\n.reg .pred p;\nsetp.ne.b32 p, %" #add_ ", 0;\n"                           \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type          \
               " {" RL_NAMES_##columns "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b_   \
               ", p, 1, 1, 1;\n}"                                                             \
               : RL_SUMS_##columns(sums)                                                      \
               : "r"(a.parts[0]), "r"(a.parts[1]), "r"(a.parts[2]), "r"(a.parts[3]),          \
                 "l"(descriptor), "r"(int(add))                                               \
               : "memory")
#define RL_GROUP_OF_TILES(columns, type, a_, b_, add_)                                        \
  RL_WARPGROUP_ASM("{\n.reg .pred p;\nsetp.ne.b32 p, %" #add_ ", 0;\n"                           \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type          \
               " {" RL_NAMES_##columns "}, %" #a_ ", %" #b_ ", p, 1, 1, 0, 0;\n}"             \
               : RL_SUMS_##columns(sums)                                                      \
               : "l"(left), "l"(right), "r"(int(add))                                         \
               : "memory")

// sums (64 by columns), or zeros unless `add`, += a (the warp's 16 by 16) times rows [k, k + 16) of
// a matrix of `b_rows` rows.
template <class T, int b_rows, int n>
__device__ void group_multiply_add(float (&sums)[n][4], const FragmentA& a, const T* b, int k,
                                   bool add) {
  static_assert(n == 8 || n == 16, "sums have 64 or 128 columns");
  [[maybe_unused]] uint64_t descriptor = tile_descriptor(b + k * 64, b_rows * 128);
  if constexpr (n == 8 && std::is_same_v<T, half>)
    RL_GROUP_OF_REGISTERS(64, "f16", 32, 33, 34, 35, 36, 37);
  else if constexpr (n == 8) RL_GROUP_OF_REGISTERS(64, "bf16", 32, 33, 34, 35, 36, 37);
  else if constexpr (std::is_same_v<T, half>)
    RL_GROUP_OF_REGISTERS(128, "f16", 64, 65, 66, 67, 68, 69);
  else RL_GROUP_OF_REGISTERS(128, "bf16", 64, 65, 66, 67, 68, 69);
}
// The same of rows [row, row + 64) of a matrix of `a_rows` rows, and columns of both.
template <class T, int a_rows, int b_rows, int n>
__device__ void group_multiply_add(float (&sums)[n][4], const T* a, int row, const T* b, int k,
                                   bool add) {
  static_assert(n == 8 || n == 16, "sums have 64 or 128 columns");
  [[maybe_unused]] uint64_t left = tile_descriptor(a + (k / 64 * a_rows + row) * 64 + k % 64, 16);
  [[maybe_unused]] uint64_t right = tile_descriptor(b + k / 64 * b_rows * 64 + k % 64, 16);
  if constexpr (n == 8 && std::is_same_v<T, half>) RL_GROUP_OF_TILES(64, "f16", 32, 33, 34);
  else if constexpr (n == 8) RL_GROUP_OF_TILES(64, "bf16", 32, 33, 34);
  else if constexpr (std::is_same_v<T, half>) RL_GROUP_OF_TILES(128, "f16", 64, 65, 66);
  else RL_GROUP_OF_TILES(128, "bf16", 64, 65, 66);
}

#undef RL_FOUR
#undef RL_SUMS_64
#undef RL_SUMS_128
#undef RL_NAMES_64
#undef RL_NAMES_128
#undef RL_GROUP_OF_REGISTERS
#undef RL_GROUP_OF_TILES
#undef RL_WARPGROUP_ASM

#endif

}  // namespace rl::cuda
