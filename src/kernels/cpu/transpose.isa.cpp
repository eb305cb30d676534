#include "kernels/transpose.h"

#include <utility>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int64_t lanes = Vector<float>::lanes;

// Exchanges, between rows `apart` from each other, the elements whose column differs in that bit.
template <int apart, int... column>
void exchange(vec<float>* rows, std::integer_sequence<int, column...>) {
  constexpr int n = static_cast<int>(lanes);
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) {
    if (r & apart) continue;
    vec<float> a = rows[r], b = rows[r + apart];
    rows[r] = __builtin_shufflevector(a, b, (column & apart ? n + column - apart : column)...);
    rows[r + apart] =
        __builtin_shufflevector(a, b, (column & apart ? n + column : column + apart)...);
  }
}

void square(const float* from, int64_t from_step, float* to, int64_t to_step) {
  constexpr auto columns = std::make_integer_sequence<int, static_cast<int>(lanes)>();
  vec<float> rows[lanes];
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) rows[r] = load(from + r * from_step);
  exchange<1>(rows, columns);
  exchange<2>(rows, columns);
  if constexpr (lanes > 4) exchange<4>(rows, columns);
  if constexpr (lanes > 8) exchange<8>(rows, columns);
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) store(to + r * to_step, rows[r]);
}

void rest(const float* from, int64_t from_step, float* to, int64_t to_step, int64_t rows,
          int64_t columns) {
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) to[c * to_step + r] = from[r * from_step + c];
}

}  // namespace

void transpose_32(const float* from, int64_t from_step, float* to, int64_t to_step, int64_t rows,
                  int64_t columns) {
  int64_t r = 0;
  for (; r + lanes <= rows; r += lanes) {
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes)
      square(from + r * from_step + c, from_step, to + c * to_step + r, to_step);
    rest(from + r * from_step + c, from_step, to + c * to_step + r, to_step, lanes, columns - c);
  }
  rest(from + r * from_step, from_step, to + r, to_step, rows - r, columns);
}

}  // namespace rl::kernels::RL_ISA
