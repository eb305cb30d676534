// Differences, integrals, statistics and products of vectors.
#include <algorithm>

#include "autograd/geometry.h"
#include "dispatch/generated.h"
#include "dispatch/host_elements.h"
#include "ops_basic.h"
#include "ops_calculus.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_shape.h"

namespace rl::ops {

Tensor diff(const Tensor& input, int64_t n, int64_t dim, const Tensor& prepend,
            const Tensor& append) {
  check(input.dim() > 0, "diff: expects input to be at least one-dimensional");
  check(n >= 0, "diff: order must be non-negative but got ", n);
  int64_t d = wrap_dim(dim, input.dim(), "diff");
  TensorList parts;
  for (const Tensor& t : {prepend, input, append})
    if (t.defined()) {
      check(t.dim() == input.dim(),
            "diff: expects prepend or append to be the same dimension as input, got shapes ",
            t.sizes(), " and ", input.sizes());
      parts.push_back(t);
    }
  Tensor t = parts.size() > 1 ? cat(parts, d) : input;
  if (n == 0) return clone(input);
  for (; n > 0 && t.sizes()[d] > 0; --n) {
    Tensor later = slice(t, d, 1, std::nullopt, 1), sooner = slice(t, d, 0, t.sizes()[d] - 1, 1);
    t = t.dtype() == DType::Bool ? logical_xor(later, sooner) : later - sooner;
  }
  return t;
}

namespace {
// n over r, or so many that no memory holds them.
int64_t choices(int64_t n, int64_t r) {
  double estimate = 1;
  __int128 count = 1;
  for (int64_t i = 1; i <= std::min(r, n - r); ++i) {
    estimate = estimate * static_cast<double>(n - i + 1) / static_cast<double>(i);
    if (estimate > static_cast<double>(max_numel)) return max_numel;
    count = count * (n - i + 1) / i;
  }
  return static_cast<int64_t>(count);
}
}  // namespace

Tensor combinations(const Tensor& input, int64_t r, bool with_replacement) {
  check(input.dim() == 1, "combinations: Expect a 1D vector, but got shape ", input.sizes());
  check(r >= 0, "combinations: Expect a non-negative number, but got ", r);
  int64_t n = input.numel();
  if (r == 0) return empty(Dims{0}, input.dtype(), {}, input.device());
  const bool none = n == 0 || (!with_replacement && r > n);
  Tensor index = rl::empty(Dims{none ? 0 : choices(with_replacement ? n + r - 1 : n, r), r},
                           options(input, DType::Int64));
  // Each row follows the one above in lexicographic order.
  index = written_by_host(index, [&](const Tensor& rows) {
    if (none) return;
    int64_t* row = rows.data<int64_t>();
    for (int64_t i = 0; i < r; ++i) row[i] = with_replacement ? 0 : i;
    for (int64_t left = rows.sizes()[0] - 1; left > 0; --left) {
      const int64_t* above = row;
      row = std::copy(above, above + r, row + r) - r;
      int64_t i = r - 1;
      while (row[i] == (with_replacement ? n - 1 : n - r + i)) --i;
      ++row[i];
      for (int64_t k = i + 1; k < r; ++k) row[k] = with_replacement ? row[i] : row[k - 1] + 1;
    }
  });
  return without_base(reshape(index_select(input, 0, reshape(index, Dims{-1})), index.sizes()));
}

namespace {
// How many places (row, col) have col - row <= offset; `first` is the first row with such a place.
int64_t count_lower(int64_t rows, int64_t columns, int64_t offset, int64_t& first) {
  first = std::clamp<int64_t>(-offset, 0, rows);
  int64_t full = std::clamp(columns - offset - 1, first, rows);  // from here on, all of a row
  return (full - first) * (first + full + 2 * offset + 1) / 2 + (rows - full) * columns;
}

// Offsets (row, col) of the lower triangle, where col - row <= offset, or of the upper one, where
// it is more; row by row.
Tensor triangle_offsets(const char* op, int64_t rows, int64_t columns, int64_t offset, bool lower,
                        std::optional<DType> dtype, std::optional<Device> device) {
  check(rows >= 0 && columns >= 0, op, ": row and col must be non-negative, got ", rows, " and ",
        columns);
  int64_t all = product(Dims{rows, columns}), count = 0,
          row = 0;  // product: an error beyond max_numel
  offset = std::clamp(offset, -rows, columns);
  if (all > 0) count = count_lower(rows, columns, offset, row);
  if (!lower) count = all - count, row = 0;
  Tensor out = rl::empty(Dims{2, count}, {DType::Int64, Device{}});
  int64_t *row_at = out.data<int64_t>(), *column_at = row_at + count, *end = column_at;
  for (; row_at < end; ++row) {
    int64_t edge = std::clamp<int64_t>(row + offset + 1, 0, columns);
    for (int64_t column = lower ? 0 : edge; column < (lower ? edge : columns); ++column) {
      *row_at++ = row;
      *column_at++ = column;
    }
  }
  return to(out, device, dtype.value_or(DType::Int64));
}
}  // namespace

Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    std::optional<Device> device, LayoutArgument, bool) {
  return triangle_offsets("tril_indices", row, col, offset, true, dtype, device);
}
Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    std::optional<Device> device, LayoutArgument, bool) {
  return triangle_offsets("triu_indices", row, col, offset > INT64_MIN ? offset - 1 : offset, false,
                          dtype, device);
}

}  // namespace rl::ops
