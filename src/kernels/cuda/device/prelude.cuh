// What every kernel includes. Compiled by NVRTC, where functions without a mark are the device's,
// and by the host's compiler for the simulator.
#pragma once
#ifdef RL_DEVICE
#include "standard.cuh"
#endif
#include "core/number.h"
#include "kernels/cuda/device/fault.h"
#include "kernels/cuda/device/parameters.h"
#include "math/formula.h"

#ifndef RL_DYNAMIC_SHARED
#define RL_DYNAMIC_SHARED(T, name)                                  \
  extern __shared__ __align__(1024) unsigned char dynamic_shared[]; \
  T* name = reinterpret_cast<T*>(dynamic_shared)
#endif

namespace rl::cuda {

// What sums of T are kept in: float for 16-bit floats, int64 for integers.
template <class T> struct accumulator {
  using type = std::conditional_t<is_integral_element_v<T>, int64_t, compute_t<T>>;
};
template <class T> using accumulate_t = typename accumulator<T>::type;

__device__ inline int64_t thread_id() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t thread_count() { return int64_t(gridDim.x) * blockDim.x; }

template <class T> __device__ T load_as(const void* data, int dtype, int64_t i) {
  switch (dtype) {
    case ElementBool: return convert<T>(static_cast<const Bool*>(data)[i]);
    case ElementUInt8: return convert<T>(static_cast<const uint8_t*>(data)[i]);
    case ElementInt8: return convert<T>(static_cast<const int8_t*>(data)[i]);
    case ElementInt16: return convert<T>(static_cast<const int16_t*>(data)[i]);
    case ElementInt32: return convert<T>(static_cast<const int32_t*>(data)[i]);
    case ElementInt64: return convert<T>(static_cast<const int64_t*>(data)[i]);
    case ElementFloat16: return convert<T>(static_cast<const half*>(data)[i]);
    case ElementBFloat16: return convert<T>(static_cast<const bfloat16*>(data)[i]);
    case ElementFloat32: return convert<T>(static_cast<const float*>(data)[i]);
    case ElementFloat64: return convert<T>(static_cast<const double*>(data)[i]);
    case ElementComplex64: return convert<T>(static_cast<const complex64*>(data)[i]);
    default: return convert<T>(static_cast<const complex128*>(data)[i]);
  }
}
template <class T> __device__ void store_as(void* data, int dtype, int64_t i, T value) {
  switch (dtype) {
    case ElementBool: static_cast<Bool*>(data)[i] = convert<Bool>(value); break;
    case ElementUInt8: static_cast<uint8_t*>(data)[i] = convert<uint8_t>(value); break;
    case ElementInt8: static_cast<int8_t*>(data)[i] = convert<int8_t>(value); break;
    case ElementInt16: static_cast<int16_t*>(data)[i] = convert<int16_t>(value); break;
    case ElementInt32: static_cast<int32_t*>(data)[i] = convert<int32_t>(value); break;
    case ElementInt64: static_cast<int64_t*>(data)[i] = convert<int64_t>(value); break;
    case ElementFloat16: static_cast<half*>(data)[i] = convert<half>(value); break;
    case ElementBFloat16: static_cast<bfloat16*>(data)[i] = convert<bfloat16>(value); break;
    case ElementFloat32: static_cast<float*>(data)[i] = convert<float>(value); break;
    case ElementFloat64: static_cast<double*>(data)[i] = convert<double>(value); break;
    case ElementComplex64: static_cast<complex64*>(data)[i] = convert<complex64>(value); break;
    default: static_cast<complex128*>(data)[i] = convert<complex128>(value);
  }
}

// An index of an int64 or int32 tensor.
__device__ inline int64_t load_index(const Strided& v, int64_t offset) {
  return v.dtype == ElementInt64   ? static_cast<const int64_t*>(v.data)[offset]
         : v.dtype == ElementInt32 ? static_cast<const int32_t*>(v.data)[offset]
                                   : load_as<int64_t>(v.data, v.dtype, offset);
}

// Neighbours that are read or written at once.
template <class T, int count> struct __align__(sizeof(T) * count) Pack {
  T values[count];
};

// Where the i-th element in row-major order lies.
__device__ inline int64_t offset_of(const Strided& v, int64_t i) {
  if (v.ndim == 1) return i * v.strides[0];
  int64_t offset = 0;
  if (v.numel <= 0x7fffffff) {
    unsigned rest = static_cast<unsigned>(i);
    for (int d = v.ndim - 1; d >= 0; --d) {
      unsigned size = static_cast<unsigned>(v.sizes[d]), next = rest / size;
      offset += (rest - next * size) * v.strides[d];
      rest = next;
    }
    return offset;
  }
  for (int d = v.ndim - 1; d >= 0; --d) {
    int64_t next = i / v.sizes[d];
    offset += (i - next * v.sizes[d]) * v.strides[d];
    i = next;
  }
  return offset;
}

template <int N>
__device__ inline void strided_offsets(const StridedOperands<N>& w, int64_t i, int64_t (&offsets)[N]) {
  for (int k = 0; k < N; ++k) offsets[k] = 0;
  if (w.narrow) {
    unsigned rest = static_cast<unsigned>(i);
    for (int d = w.ndim - 1; d >= 0; --d) {
      unsigned size = static_cast<unsigned>(w.sizes[d]), next = rest / size;
      int64_t place = rest - next * size;
      for (int k = 0; k < N; ++k) offsets[k] += place * w.strides[k][d];
      rest = next;
    }
  } else {
    for (int d = w.ndim - 1; d >= 0; --d) {
      int64_t next = i / w.sizes[d], place = i - next * w.sizes[d];
      for (int k = 0; k < N; ++k) offsets[k] += place * w.strides[k][d];
      i = next;
    }
  }
}

// The first thread that finds something writes it down; the launch goes on without what is wrong.
__device__ inline void report(FaultPlace place, int kind, int64_t value, int64_t size,
                              int64_t dim) {
  auto* f = static_cast<Fault*>(place.at);
  if (atomicCAS(&f->claimed, 0u, 1u)) return;
  f->kind = kind;
  f->op = place.op;
  f->call = place.call;
  f->value = value;
  f->size = size;
  f->dim = dim;
}

// ---- sums over a block, in an order that the number of threads alone decides

constexpr int block_threads = 256;

template <class T> struct Sum {
  static __device__ T start() { return T(0); }
  static __device__ T join(T a, T b) { return a + b; }
};
template <class T> struct Largest {
  static __device__ T start() {
    if constexpr (math::is_float_v<T>) return -math::infinity<T>;
    else return std::numeric_limits<T>::lowest();
  }
  static __device__ T join(T a, T b) { return math::maximum(a, b); }
};

// A value of any type from the lane `by` above, word by word.
template <class T> __device__ T shuffle_down(T value, unsigned by) {
  constexpr int words = (sizeof(T) + 3) / 4;
  unsigned parts[words] = {};
  __builtin_memcpy(parts, &value, sizeof(T));
  for (int i = 0; i < words; ++i) parts[i] = __shfl_down_sync(0xffffffffu, parts[i], by);
  T result;
  __builtin_memcpy(&result, parts, sizeof(T));
  return result;
}

// Every thread of the block, which has whole warps, gets the result. All threads of the block must come here.
template <class T, class Op> __device__ T block_reduce(T value, Op) {
  __shared__ __align__(16) unsigned char memory[32 * sizeof(T)];
  T* parts = reinterpret_cast<T*>(memory);
  __syncthreads();  // the last use of `parts` is over
  for (int step = 16; step > 0; step /= 2)
    value = Op::join(value, shuffle_down(value, step));
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  T result = parts[0];
  for (int w = 1; w < warps; ++w) result = Op::join(result, parts[w]);
  return result;
}
template <class T> __device__ T block_sum(T value) { return block_reduce(value, Sum<T>()); }

// The same over the threads of a row: of a warp, where the block has several rows of 32 threads.
template <class T, class Op> __device__ T row_reduce(T value, Op op) {
  if (blockDim.x > 32) return block_reduce(value, op);
  for (int step = 16; step > 0; step /= 2)
    value = Op::join(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

// ---- atomic addition to elements of any type

template <class T> __device__ void add_at(T* at, T value) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    atomicAdd(at, value);
  } else if constexpr (is_complex_v<T>) {
    auto* parts = reinterpret_cast<real_t<T>*>(at);
    atomicAdd(parts, value.real());
    atomicAdd(parts + 1, value.imag());
  } else if constexpr (sizeof(T) == 8) {
    atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
  } else if constexpr (sizeof(T) == 4) {
    atomicAdd(reinterpret_cast<unsigned*>(at), static_cast<unsigned>(value));
  } else {  // within the word that it lies in
    auto address = reinterpret_cast<uintptr_t>(at);
    auto* word = reinterpret_cast<unsigned*>(address & ~uintptr_t(3));
    unsigned shift = 8 * static_cast<unsigned>(address & 3);
    unsigned mask = (sizeof(T) == 2 ? 0xffffu : 0xffu) << shift, old = *word, seen;
    do {
      seen = old;
      unsigned bits = (seen & mask) >> shift;
      T current;
      __builtin_memcpy(&current, &bits, sizeof(T));
      T sum;
      if constexpr (std::is_same_v<T, Bool>) sum = Bool(current || value);
      else sum = static_cast<T>(static_cast<compute_t<T>>(current) + static_cast<compute_t<T>>(value));
      unsigned fresh = 0;
      __builtin_memcpy(&fresh, &sum, sizeof(T));
      old = atomicCAS(word, seen, (seen & ~mask) | fresh << shift);
    } while (old != seen);
  }
}

}  // namespace rl::cuda
