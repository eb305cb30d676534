#include "kernels/index.h"

#include <optional>

#include "core/parallel.h"
#include "kernels/cpu/combine.h"
#include "kernels/cpu/memory_order.h"
#include "kernels/cpu/offsets.h"

namespace rl::kernels {
namespace {

Dims range_of_dims(int64_t begin, int64_t end) {
  Dims dims;
  for (int64_t d = begin; d < end; ++d) dims.push_back(d);
  return dims;
}

// `v` with dim moved to the front.
struct DimFirst {
  View view;
  Dims sizes, strides, rest;
  DimFirst(const View& v, int64_t dim) : view(v) {
    sizes.push_back(v.sizes[dim]);
    strides.push_back(v.strides[dim]);
    for (int64_t d = 0; d < v.ndim; ++d) {
      if (d == dim) continue;
      sizes.push_back(v.sizes[d]);
      strides.push_back(v.strides[d]);
      rest.push_back(d);
    }
    view.sizes = sizes.data();
    view.strides = strides.data();
  }
};

// Values in the order of memory of what they go to: to read them across cache lines takes 20 times
// as long as the copy.
class InOrderOf {
 public:
  InOrderOf(const View& target, const View& values) : view_(values) {
    constexpr int64_t least = 4096;  // values
    View in_order = values;
    in_order.strides = target.strides;
    const int64_t dim = innermost(values);
    if (values.numel < least || innermost(in_order) == dim) return;
    if (values.strides[dim] == 0) return;  // one value for many places
    strides_ = memory_order_strides(in_order);
    memory_.emplace(values.numel * itemsize(values.dtype));
    view_.data = memory_->data();
    view_.strides = strides_.data();
    copy(values, view_);
  }
  InOrderOf(const InOrderOf&) = delete;
  const View& view() const { return view_; }

 private:
  static int64_t innermost(const View& v) {
    int64_t least = 0;
    for (int64_t d = 0; d < v.ndim; ++d)
      if (v.sizes[d] > 1 && (v.sizes[least] == 1 || v.strides[d] <= v.strides[least])) least = d;
    return least;
  }
  View view_;
  Dims strides_;
  std::optional<Workspace> memory_;
};

void check_slices(const char* op, const View& v, int64_t dim, const View& index,
                  const View& slices) {
  check_index(index.ndim == 1, op, ": index is supposed to be 1-D, got sizes ", index.shape());
  check(v.dtype == slices.dtype, op, ": self and source have dtypes ", v.dtype, " and ",
        slices.dtype);
  check(v.ndim == slices.ndim && slices.sizes[dim] == index.numel, op, ": slices of sizes ",
        slices.shape(), " do not fit ", index.numel, " indices into dim ", dim, " of sizes ",
        v.shape());
}

// Like places, for flat indices into `indexed` in row-major order.
Offsets flat_offsets(const char* op, const View& indexed, const View& index) {
  int64_t unit = 1;
  View flat = indexed;
  flat.sizes = &indexed.numel;
  flat.strides = &unit;
  flat.ndim = 1;
  Offsets offsets = offsets_of(op, flat, &index, Dims{0}, true);
  if (indexed.contiguous()) return offsets;
  int64_t size = itemsize(indexed.dtype);
  for (int64_t& offset : offsets) {
    int64_t left = offset / size;
    offset = 0;
    for (int64_t d = indexed.ndim - 1; d >= 0; --d) {
      offset += left % indexed.sizes[d] * indexed.strides[d] * size;
      left /= indexed.sizes[d];
    }
  }
  return offsets;
}

// Elements [first, first + *n) of a contiguous view, as a vector.
View part_of(const View& v, int64_t first, const int64_t* n) {
  static const int64_t one = 1;
  return {v.ptr<char>() + first * itemsize(v.dtype), n, &one, 1, *n, v.dtype};
}

}  // namespace

void select_slices(const char* op_name, const View& input, int64_t dim, const View& index,
                   const View& out) {
  View x = at_least_1d(input), i = at_least_1d(index), y = at_least_1d(out);
  check_slices(op_name, x, dim, i, y);
  DimFirst to(y, dim);
  gather_at(offsets_of(op_name, x, &i, Dims{dim}, false), x, to.rest, to.view, 1);
}

void index_select(const View& input, int64_t dim, const View& index, const View& out) {
  // Single elements: offsets would take as long as all else.
  if (input.ndim == 1 && index.ndim == 1 && out.shape() == index.shape())
    return gather_elements("index_select", ErrorKind::Index, input, dim, index, out);
  select_slices("index_select", input, dim, index, out);
}

void index_combine(const char* op_name, const View& self, int64_t dim, const View& index,
                   const View& src, Combine op, bool include_self, bool negative_indices) {
  View to = at_least_1d(self), i = at_least_1d(index), values = at_least_1d(src);
  check_slices(op_name, to, dim, i, values);
  auto apply = [&](const View& target, const View& from, Combine step) {
    DimFirst slices(from, dim);
    scatter_at(op_name, offsets_of(op_name, target, &i, Dims{dim}, negative_indices), target,
               slices.rest, slices.view, 1, step);
  };
  const InOrderOf near(to, values);
  combine_wide(to, near.view(), i.numel, op, [&](const View& target, const View& from) {
    combine_by_steps(op_name, target, from, op, include_self, apply);
  });
}

void take(const View& input, const View& index, const View& out) {
  check(input.dtype == out.dtype && index.shape() == out.shape(), "take: index of sizes ",
        index.shape(), ", out of sizes ", out.shape());
  if (!index.contiguous() || !out.contiguous())
    return gather_at(flat_offsets("take", input, index), input, {}, out, out.ndim);
  constexpr int64_t block = 4096;  // places that stay in the first-level cache
  parallel_for(0, (index.numel + block - 1) / block, default_grain / block,
               [&](int64_t begin, int64_t end) {
                 for (int64_t first = begin * block, n; begin < end; ++begin, first += n) {
                   n = std::min(block, index.numel - first);
                   View at = part_of(index, first, &n), to = part_of(out, first, &n);
                   gather_at(flat_offsets("take", input, at), input, {}, to, 1);
                 }
               });
}

void put(const View& self, const View& index, const View& src, bool accumulate) {
  check(self.dtype == src.dtype && index.shape() == src.shape(), "put: index of sizes ",
        index.shape(), ", source of sizes ", src.shape());
  Combine op = accumulate ? Combine::Sum : Combine::Set;
  combine_wide(self, src, index.numel, op, [&](const View& to, const View& from) {
    scatter_at("put", flat_offsets("put", to, index), to, {}, from, from.ndim, op);
  });
}

void index(const View& input, Views indices, const View& out) {
  Offsets offsets =
      offsets_of("index", input, indices.first, range_of_dims(0, indices.count), true);
  gather_at(offsets, input, range_of_dims(indices.count, input.ndim), out, indices[0].ndim);
}

void index_put(const View& self, Views indices, const View& values, bool accumulate) {
  Dims indexed = range_of_dims(0, indices.count), rest = range_of_dims(indices.count, self.ndim);
  Combine op = accumulate ? Combine::Sum : Combine::Set;
  combine_wide(self, values, indices[0].numel, op, [&](const View& to, const View& from) {
    Offsets offsets = offsets_of("index_put", to, indices.first, indexed, true);
    scatter_at("index_put", offsets, to, rest, from, indices[0].ndim, op);
  });
}

}  // namespace rl::kernels
