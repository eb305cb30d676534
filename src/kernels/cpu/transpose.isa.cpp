#include "kernels/transpose.h"

#include "kernels/cpu/transpose_square.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int64_t lanes = Vector<float>::lanes;

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
      transpose_square(from + r * from_step + c, from_step, to + c * to_step + r, to_step);
    rest(from + r * from_step + c, from_step, to + c * to_step + r, to_step, lanes, columns - c);
  }
  rest(from + r * from_step, from_step, to + r, to_step, rows - r, columns);
}

}  // namespace rl::kernels::RL_ISA
