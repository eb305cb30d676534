// The CUDA programming model on a CPU, included before a kernel's source. It includes none of the
// standard library, which would take half of the time that a small kernel takes to compile: kernels
// have that of a device, standard.cuh.
//
// One thread of the host runs one block at a time; the block's threads are fibres. The order in
// which they run is chosen by a seed: 0 runs them in step; others let one warp run as far as it can
// go, which is where a missing barrier shows.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define RL_EMULATOR 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static thread_local
#define __constant__ static
#define __restrict__ __restrict
#define RL_DYNAMIC_SHARED(T, name) \
  T* name = reinterpret_cast<T*>(emulator::current_block->dynamic_shared)

namespace emulator {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

enum class State { NotStarted, Ready, AtBarrier, AtWarp, Done };

struct Thread {
  void* stack_pointer = nullptr;
  State state = State::NotStarted;
  Index index;
  unsigned lane = 0, warp = 0, generation = 0;
};
// Lanes of a warp that exchange values: those of one mask. value[generation & 1][lane] is what each
// brought.
struct Meeting {
  unsigned mask = 0, arrived = 0, generation = 0;
  uint64_t value[2][32][2];
};
// The block that runs, as its threads see it.
struct Block {
  Thread* current = nullptr;
  Extent grid, block;
  Index index;
  int barrier_result = 0;
  unsigned char* dynamic_shared = nullptr;
};

#define RL_EXPORTED __attribute__((visibility("default")))
extern RL_EXPORTED thread_local Block* current_block;

void yield();
RL_EXPORTED void barrier(unsigned kind, unsigned value);
RL_EXPORTED Meeting& meet(unsigned mask, const void* value, size_t size);
[[noreturn]] RL_EXPORTED void fail(const char* message);
void run_grid(void (*kernel)(void**), void** arguments, Extent grid, Extent block, size_t shared,
              uint64_t seed);

template <class T> T shuffle(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 16, "a shuffled value has at most 16 bytes");
  Thread* self = current_block->current;
  Meeting& meeting = meet(mask, &value, sizeof(T));
  if (!(mask >> source & 1)) fail("a shuffle reads a lane outside its mask");
  T result;
  __builtin_memcpy(&result, meeting.value[self->generation & 1][source], sizeof(T));
  return result;
}
inline unsigned lane() { return current_block->current->lane; }
// What each lane of the warp brings.
template <class T> void gather(const T& value, T (&all)[32]) {
  static_assert(sizeof(T) <= 16, "a value that lanes exchange has at most 16 bytes");
  Thread* self = current_block->current;
  Meeting& meeting = meet(0xffffffffu, &value, sizeof(T));
  for (int l = 0; l < 32; ++l)
    __builtin_memcpy(&all[l], meeting.value[self->generation & 1][l], sizeof(T));
}

// A kernel's arguments by size, and how to call it with them: from its type alone.
struct KernelDescription {
  const char* name;
  int arguments;
  const size_t* sizes;
  void (*call)(void**);
};
template <class... A> struct Sizes {
  static inline const size_t value[sizeof...(A) + 1] = {sizeof(A)..., 0};
};
template <size_t... I> struct Places {};
template <class Done, size_t more> struct CountUp;
template <size_t... I, size_t more>
struct CountUp<Places<I...>, more> : CountUp<Places<I..., sizeof...(I)>, more - 1> {};
template <size_t... I> struct CountUp<Places<I...>, 0> {
  using type = Places<I...>;
};
template <auto kernel> struct Trampoline;
template <class... A, void (*kernel)(A...)> struct Trampoline<kernel> {
  template <size_t... I> static void expand(void** a, Places<I...>) {
    (void)a;
    kernel(*static_cast<A*>(a[I])...);
  }
  static void call(void** a) { expand(a, typename CountUp<Places<>, sizeof...(A)>::type{}); }
  static KernelDescription description(const char* name) {
    return {name, static_cast<int>(sizeof...(A)), Sizes<A...>::value, &call};
  }
};

}  // namespace emulator

#define threadIdx (emulator::current_block->current->index)
#define blockIdx (emulator::current_block->index)
#define blockDim (emulator::current_block->block)
#define gridDim (emulator::current_block->grid)

inline void __syncthreads() { emulator::barrier(0, 0); }
inline int __syncthreads_and(int p) {
  emulator::barrier(1, p);
  return emulator::current_block->barrier_result;
}
inline int __syncthreads_or(int p) {
  emulator::barrier(2, p);
  return emulator::current_block->barrier_result;
}
inline int __syncthreads_count(int p) {
  emulator::barrier(3, p);
  return emulator::current_block->barrier_result;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::meet(mask, "", 0); }
template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  unsigned lane = emulator::lane();
  return emulator::shuffle(mask, value, (lane & ~(width - 1u)) | (source & (width - 1u)));
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int = 32) {
  return emulator::shuffle(mask, value, emulator::lane() ^ bits);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  unsigned lane = emulator::lane();
  bool inside = (lane & (width - 1u)) + by < static_cast<unsigned>(width);
  return emulator::shuffle(mask, value, inside ? lane + by : lane);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  unsigned lane = emulator::lane();
  return emulator::shuffle(mask, value, (lane & (width - 1u)) >= by ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  emulator::Thread* self = emulator::current_block->current;
  uint64_t value = predicate != 0;
  emulator::Meeting& meeting = emulator::meet(mask, &value, sizeof value);
  unsigned result = 0;
  for (unsigned l = 0; l < 32; ++l)
    if ((mask >> l & 1) && meeting.value[self->generation & 1][l][0]) result |= 1u << l;
  return result;
}
inline void __threadfence() {}
// Blocks run one after another, and a fibre is left at a yield alone: these are atomic as they are.
template <class T> T atomicAdd(T* at, T value) {
  T old = *at;
  *at = old + value;
  return old;
}
template <class T> T atomicMax(T* at, T value) {
  T old = *at;
  if (value > old) *at = value;
  return old;
}
template <class T> T atomicMin(T* at, T value) {
  T old = *at;
  if (value < old) *at = value;
  return old;
}
template <class T> T atomicCAS(T* at, T expected, T value) {
  T old = *at;
  if (old == expected) *at = value;
  return old;
}
template <class T> T atomicExch(T* at, T value) {
  T old = *at;
  *at = value;
  return old;
}
template <class T> T atomicOr(T* at, T value) {
  T old = *at;
  *at = old | value;
  return old;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
