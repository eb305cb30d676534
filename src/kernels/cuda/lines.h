// Lines along one dim of a view, for kernels that take a line each.
#pragma once
#include "kernels/cuda/launch.h"

namespace rl::cuda {

// The beginnings of a view's lines along `dim`, how many elements one has and the step in it.
inline Strided lines_of(const View& v, int64_t dim, int64_t& count, int64_t& step, const char* op) {
  Dims sizes, strides;
  for (int64_t d = 0; d < v.ndim; ++d)
    if (d != dim) {
      sizes.push_back(v.sizes[d]);
      strides.push_back(v.strides[d]);
    }
  count = v.ndim ? v.sizes[dim] : 1;
  step = v.ndim ? v.strides[dim] : 1;
  return strided(
      View{v.data, sizes.data(), strides.data(), sizes.size(), product(sizes), v.dtype, v.device},
      op);
}

}  // namespace rl::cuda
