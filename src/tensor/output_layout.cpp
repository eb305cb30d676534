#include "tensor/output_layout.h"

#include <algorithm>

#include "tensor/physical_layout.h"

namespace rl {
namespace {

// Which of two dims is the faster one: negative for `a`, positive for `b`, 0 where no operand
// tells. A dim in which an operand is broadcast, of stride 0, tells nothing.
int faster_dim(IntSpan sizes, const Dims* operands, int count, int64_t a, int64_t b) {
  for (int k = 0; k < count; ++k) {
    int64_t x = operands[k][a], y = operands[k][b];
    if (x == 0 || y == 0) continue;
    if (x != y) return x < y ? -1 : 1;
    if (sizes[a] > sizes[b]) return 1;
  }
  return 0;
}

// Dims from the fastest to the slowest, the last one first where operands do not tell. An insertion
// sort, because its outcome for comparisons that are not transitive is part of the rule.
Dims memory_order(IntSpan sizes, const Dims* operands, int count) {
  Dims order(sizes.size());
  for (int64_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  for (int64_t i = 1; i < order.size(); ++i) {
    int64_t at = i;
    for (int64_t j = i - 1; j >= 0; --j) {
      int faster = faster_dim(sizes, operands, count, order[j], order[at]);
      if (faster < 0) break;
      if (faster == 0) continue;
      std::swap(order[j], order[at]);
      at = j;
    }
  }
  return order;
}

// The strides of an operand broadcast to `sizes`.
Dims broadcast_strides(const Tensor& t, IntSpan sizes) {
  Dims strides(sizes.size());
  int64_t shift = sizes.size() - t.dim();
  for (int64_t d = 0; d < t.dim(); ++d)
    strides[d + shift] = t.sizes()[d] == 1 && sizes[d + shift] != 1 ? 0 : t.strides()[d];
  return strides;
}

}  // namespace

bool is_dense(IntSpan sizes, IntSpan strides) {
  if (is_contiguous(sizes, strides)) return true;
  Dims order;
  for (int64_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) order.push_back(d);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return strides[a] < strides[b]; });
  int64_t step = 1;
  for (int64_t d : order) {
    if (strides[d] != step) return false;
    step *= sizes[d];
  }
  return true;
}

Dims dense_strides_like(IntSpan sizes, IntSpan strides) {
  Dims given(strides);
  if (is_dense(sizes, strides)) return given;
  Dims out(sizes.size());
  int64_t step = 1;
  for (int64_t d : memory_order(sizes, &given, 1)) {
    out[d] = step;
    step *= sizes[d];
  }
  return out;
}

Dims elementwise_strides(const Dims& sizes, const Tensor* const* inputs, int count) {
  bool same_sizes = true, standard = true, contiguous = true, last = sizes.size() == 4,
       same_strides = true;
  for (int k = 0; k < count; ++k) {
    const TensorImpl* t = inputs[k]->impl();
    same_sizes = same_sizes && t->sizes == sizes;
    standard = standard && t->standard_strides;
    contiguous = contiguous && t->contiguous;
    same_strides = same_strides && t->strides == inputs[0]->strides();
    last = last && same_sizes && is_channels_last(t->sizes, t->strides);
  }
  if (same_sizes) {
    if (contiguous) return contiguous_strides(sizes);
    if (last) return channels_last_strides(sizes);
    if (same_strides && is_dense(sizes, inputs[0]->strides())) return inputs[0]->strides();
  } else if (standard && product(sizes) != 0) {
    return contiguous_strides(sizes);
  }
  constexpr int most_operands = 8;
  Dims operands[most_operands];
  count = std::min(count, most_operands);
  for (int k = 0; k < count; ++k) operands[k] = broadcast_strides(*inputs[k], sizes);
  Dims order = memory_order(sizes, operands, count), strides(sizes.size());
  bool is_plain = true;
  int64_t step = 1;
  for (int64_t i = 0; i < order.size(); ++i) {
    is_plain = is_plain && order[i] == order.size() - 1 - i;
    strides[order[i]] = step;
    step *= sizes[order[i]];
  }
  return is_plain ? contiguous_strides(sizes) : strides;
}

bool is_channels_last(IntSpan sizes, IntSpan strides) {
  int64_t ndim = sizes.size(), step = 1;
  if (ndim != 4 && ndim != 5) return false;
  for (int64_t i = 0; i < ndim; ++i) {
    int64_t d = i == 0 ? 1 : i == ndim - 1 ? 0 : ndim - i;
    if (sizes[d] == 1) continue;
    if (strides[d] != step) return false;
    step *= sizes[d];
  }
  return true;
}

MemoryFormat suggested_format(IntSpan sizes, IntSpan strides) {
  int64_t ndim = sizes.size(), least = 0;
  if ((ndim != 4 && ndim != 5) || strides[1] == 0) return MemoryFormat::Contiguous;
  for (int64_t i = 0; i < ndim; ++i) {
    int64_t d = i == 0 ? 1 : i == ndim - 1 ? 0 : ndim - i;
    if (sizes[d] == 0 || strides[d] < least) return MemoryFormat::Contiguous;
    // Of images of one pixel, or of one row, nothing tells the format.
    if (d == 0 && least == strides[1]) return MemoryFormat::Contiguous;
    least = strides[d] * std::max<int64_t>(sizes[d], 1);
  }
  return ndim == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
}

MemoryFormat suggested_format_of_lines(const Tensor& t) {
  const Dims &sizes = t.sizes(), &strides = t.strides();
  if (sizes.size() != 3) return MemoryFormat::Contiguous;
  return suggested_format(Dims{sizes[0], sizes[1], 1, sizes[2]},
                          Dims{strides[0], strides[1], sizes[2] * strides[2], strides[2]});
}

Dims strides_in_format(IntSpan sizes, MemoryFormat format) {
  bool last = format == MemoryFormat::ChannelsLast || format == MemoryFormat::ChannelsLast3d;
  return last ? channels_last_strides(sizes) : contiguous_strides(sizes);
}

Tensor empty_suggested(IntSpan sizes, const Tensor& like, DType dtype) {
  TensorOptions wanted = options(like, dtype);
  if (like.impl()->standard_strides)
    return has_physical_layout(like) ? empty_channels_last(sizes, wanted) : empty(sizes, wanted);
  MemoryFormat format = suggested_format(like);
  if (format == MemoryFormat::Contiguous) return empty(sizes, wanted);
  return empty_strided(sizes, channels_last_strides(sizes), wanted);
}

Dims column_major_strides(IntSpan sizes) {
  Dims strides = contiguous_strides(sizes);
  int64_t rows = sizes.size() - 2;
  strides[rows] = 1;
  strides[rows + 1] = std::max<int64_t>(sizes[rows], 1);
  return strides;
}

}  // namespace rl
