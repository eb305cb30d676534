// What bodies of composites call besides ops: functions that see sizes, dtypes and numbers, and
// such as change how the elements of one tensor are kept or seen. gen/body.py lists them.
#pragma once
#include <cmath>

#include "autograd/geometry.h"
#include "core/warning.h"
#include "dispatch/batched.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "dispatch/linalg.h"
#include "dispatch/loss.h"
#include "dispatch/pieces.h"
#include "dispatch/shape_rules.h"
#include "tensor/lazy_view.h"

namespace rl {

using shape::one_or_all;

// ---- numbers, dtypes and sizes

inline DType common_dtype(const Tensor& a, const Tensor& b) { return result_type(a, b); }
inline bool casts_to(DType from, DType to) { return can_cast(from, to); }
double largest_finite(DType t);  // of complex dtypes, that of their parts
double epsilon(DType t);         // what rms_norm adds by default
void check_same_factors(const char* op, const Tensor& a, const Tensor& b);
Scalar whole_for(DType dtype, const Scalar& s);  // a whole number where elements are
// The only element, of a tensor that has elements.
bool truth(const char* op, const Tensor& t);
inline int64_t whole_item(const Tensor& t) { return item<int64_t>(t); }

// Is what is made of these recorded?
template <class... T> bool is_recorded(const T&... tensors) {
  if (!(mode() & Batched)) return records(tensors...);
  return grad_enabled() && (op_batch->records_of(tensors) || ...);
}

inline bool shares_storage(const Tensor& a, const Tensor& b) { return a.storage() == b.storage(); }
bool is_viewable(const Tensor& t, const Dims& sizes);
// The format itself, or where it says preserve, that of the tensor.
std::optional<MemoryFormat> format_like(const Tensor& t, std::optional<MemoryFormat> format);
Dims line_sizes(int64_t ndim, int64_t dim, int64_t size);  // in that dim, ones elsewhere
inline Dims channel_sizes(int64_t ndim, int64_t channels) { return line_sizes(ndim, 1, channels); }
inline Dims without_last(const Dims& sizes) {
  return Dims(IntSpan(sizes.data(), sizes.size() - 1));
}
Dims with_size(Dims sizes, int64_t dim, int64_t size);
Dims without_dim(Dims sizes, int64_t dim);
Dims with_leading_ones(const Dims& sizes, int64_t ndim);
Dims flattened_sizes(const Tensor& t, int64_t start_dim, int64_t end_dim);
Dims unflattened_sizes(const Tensor& t, int64_t dim, const Dims& parts);
Dims moved_dims(const Tensor& t, const Dims& source, const Dims& destination);
Dims split_sizes_of(const Tensor& t, int64_t split_size, int64_t dim);
Dims chunk_sizes(const Tensor& t, int64_t chunks, int64_t dim);
Dims embedded_sizes(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2);
Dims inner_sizes(const Tensor& a, const Tensor& b);
int64_t cross_dim(const Tensor& a, const Tensor& b, std::optional<int64_t> dim);
int64_t padding_row(const Tensor& table, std::optional<int64_t> padding_idx);
bool ends_with(const Dims& sizes, const Dims& end);
Dims other_dims(int64_t ndim, int64_t dim);  // all but one
Dims last_dims(int64_t ndim, int64_t count);
bool reads_upper(const std::string& uplo);
// The number itself, with a warning that arguments stand in the order of 2017.
Scalar in_old_order(const Scalar& number, const std::string& op);
// What the older arguments of losses mean, where they are given.
std::string reduction_name(std::optional<bool> size_average, std::optional<bool> reduce,
                           const std::string& reduction);

// ---- tensors

template <class F> TensorList each_of(const TensorList& tensors, F&& f) {
  TensorList results;
  results.reserve(tensors.size());
  for (const Tensor& t : tensors) results.push_back(f(t));
  return results;
}
Tensor ordered(const Tensor& t);   // in row-major order, where it is given
Tensor floating(const Tensor& t);  // integers and truth values in the default dtype
inline Tensor as_tensor(const std::optional<Scalar>& number) {
  return number ? wrap_number(*number) : Tensor();
}
Tensor at_least(const Tensor& t, int64_t ndim);
Tensor number_beside(const Tensor& t, const Tensor& other);  // a number's tensor, where other is
// The mean or the sum of a loss's elements. Their node becomes that of the result, where only the
// loss's row has one, as in torch.
Tensor reduced_by_node(const Tensor& elements, bool mean);
TensorList without_bases(TensorList views);
// Copies whose strides are those of the input, gaps and offset included.
Tensor copy_of_storage(const Tensor& t);
Tensor clone_with_gaps(const Tensor& t);
// `self` becomes `view`, a view of it, history included.
Tensor become(const Tensor& self, const Tensor& view, const char* op);

}  // namespace rl
