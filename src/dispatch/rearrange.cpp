// Composites that rearrange: pieces, repetitions, diagonals, stacks.
#include <algorithm>
#include <cstring>

#include "autograd/geometry.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "dispatch/host_elements.h"
#include "dispatch/pieces.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_reduction.h"
#include "ops_reshaping.h"
#include "ops_shape.h"

namespace rl {

namespace grad {
int64_t hstack_dim(const Tensor& t) {
  check(t.dim() >= 1,
        "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 "
        "dimensions");
  return t.dim() == 1 ? 0 : 1;
}
Tensor in_order(const Tensor& t) { return ops::clone(t, MemoryFormat::Contiguous); }

// Shifts are brought below the sizes first: the smallest integer has no negative.
Tensor roll_backward(const Tensor& grad, Dims shifts, const Dims& dims) {
  for (int64_t i = 0; i < shifts.size(); ++i) {
    int64_t size =
        dims.empty() ? grad.numel() : grad.sizes()[wrap_dim(dims[i], grad.dim(), "roll")];
    shifts[i] = size ? -(shifts[i] % size) : 0;
  }
  return ops::roll(grad, shifts, dims);
}

// Each dim n of the input stands there as (repeat, n).
Tensor repeat_backward(const Tensor& grad, const Dims& repeats, IntSpan sizes) {
  const int64_t added = repeats.size() - sizes.size();
  Dims wide, repeated;
  for (int64_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] != 1) {
      repeated.push_back(wide.size());
      wide.push_back(repeats[d]);
    }
    if (d >= added) wide.push_back(sizes[d - added]);
  }
  for (int64_t n : repeats)
    if (n == 0) return zeros_of(grad, sizes);
  if (repeated.empty()) return ops::reshape(grad, sizes);
  return ops::sum(ops::reshape(grad, wide), repeated, false, std::nullopt);
}

}  // namespace grad

namespace ops {

TensorList tensor_split(const Tensor& input, const Tensor& places, int64_t dim) {
  check(places.dtype() == DType::Int64,
        "tensor_split: expected tensor_indices_or_sections to have dtype of long, but got ",
        places.dtype());
  check(places.dim() <= 1,
        "tensor_split: expected tensor_indices_or_sections to be a zero-dimensional or "
        "one-dimensional tensor, but got "
        "shape ",
        places.sizes());
  check_elements("tensor_split", places);
  Tensor in_order = on_host(contiguous(places));
  const int64_t* at = in_order.data<int64_t>();
  if (places.dim() == 0) return tensor_split(input, *at, dim);
  return tensor_split(input, Dims(IntSpan(at, places.numel())), dim);
}

Tensor repeat_interleave(const Tensor& input, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  check(repeats.dim() <= 1, "repeat_interleave: repeats must be 0-dim or 1-dim tensor, got shape ",
        repeats.sizes());
  check(repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32,
        "repeat_interleave: repeats has to be Long or Int tensor, got ", repeats.dtype());
  Tensor x = dim ? input : reshape(input, Dims{-1});
  int64_t d = wrap_dim(dim.value_or(0), x.dim(), "repeat_interleave"),
          n = x.dim() ? x.sizes()[d] : 1;
  check(repeats.dim() == 0 || repeats.numel() == 1 || repeats.numel() == n,
        "repeat_interleave: repeats must have the same size as input along dim, but got "
        "repeats.size(0) = ",
        repeats.numel(), " and input.size(", d, ") = ", n);
  if (repeats.is_meta() && output_size)
    return index_select(x, d, rl::empty(Dims{*output_size}, options(repeats, DType::Int64)));
  check_elements("repeat_interleave", repeats);
  Tensor counts =
      on_host(contiguous(to_dtype(expand(reshape(repeats, Dims{-1}), Dims{n}), DType::Int64)));
  // A copy: somebody may change them after the check.
  const Dims copied(IntSpan(counts.data<int64_t>(), n));
  const int64_t* count = copied.begin();
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    check(count[i] >= 0, "repeat_interleave: repeats can not be negative");
    check(!__builtin_add_overflow(total, count[i], &total) && total < int64_t(1) << 62,
          "repeat_interleave: repeats add up to more than a tensor can hold");
  }
  check(!output_size || *output_size == total,
        "repeat_interleave: allocated size does not match required size ", total);
  // Each is written `ahead` times at once, for what is beyond its count the next ones overwrite:
  // short loops of random lengths are slow.
  constexpr int64_t ahead = 8;
  Tensor room = rl::empty(Dims{total + ahead}, {DType::Int64, Device{}});
  int64_t* place = room.data<int64_t>();
  using Pair = int64_t __attribute__((vector_size(16)));
  for (int64_t i = 0; i < n; ++i) {
    Pair pair = {i, i};
    std::memcpy(place, &pair, 16);
    std::memcpy(place + 2, &pair, 16);
    std::memcpy(place + 4, &pair, 16);
    std::memcpy(place + 6, &pair, 16);
    if (count[i] > ahead) std::fill_n(place + ahead, count[i] - ahead, i);
    place += count[i];
  }
  return index_select(x.dim() ? x : unsqueeze(x, 0), d,
                      moved_to(slice(room, 0, 0, total, 1), input.device()));
}

Tensor fill_diagonal_(const Tensor& input, const Scalar& value, bool wrap) {
  check(input.dim() >= 2, "fill_diagonal_: dimensions must larger than 1, got shape ",
        input.sizes());
  int64_t rows = input.sizes()[0], columns = input.sizes()[1], step = 0, shortest = rows;
  for (int64_t d = 0; d < input.dim(); ++d) {
    check(input.dim() == 2 || input.sizes()[d] == rows,
          "fill_diagonal_: all dimensions of input must be of equal length, got shape ",
          input.sizes());
    shortest = std::min(shortest, input.sizes()[d]);
    step += input.strides()[d];
  }
  if (input.numel() == 0) return input;
  fill_(as_strided(input, Dims{shortest}, Dims{step}, input.offset()), value);
  if (!wrap || input.dim() != 2) return input;
  for (int64_t from = columns + 1; from < rows; from += columns + 1)
    fill_(diagonal(slice(input, 0, from, std::nullopt, 1)), value);
  return input;
}

}  // namespace ops
}  // namespace rl
