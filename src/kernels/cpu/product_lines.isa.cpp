#include "kernels/cpu/scan_rows.h"
#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

// An element of each of `together` lines; dense ones lie side by side.
template <int together, bool dense> struct Cursor {
  char* p;
  int64_t step, line;
  Cursor(const TileOperand& of, int64_t block, int64_t first, int64_t row)
      : p(of.data + block * of.block + first * of.line + row * of.step),
        step(of.step),
        line(dense ? static_cast<int64_t>(sizeof(double)) : of.line) {}
  RL_INLINE double& operator[](int j) const { return *reinterpret_cast<double*>(p + j * line); }
};

// Steps of several lines do not wait for each other.
template <int together, bool dense>
void tails_of(const ProductTile& t, int64_t block, int64_t line) {
  Cursor<together, dense> grad(t.grad, block, line, t.end), x(t.x, block, line, t.end),
      to(t.to, block, line, t.end);
  double tail[together] = {}, factor[together] = {};
  for (int j = 0; j < together && t.end < t.n; ++j) {
    tail[j] = to[j];
    factor[j] = x[j];
  }
  for (int64_t rows = t.end - t.begin; rows > 0; --rows) {
    grad.p -= grad.step;
    x.p -= x.step;
    to.p -= to.step;
#pragma GCC unroll 8
    for (int j = 0; j < together; ++j) {
      to[j] = tail[j] = math::mul_add(factor[j], tail[j], grad[j]);
      factor[j] = x[j];
    }
  }
}

template <int together, bool dense>
void heads_of(const ProductTile& t, int64_t block, int64_t line) {
  Cursor<together, dense> x(t.x, block, line, t.begin), to(t.to, block, line, t.begin);
  double *products = t.products + block * t.lines + line, product[together];
  for (int j = 0; j < together; ++j) product[j] = products[j];
  for (int64_t rows = t.end - t.begin; rows > 0; --rows) {
#pragma GCC unroll 8
    for (int j = 0; j < together; ++j) {
      to[j] *= product[j];
      product[j] *= x[j];
    }
    x.p += x.step;
    to.p += to.step;
  }
  for (int j = 0; j < together; ++j) products[j] = product[j];
}

// f(lines together, dense, block, line): neighbours by vectors, others four at a time.
template <class F> RL_INLINE void for_line_groups(const ProductTile& t, F f) {
  constexpr int64_t size = sizeof(double);
  constexpr int lanes = vector_bytes / sizeof(double), separate = 4;
  const bool dense = t.grad.line == size && t.x.line == size && t.to.line == size;
  for (int64_t block = 0; block < t.blocks; ++block) {
    int64_t line = 0;
    for (; dense && line + lanes <= t.lines; line += lanes)
      f(std::integral_constant<int, lanes>(), std::true_type(), block, line);
    for (; line + separate <= t.lines; line += separate)
      f(std::integral_constant<int, separate>(), std::false_type(), block, line);
    for (; line < t.lines; ++line)
      f(std::integral_constant<int, 1>(), std::false_type(), block, line);
  }
}

}  // namespace

void product_tails(const ProductTile& tile) {
  for_line_groups(tile, [&](auto together, auto dense, int64_t block, int64_t line) {
    tails_of<together, dense>(tile, block, line);
  });
}

void product_heads(const ProductTile& tile) {
  for_line_groups(tile, [&](auto together, auto dense, int64_t block, int64_t line) {
    heads_of<together, dense>(tile, block, line);
  });
}

}  // namespace rl::kernels::RL_ISA
