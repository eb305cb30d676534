#include "kernels/cpu/byte_dots.h"

#include <algorithm>

namespace rl::kernels::RL_ISA {
namespace {

// The sum of so many products is exact in 32 bits.
constexpr int64_t exact_terms = int64_t(1) << 15;

template <class A> uint32_t dot(const A* a, const int8_t* b, int64_t terms) {
  uint32_t all = 0;
  for (int64_t first = 0; first < terms; first += exact_terms) {
    int64_t last = std::min(terms, first + exact_terms);
    int32_t sum = 0;
    for (int64_t k = first; k < last; ++k) sum += int32_t(a[k]) * int32_t(b[k]);
    all += static_cast<uint32_t>(sum);
  }
  return all;
}

template <class A> void columns(const ByteDots& p, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j)
    for (int64_t i = 0; i < p.rows; ++i)
      p.out[i * p.out_row + j] = static_cast<int32_t>(
          dot(static_cast<const A*>(p.a) + i * p.a_row, p.b + j * p.b_row, p.terms));
}

}  // namespace

void byte_dots(const ByteDots& p, int64_t begin, int64_t end) {
  p.is_signed ? columns<int8_t>(p, begin, end) : columns<uint8_t>(p, begin, end);
}

}  // namespace rl::kernels::RL_ISA
