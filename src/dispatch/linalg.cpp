// Linear algebra: checks, results, and the calls of the kernels.

#include "dispatch/linalg.h"

#include "autograd/geometry.h"
#include "dispatch/host_elements.h"
#include "impl_linalg.h"
#include "launch_linalg.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_linalg.h"
#include "ops_matrix.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {

void check_matrix(const char* op, const Tensor& a, const char* name) {
  check(a.dim() >= 2, op, ": The input tensor ", name,
        " must have at least 2 dimensions, got shape ", a.sizes());
  check(a.is_floating() || a.is_complex(), op,
        ": Expected a floating point or complex tensor as input. Got ", a.dtype());
  check(!is_reduced(a.dtype()), op, ": Low precision dtypes not supported. Got ", a.dtype());
}

void check_square(const char* op, const Tensor& a, const char* name) {
  check_matrix(op, a, name);
  check(a.size(-1) == a.size(-2), op, ": ", name,
        " must be batches of square matrices, but they are ", a.size(-2), " by ", a.size(-1),
        " matrices");
}

void check_info(const char* op, const Tensor& info, const char* what) {
  if (info.is_meta()) return;
  const Tensor host = on_host(info);
  const int32_t* codes = host.data<int32_t>();
  for (int64_t i = 0; i < info.numel(); ++i) {
    if (codes[i] == 0) continue;
    std::string where = info.dim() ? "(Batch element " + std::to_string(i) + "): " : "";
    if (codes[i] == kernels::not_finite)
      fail(ErrorKind::LinAlg, op, ": ", where,
           "The algorithm cannot converge because the input matrix contains non-finite values");
    std::string text = what;
    if (size_t place = text.find("{}"); place != text.npos)
      text.replace(place, 2, std::to_string(codes[i]));
    fail(ErrorKind::LinAlg, op, ": ", where, text);
  }
}

Tensor adjoint_now(const Tensor& a) { return ops::conj_now(ops::transpose(a, -2, -1)); }

Dims batch_of(const Tensor& a) {
  Dims sizes = a.sizes();
  sizes.resize(a.dim() - 2);
  return sizes;
}

Dims with_matrix(Dims batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

Dims with_last(Dims batch, int64_t last) {
  batch.push_back(last);
  return batch;
}
Tensor info_for(const Tensor& a) { return rl::empty(batch_of(a), options(a, DType::Int32)); }
Tensor matrices_like(const Tensor& a) { return empty_column_major(a.sizes(), options(a)); }

namespace shape {
OutputSpec matrix_like(const Tensor& a) {
  return {a.sizes(), a.dtype(), column_major_strides(a.sizes())};
}
OutputSpec vectors_of(const Tensor& a) {
  return {with_last(batch_of(a), std::min(a.size(-1), a.size(-2))), a.dtype()};
}
}  // namespace shape

void check_unpacked(const Tensor& lu, const Tensor& pivots, bool unpack_pivots) {
  check(lu.dim() >= 2,
        "lu_unpack: The input tensor LU_data must have at least 2 dimensions, got shape ",
        lu.sizes());
  if (!unpack_pivots) return;
  check(pivots.dtype() == DType::Int32,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.");
  Dims expected = with_last(batch_of(lu), std::min(lu.size(-1), lu.size(-2)));
  check(pivots.sizes() == expected, "lu_unpack: expected LU_pivots of shape ", expected, ", got ",
        pivots.sizes());
}

namespace impl {

std::array<Tensor, 3> linalg_lstsq_kernel(const Tensor& a, const Tensor& b, double rcond,
                                          const std::string& driver) {
  using kernels::LstsqDriver;
  check_matrix("linalg.lstsq", a);
  check_matrix("linalg.lstsq", b, "B");
  check(batch_of(a) == batch_of(b) && a.size(-2) == b.size(-2),
        "linalg.lstsq: expected A and B to have the same batch dims and as many rows, got shapes ",
        a.sizes(), " and ", b.sizes());
  check(a.dtype() == b.dtype(),
        "linalg.lstsq: Expected input and other to have the same dtype, got ", a.dtype(), " and ",
        b.dtype());
  bool gels = driver == "gels", valued = driver == "gelsd" || driver == "gelss";
  LstsqDriver choice = gels                ? LstsqDriver::Gels
                       : driver == "gelsy" ? LstsqDriver::Gelsy
                       : driver == "gelsd" ? LstsqDriver::Gelsd
                                           : LstsqDriver::Gelss;
  Tensor info = info_for(a);
  Tensor tall = empty_column_major(
      with_matrix(batch_of(a), std::max(a.size(-2), a.size(-1)), b.size(-1)), options(a));
  Tensor rank = rl::empty(gels ? Dims{0} : batch_of(a), options(a, DType::Int64));
  Tensor s = rl::empty(valued ? with_last(batch_of(a), std::min(a.size(-1), a.size(-2))) : Dims{0},
                       options(a, to_real(a.dtype())));
  launch::lstsq(a, b, tall, gels ? Tensor() : rank, valued ? s : Tensor(), rcond, choice, info);
  check_info("linalg.lstsq", info,
             "The least squares solution could not be computed because the input matrix does not "
             "have full rank");
  return {without_base(ops::slice(tall, -2, 0, a.size(-1), 1)), rank, s};
}

}  // namespace impl

namespace ops {
namespace {

// For each run [i, j] of matrices, where the cheapest order of products splits it: the textbook
// dynamic programme over the sizes between them.
struct ProductOrder {
  size_t count;
  std::vector<double> cost;
  std::vector<size_t> split;

  explicit ProductOrder(const std::vector<double>& sizes)
      : count(sizes.size() - 1), cost(count * count, 0), split(count * count, 0) {
    for (size_t length = 1; length < count; ++length)
      for (size_t i = 0; i + length < count; ++i) {
        size_t j = i + length;
        for (size_t k = i; k < j; ++k) {
          double work = cost[i * count + k] + cost[(k + 1) * count + j] +
                        sizes[i] * sizes[k + 1] * sizes[j + 1];
          if (k > i && work >= cost[i * count + j]) continue;
          cost[i * count + j] = work;
          split[i * count + j] = k;
        }
      }
  }
  Tensor multiply(const TensorList& matrices, size_t i, size_t j) const {
    if (i == j) return matrices[i];
    size_t k = split[i * count + j];
    return mm(multiply(matrices, i, k), multiply(matrices, k + 1, j));
  }
};

}  // namespace

Tensor linalg_multi_dot(const TensorList& tensors) {
  size_t count = tensors.size();
  check(count >= 2, "multi_dot(): expected at least 2 tensors but got ", count);
  TensorList matrices = tensors;
  for (size_t i = 0; i < count; ++i) {
    bool end = i == 0 || i + 1 == count;
    Tensor& t = matrices[i];
    check(t.dim() == 2 || (end && t.dim() == 1), "multi_dot(): tensor ", i, " must be ",
          end ? "1D or 2D" : "2D", " but got ", t.dim(), "D");
    check(t.dtype() == tensors[0].dtype(),
          "multi_dot(): all tensors must have be the same dtype but tensor 0 is ",
          tensors[0].dtype(), " and tensor ", i, " ", t.dtype());
    if (t.dim() == 1) t = unsqueeze(t, i == 0 ? 0 : 1);
  }
  std::vector<double> sizes{static_cast<double>(matrices[0].size(0))};
  for (const Tensor& t : matrices) sizes.push_back(static_cast<double>(t.size(1)));
  for (size_t i = 1; i < count; ++i)
    check(matrices[i - 1].size(1) == matrices[i].size(0), "multi_dot(): tensors ", i - 1, " and ",
          i, " with shapes ", tensors[i - 1].sizes(), " and ", tensors[i].sizes(),
          " cannot be multiplied");
  Tensor result = ProductOrder(sizes).multiply(matrices, 0, count - 1);
  if (tensors[0].dim() == 1) result = squeeze(result, Dims{0});
  return tensors[count - 1].dim() == 1 ? squeeze(result, Dims{-1}) : result;
}

}  // namespace ops
}  // namespace rl
