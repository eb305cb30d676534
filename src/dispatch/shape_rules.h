// Shape rules: what the results of an op are to be, told by sizes, strides, dtypes and numbers
// alone. Rows name them in their column `shape`; no rule reads an element or asks for a device.
#pragma once
#include <array>
#include <optional>
#include <utility>

#include "core/memory_format.h"
#include "tensor/tensor.h"

namespace rl {

struct OutputSpec {
  Dims sizes;
  DType dtype;
  Dims strides = {};  // empty: row-major
  int64_t numel() const { return product(sizes); }
};

// A tensor to write: `target`, if it is defined and just what is asked for but for its strides.
Tensor make_output(const OutputSpec& spec, Device device, const Tensor& target = Tensor());

// The same of a new tensor, which looks at sizes that live as long as it is being made.
struct NewTensor {
  IntSpan sizes;
  DType dtype;
  Dims strides = {};  // empty: row-major
};
inline Tensor make_output(const NewTensor& spec, Device device) {
  TensorOptions options{spec.dtype, device};
  return spec.strides.empty() ? empty(spec.sizes, options)
                              : empty_strided(spec.sizes, spec.strides, options);
}

namespace shape {

template <class... Specs> std::array<OutputSpec, sizeof...(Specs)> each(Specs&&... specs) {
  return {std::forward<Specs>(specs)...};
}

// Sizes of the input, row-major.
inline OutputSpec dense(const Tensor& input, DType dtype) { return {input.sizes(), dtype}; }
inline OutputSpec dense(const Tensor& input) { return dense(input, input.dtype()); }

// Sizes of the input, and its strides where these are dense.
OutputSpec like(const Tensor& input, DType dtype);
inline OutputSpec like(const Tensor& input) { return like(input, input.dtype()); }

// Strides in a memory format; contiguous where none is given.
Dims strides_in(std::optional<MemoryFormat> format, IntSpan sizes, const char* op);
// New tensors: of given sizes, like another, with given strides, with dims in a given order in
// memory.
NewTensor in_format(const char* op, IntSpan sizes, DType dtype, MemoryFormat format);
inline NewTensor sized(const char* op, IntSpan sizes, std::optional<DType> dtype,
                       std::optional<MemoryFormat> format = std::nullopt) {
  DType type = dtype ? *dtype : default_dtype();
  return format ? in_format(op, sizes, type, *format) : NewTensor{sizes, type};
}
NewTensor sized_like(const char* op, const Tensor& input, std::optional<DType> dtype,
                     std::optional<MemoryFormat> format);
NewTensor strided_sizes(const char* op, IntSpan sizes, const Dims& strides, DType dtype);
NewTensor permuted_sizes(IntSpan sizes, const Dims& order, DType dtype);
OutputSpec broadcast_of(const char* op, const Tensor& a, const Tensor& b);

// What sums are of: integers and truth values are counted in int64.
inline DType sum_dtype(const Tensor& input, std::optional<DType> dtype) {
  return dtype.value_or(is_integral_or_bool(input.dtype()) ? DType::Int64 : input.dtype());
}

inline DType truth_dtype(const Tensor& input) {
  return input.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool;
}

// Dims that a reduction runs over, all where none is named: the input's sizes with 1 in their
// places, and the result.
Dims kept_sizes(const Tensor& input, const std::optional<Dims>& dims);
OutputSpec reduced(const char* op, const Tensor& input, const std::optional<Dims>& dims,
                   bool keepdim, DType dtype);
inline Dims one_or_all(std::optional<int64_t> dim) { return dim ? Dims{*dim} : Dims(); }

// `count` elements of each line along dim.
OutputSpec of_lines(const Tensor& input, int64_t dim, int64_t count, DType dtype);
OutputSpec top(const Tensor& input, int64_t k, int64_t dim);

// A row of the table for each index.
inline OutputSpec rows_of(const Tensor& table, const Tensor& indices) {
  OutputSpec out{indices.sizes(), table.dtype()};
  out.sizes.push_back(table.sizes()[1]);
  return out;
}

// n (n - 1) / 2, without overflow on the way.
inline int64_t number_of_pairs(int64_t n) {
  return n % 2 ? product(Dims{n, (n - 1) / 2}) : product(Dims{n / 2, n ? n - 1 : 0});
}

// Dims counted from the first, each named once.
Dims distinct_dims(const char* op, const Tensor& input, const Dims& dims);

// What is worked out over the last dims, of sizes `size`: ones in their places, in the dtype that
// sums are of.
OutputSpec of_rows(const Tensor& input, const Dims& size);

// Elements that an op picks, and their places.
inline std::array<OutputSpec, 2> with_places(OutputSpec values) {
  OutputSpec places = values;
  places.dtype = DType::Int64;
  return {std::move(values), std::move(places)};
}

}  // namespace shape
}  // namespace rl
