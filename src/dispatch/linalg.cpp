// Linear algebra: checks, results, and the calls of the kernels.

#include "dispatch/linalg.h"

#include "autograd/geometry.h"
#include "dispatch/host_elements.h"
#include "impl_linalg.h"
#include "launch_linalg.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_matrix.h"
#include "ops_reduction.h"
#include "ops_scatter.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {

using kernels::Transpose;

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
    fail(ErrorKind::LinAlg, op, ": ", where, what, " (code ", codes[i], ")");
  }
}

Tensor identity_like(const Tensor& a, int64_t rows, int64_t columns) {
  return ops::eye(rows, columns, a.dtype(), {}, a.device());
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

namespace {

Dims with(Dims batch, int64_t last) {
  batch.push_back(last);
  return batch;
}
Tensor info_for(const Tensor& a) { return rl::empty(batch_of(a), options(a, DType::Int32)); }
// As LAPACK writes them.
Tensor matrices_like(const Tensor& a) { return empty_column_major(a.sizes(), options(a)); }
int64_t smaller(const Tensor& a) { return std::min(a.size(-1), a.size(-2)); }

constexpr const char* singular_matrix =
    "The diagonal element is zero, the inversion could not be completed because the input matrix "
    "is singular";
constexpr const char* not_converged =
    "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
    "repeated values";

}  // namespace

namespace impl {

std::array<Tensor, 2> linalg_inv_ex(const Tensor& a, bool check_errors) {
  check_square("linalg.inv", a);
  Tensor out = matrices_like(a), info = info_for(a);
  launch::inverse(a, out, info);
  if (check_errors) check_info("linalg.inv", info, singular_matrix);
  return {out, info};
}

std::array<Tensor, 2> linalg_cholesky_ex(const Tensor& a, bool upper, bool check_errors) {
  check_square("linalg.cholesky", a);
  Tensor out = matrices_like(a), info = info_for(a);
  launch::cholesky(a, out, upper, info);
  if (check_errors)
    check_info(
        "linalg.cholesky", info,
        "The factorization could not be completed because the input is not positive-definite: "
        "the leading minor of this order is not");
  return {out, info};
}

Tensor linalg_triangular_kernel(const Tensor& a, const Tensor& b, bool upper, bool left,
                                bool unitriangular) {
  Tensor out = matrices_like(b);
  launch::solve_triangular(a, b, out, upper, left, unitriangular);
  return out;
}

std::array<Tensor, 3> linalg_lu_factor_ex(const Tensor& a, bool pivot, bool check_errors) {
  check_matrix("linalg.lu_factor", a);
  Tensor lu = matrices_like(a), info = info_for(a);
  Tensor pivots = rl::empty(with(batch_of(a), smaller(a)), options(a, DType::Int32));
  launch::lu_factor(a, lu, pivots, pivot, info);
  if (check_errors)
    check_info("linalg.lu_factor", info,
               "U is singular: its diagonal element of this number is zero");
  return {lu, pivots, info};
}

Tensor lu_permutation_matrix(const Tensor& pivots, const Tensor& like) {
  int64_t rows = like.size(-2);
  Tensor order = rl::empty(with(batch_of(like), rows), options(like, DType::Int64));
  launch::lu_permutation(pivots, order);
  // Row order[i] of P holds its one in column i.
  Tensor p = ops::zeros(with_matrix(batch_of(like), rows, rows), like.dtype(), {}, like.device());
  return ops::scatter(p, -2, ops::unsqueeze(order, -2), Scalar(1));
}

Tensor linalg_lu_solve_kernel(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left,
                              bool adjoint) {
  Tensor out = left ? matrices_like(b) : rl::empty(b.sizes(), options(b));
  launch::lu_solve(lu, pivots, b, out, left, adjoint ? Transpose::Adjoint : Transpose::None);
  return out;
}

std::array<Tensor, 3> linalg_ldl_factor_ex(const Tensor& a, bool hermitian, bool check_errors) {
  check_square("linalg.ldl_factor", a);
  Tensor ld = matrices_like(a), info = info_for(a);
  Tensor pivots = rl::empty(with(batch_of(a), a.size(-1)), options(a, DType::Int32));
  launch::ldl_factor(a, ld, pivots, hermitian, info);
  if (check_errors)
    check_info("linalg.ldl_factor", info,
               "D is singular: its diagonal element of this number is zero");
  return {ld, pivots, info};
}

Tensor linalg_ldl_solve_kernel(const Tensor& ld, const Tensor& pivots, const Tensor& b,
                               bool hermitian) {
  Tensor out = matrices_like(b);
  launch::ldl_solve(ld, pivots, b, out, hermitian);
  return out;
}

std::array<Tensor, 4> linalg_solve_kernel(const Tensor& a, const Tensor& b, bool left) {
  auto [lu, pivots, info] = linalg_lu_factor_ex(a, true, false);
  return {linalg_lu_solve_kernel(lu, pivots, b, left, false), lu, pivots, info};
}

std::array<Tensor, 2> linalg_det_kernel(const Tensor& a) {
  check_square("linalg.det", a);
  auto [lu, pivots, info] = linalg_lu_factor_ex(a, true, false);
  Tensor det = rl::empty(batch_of(a), options(a));
  launch::lu_det(lu, pivots, det);
  return {det, lu};
}

std::array<Tensor, 2> linalg_slogdet(const Tensor& a) {
  check_square("linalg.slogdet", a);
  auto [lu, pivots, info] = linalg_lu_factor_ex(a, true, false);
  Tensor sign = rl::empty(batch_of(a), options(a)),
         logabsdet = rl::empty(batch_of(a), options(a, to_real(a.dtype())));
  launch::lu_slogdet(lu, pivots, sign, logabsdet);
  return {sign, logabsdet};
}

std::array<Tensor, 2> linalg_qr(const Tensor& a, const std::string& mode) {
  check_matrix("linalg.qr", a);
  check(mode == "reduced" || mode == "complete" || mode == "r", "qr received unrecognized mode '",
        mode, "' but expected one of 'reduced' (default), 'r', or 'complete'");
  int64_t rows = a.size(-2), columns = a.size(-1), width = mode == "complete" ? rows : smaller(a);
  Tensor r = empty_column_major(with_matrix(batch_of(a), width, columns), options(a));
  if (mode == "r") {
    launch::qr(a, nullptr, r);
    return {rl::empty(Dims{0}, options(a)), r};
  }
  Tensor q = empty_column_major(with_matrix(batch_of(a), rows, width), options(a));
  launch::qr(a, q, r);
  return {q, r};
}

std::array<Tensor, 2> geqrf(const Tensor& a) {
  check_matrix("geqrf", a, "input");
  Tensor out = matrices_like(a), tau = rl::empty(with(batch_of(a), smaller(a)), options(a));
  launch::geqrf(a, out, tau);
  return {out, tau};
}

Tensor householder_kernel(const Tensor& a, const Tensor& tau) {
  Tensor out = matrices_like(a);
  launch::householder_product(a, tau, out);
  return out;
}

Tensor ormqr_kernel(const Tensor& a, const Tensor& tau, const Tensor& other, bool left,
                    bool transpose) {
  Tensor out = matrices_like(other);
  launch::ormqr(a, tau, other, out, left, transpose);
  return out;
}

std::array<Tensor, 2> linalg_eigh_kernel(const Tensor& a, bool upper, bool vectors) {
  Tensor values = rl::empty(with(batch_of(a), a.size(-1)), options(a, to_real(a.dtype()))),
         info = info_for(a);
  Tensor v = vectors ? matrices_like(a) : rl::empty(Dims{0}, options(a));
  launch::eigh(a, values, vectors ? v : Tensor(), upper, info);
  check_info("linalg.eigh", info, not_converged);
  return {values, v};
}

std::array<Tensor, 2> linalg_eig_kernel(const Tensor& a, bool vectors) {
  check_square("linalg.eig", a);
  DType type = to_complex(a.dtype());
  if (!a.is_meta()) {
    Tensor finite = unrecorded([&] { return ops::all(ops::isfinite(a)); });
    check(item<bool>(finite), "linalg.eig: input tensor should not contain infs or NaNs.");
  }
  Tensor values = rl::empty(with(batch_of(a), a.size(-1)), options(a, type)), info = info_for(a);
  Tensor v = vectors ? empty_column_major(a.sizes(), options(a, type))
                     : rl::empty(Dims{0}, options(a, type));
  launch::eig(a, values, vectors ? v : Tensor(), info);
  check_info("linalg.eig", info, not_converged);
  return {values, v};
}

std::array<Tensor, 3> linalg_svd_kernel(const Tensor& a, bool full_matrices, bool vectors,
                                        const std::optional<std::string>& driver) {
  check_matrix("linalg.svd", a);
  check(!driver,
        "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER "
        "backend.");
  int64_t rows = a.size(-2), columns = a.size(-1), k = smaller(a);
  Tensor s = rl::empty(with(batch_of(a), k), options(a, to_real(a.dtype()))), info = info_for(a);
  auto matrices = [&](int64_t height, int64_t width) {
    return vectors ? empty_column_major(with_matrix(batch_of(a), height, width), options(a))
                   : rl::empty(Dims{0}, options(a));
  };
  Tensor u = matrices(rows, full_matrices ? rows : k),
         vh = matrices(full_matrices ? columns : k, columns);
  launch::svd(a, vectors ? u : Tensor(), s, vectors ? vh : Tensor(), info,
              kernels::SvdDriver::DivideAndConquer);
  check_info("linalg.svd", info, not_converged);
  return {u, s, vh};
}

// Singular values (or absolute eigenvalues) at most max(atol, rtol * the largest) count as zero.
Tensor linalg_pinv(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_matrix("linalg.pinv", a);
  if (hermitian) check_square("linalg.pinv", a);
  if (a.numel() == 0 || a.is_meta())
    return rl::empty(with_matrix(batch_of(a), a.size(-1), a.size(-2)), options(a));
  auto cutoff = [&](const Tensor& s) {
    double eps =
        to_real(a.dtype()) == DType::Float64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
    Tensor absolute = atol.defined() ? atol : wrap_number(Scalar(0.0));
    Tensor relative =
        rtol.defined() ? rtol
        : atol.defined()
            ? ops::where(
                  ops::gt(atol, wrap_number(Scalar(0.0))), wrap_number(Scalar(0.0)),
                  wrap_number(Scalar(eps * static_cast<double>(std::max(a.size(-1), a.size(-2))))))
            : wrap_number(Scalar(eps * static_cast<double>(std::max(a.size(-1), a.size(-2)))));
    Tensor largest = ops::amax(s, Dims{-1}, true);
    auto column = [](const Tensor& t) { return t.dim() ? ops::unsqueeze(t, -1) : t; };
    return ops::maximum(ops::to(column(absolute), s), column(relative) * largest);
  };
  auto inverted = [&](const Tensor& values, const Tensor& sizes) {
    Tensor zero = wrap_number(Scalar(0.0));
    return ops::to(
        ops::unsqueeze(ops::where(ops::gt(sizes, cutoff(sizes)), ops::reciprocal(values), zero),
                       -2),
        a);
  };
  if (hermitian) {
    auto [values, v] = linalg_eigh_kernel(a, false, true);
    return ops::matmul(v * inverted(values, ops::abs(values)), adjoint_now(v));
  }
  auto [u, s, vh] = linalg_svd_kernel(a, false, true, std::nullopt);
  return ops::matmul(adjoint_now(vh) * inverted(s, s), adjoint_now(u));
}

std::array<Tensor, 3> linalg_lstsq_kernel(const Tensor& a, const Tensor& b, double rcond,
                                          const std::string& driver) {
  using kernels::LstsqDriver;
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
  Tensor s =
      rl::empty(valued ? with(batch_of(a), smaller(a)) : Dims{0}, options(a, to_real(a.dtype())));
  launch::lstsq(a, b, tall, gels ? Tensor() : rank, valued ? s : Tensor(), rcond, choice, info);
  check_info("linalg.lstsq", info,
             "The least squares solution could not be computed because the input matrix does not "
             "have full rank");
  return {without_base(ops::slice(tall, -2, 0, a.size(-1), 1)), rank, s};
}

}  // namespace impl
}  // namespace rl
