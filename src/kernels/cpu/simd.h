// GNU vectors of the instruction set that an *.isa.cpp file is compiled for; include from those
// alone. gcc keeps arrays of partial sums in memory, but vectors in registers.
#pragma once
#include <cstdint>
#include <cstring>

namespace rl::kernels::RL_ISA {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

template <class T> struct Vector {
  typedef T type __attribute__((vector_size(vector_bytes)));
  static constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));
};
template <class T> using vec = typename Vector<T>::type;

template <class T> vec<T> load(const T* p) {
  vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T> void store(T* p, vec<T> v) { std::memcpy(p, &v, sizeof v); }

}  // namespace rl::kernels::RL_ISA
