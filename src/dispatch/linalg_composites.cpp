// Linear algebra made of other ops.
#include <cmath>
#include <vector>

#include "autograd/geometry.h"
#include "dispatch/linalg.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_linalg.h"
#include "ops_matrix.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl {

void check_unpacked(const Tensor& lu, const Tensor& pivots, bool unpack_pivots) {
  check(lu.dim() >= 2,
        "lu_unpack: The input tensor LU_data must have at least 2 dimensions, got shape ",
        lu.sizes());
  if (!unpack_pivots) return;
  check(pivots.dtype() == DType::Int32,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.");
  Dims expected = batch_of(lu);
  expected.push_back(std::min(lu.size(-1), lu.size(-2)));
  check(pivots.sizes() == expected, "lu_unpack: expected LU_pivots of shape ", expected, ", got ",
        pivots.sizes());
}

}  // namespace rl

namespace rl::ops {
namespace {

void check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype(), op,
        ": Expected A and B to have the same dtype, but found A of type ", a.dtype(),
        " and B of type ", b.dtype(), " instead");
}

void check_equation(const char* op, const Tensor& a, const Tensor& b, bool left) {
  check(a.size(-1) == b.size(left ? -2 : -1), op,
        ": Incompatible shapes of A and B for the equation ", left ? "AX = B" : "XA = B", " (",
        a.size(-2), "x", a.size(-1), " and ", b.size(-2), "x", b.size(-1), ")");
}

// Both with the batch dims they broadcast to.
void broadcast_batches(const char* op, Tensor& a, Tensor& b) {
  Dims batch = broadcast_sizes(batch_of(a), batch_of(b), op);
  a = expand(a, with_matrix(batch, a.size(-2), a.size(-1)));
  b = expand(b, with_matrix(batch, b.size(-2), b.size(-1)));
}

// As LAPACK would have written it.
Tensor column_major(const Tensor& t) {
  return transpose(clone(transpose(t, -2, -1), MemoryFormat::Contiguous), -2, -1);
}

}  // namespace

Tensor linalg_solve_triangular(const Tensor& given_a, const Tensor& given_b, bool upper, bool left,
                               bool unitriangular) {
  const char* op = "linalg.solve_triangular";
  check_square(op, given_a);
  check_matrix(op, given_b, "B");
  check_same_dtype(op, given_a, given_b);
  check_equation(op, given_a, given_b, left);
  Tensor a = given_a, b = given_b;
  broadcast_batches(op, a, b);
  return linalg_triangular_kernel(a, b, upper, left, unitriangular);
}

std::array<Tensor, 2> triangular_solve(const Tensor& b, const Tensor& a, bool upper,
                                       bool transposed, bool unitriangular) {
  check(a.dim() >= 2 && b.dim() >= 2,
        "triangular_solve: expected tensors with at least 2 dimensions, got ", a.sizes(), " and ",
        b.sizes());
  Tensor solution = linalg_solve_triangular(transposed ? transpose(a, -2, -1) : a, b,
                                            upper != transposed, true, unitriangular);
  Tensor matrices = expand(a, with_matrix(batch_of(solution), a.size(-2), a.size(-1)));
  return {solution, without_base(column_major(matrices))};
}

Tensor linalg_lu_solve(const Tensor& lu_given, const Tensor& pivots_given, const Tensor& b_given,
                       bool left, bool conjugate) {
  const char* op = "linalg.lu_solve";
  check_square(op, lu_given, "LU");
  check_matrix(op, b_given, "B");
  check_same_dtype(op, lu_given, b_given);
  check(pivots_given.dtype() == DType::Int32, op,
        ": pivots should be a Tensor of scalar type torch.int32");
  check(pivots_given.dim() == lu_given.dim() - 1 && pivots_given.size(-1) == lu_given.size(-1), op,
        ": Number of pivots per batch should be same as the dimension of the matrix");
  check(IntSpan(batch_of(lu_given)) == IntSpan(pivots_given.sizes().data(), pivots_given.dim() - 1),
        op, ": Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape ",
        pivots_given.sizes());
  check_equation(op, lu_given, b_given, left);
  Tensor lu = lu_given, b = b_given;
  broadcast_batches(op, lu, b);
  Dims pivot_sizes = batch_of(lu);
  pivot_sizes.push_back(lu.size(-1));
  Tensor pivots = expand(pivots_given, pivot_sizes);
  if (!records(lu)) return linalg_lu_solve_kernel(lu, pivots, b, left, conjugate);
  // By its factors, which have gradients: X A = B is A^H X^H = B^H.
  if (!left)
    return without_base(adjoint_now(linalg_lu_solve(lu, pivots, adjoint_now(b), true, !conjugate)));
  auto [p, lower, upper] = lu_unpack(lu, pivots, true, true);
  if (!conjugate)
    return linalg_solve_triangular(
        upper, linalg_solve_triangular(lower, matmul(transpose(p, -2, -1), b), false, true, true),
        true, true, false);
  Tensor inner = linalg_solve_triangular(adjoint_now(upper), b, false, true, false);
  return column_major(
      matmul(p, linalg_solve_triangular(adjoint_now(lower), inner, true, true, true)));
}

Tensor linalg_ldl_solve(const Tensor& ld_given, const Tensor& pivots, const Tensor& b_given,
                        bool hermitian) {
  const char* op = "linalg.ldl_solve";
  check_square(op, ld_given, "LD");
  check_matrix(op, b_given, "B");
  check_same_dtype(op, ld_given, b_given);
  check_equation(op, ld_given, b_given, true);
  check(is_integral(pivots.dtype()), op, ": Expected pivots to be integers. Got ", pivots.dtype());
  Dims expected = batch_of(ld_given);
  expected.push_back(ld_given.size(-1));
  check(pivots.sizes() == expected, op,
        ": Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape ",
        pivots.sizes());
  Tensor ld = ld_given, b = b_given;
  broadcast_batches(op, ld, b);
  Dims sizes = batch_of(ld);
  sizes.push_back(ld.size(-1));
  return linalg_ldl_solve_kernel(ld, expand(to(pivots, DType::Int32), sizes), b, hermitian);
}

std::array<Tensor, 2> linalg_solve_ex(const Tensor& a_given, const Tensor& b_given, bool left,
                                      bool check_errors) {
  const char* op = "linalg.solve";
  check_square(op, a_given);
  check_same_dtype(op, a_given, b_given);
  Dims vector_sizes = a_given.sizes();
  vector_sizes.resize(a_given.dim() - 1);
  bool vector = b_given.dim() == 1 || b_given.sizes() == vector_sizes;
  check(!vector || left, op,
        ": Vector broadcasting of the left hand side is not supported for left=False. In this case "
        "linalg.solve is "
        "equivalent to B / A.squeeze(-1)");
  Tensor a = a_given, b = vector ? unsqueeze(b_given, -1) : b_given;
  check_matrix(op, b, "B");
  check_equation(op, a, b, left);
  broadcast_batches(op, a, b);
  auto [result, lu, pivots, info] = linalg_solve_kernel(a, b, left);
  if (check_errors) check_info(op, info, "The solver failed because the input matrix is singular");
  if (!vector) return {result, info};
  Tensor columns = squeeze(result, Dims{-1});
  // Batches of vectors lie as the columns of one matrix.
  return {without_base(columns.dim() < 2 ? columns : column_major(columns)), info};
}

namespace {

void check_reflectors(const char* op, const Tensor& a, const Tensor& tau) {
  check_matrix(op, a, "input");
  check(a.size(-2) >= a.size(-1), op,
        ": input.shape[-2] must be greater than or equal to input.shape[-1]");
  check(tau.dim() == a.dim() - 1, op,
        ": Expected tau to have one dimension less than input, but got tau.ndim equal to ",
        tau.dim(), " and input.ndim is equal to ", a.dim());
  check(tau.size(-1) <= a.size(-1), op,
        ": input.shape[-1] must be greater than or equal to tau.shape[-1]");
  check(tau.dtype() == a.dtype(), op, ": tau dtype ", tau.dtype(), " does not match input dtype ",
        a.dtype());
  check(batch_of(a) == Dims(IntSpan(tau.sizes().data(), tau.dim() - 1)), op,
        ": Expected batch dimensions of tau to be equal to those of input, but got ", tau.sizes());
}

// (I - tau_i v_i v_i^H) applied to x, for each reflector from the last to the first, or the other
// way.
Tensor reflect(const Tensor& a, const Tensor& tau, Tensor x, bool adjoint_order) {
  int64_t count = tau.size(-1);
  Tensor vectors = tril(a, -1) + identity_like(a, a.size(-2), a.size(-1));
  for (int64_t step = 0; step < count; ++step) {
    int64_t i = adjoint_order ? step : count - 1 - step;
    Tensor v = slice(vectors, -1, i, i + 1, 1), scale = unsqueeze(slice(tau, -1, i, i + 1, 1), -1);
    x = x - (adjoint_order ? conj_now(scale) : scale) * matmul(v, matmul(adjoint_now(v), x));
  }
  return x;
}

}  // namespace

Tensor linalg_householder_product(const Tensor& a, const Tensor& tau) {
  check_reflectors("linalg.householder_product", a, tau);
  if (!records(a, tau)) return householder_kernel(a, tau);
  Tensor identity = expand(identity_like(a, a.size(-2), a.size(-1)), a.sizes());
  if (tau.size(-1) == 0)  // a constant, but part of the graph
    return column_major(identity + fill(a, Scalar(0)));
  return column_major(reflect(a, tau, identity, false));
}

Tensor ormqr(const Tensor& a, const Tensor& tau, const Tensor& other, bool left, bool transposed) {
  check_matrix("ormqr", a, "input");
  check_matrix("ormqr", other, "other");
  int64_t at = left ? -2 : -1;
  check(other.size(at) >= tau.size(-1), "ormqr: other.shape[", at,
        "] must be greater than or equal to tau.shape[-1]");
  check(other.size(at) == a.size(-2), "ormqr: other.shape[", at,
        "] must be equal to input.shape[-2]");
  check(tau.size(-1) <= a.size(-1),
        "ormqr: tau.shape[-1] must be less than or equal to input.shape[-1]");
  check(a.dim() - tau.dim() == 1,
        "ormqr: Expected tau to have one dimension less than input, but got tau.ndim equal to ",
        tau.dim(), " and input.ndim is equal to ", a.dim());
  check(a.dim() == other.dim(),
        "ormqr: Expected other to have the same number of dimensions as input, but got other.ndim "
        "equal to ",
        other.dim(), " and input.ndim is equal to ", a.dim());
  check(tau.dtype() == a.dtype() && other.dtype() == a.dtype(),
        "ormqr: Expected input, tau and other to have the same dtype");
  check(batch_of(a) == batch_of(other) &&
            batch_of(a) == Dims(IntSpan(tau.sizes().data(), tau.dim() - 1)),
        "ormqr: Expected equal batch dimensions of input, tau and other");
  if (!records(a, tau, other)) return ormqr_kernel(a, tau, other, left, transposed);
  if (left) return column_major(reflect(a, tau, other, transposed));
  // c op(Q) = (op(Q)^H c^H)^H
  return column_major(adjoint_now(reflect(a, tau, adjoint_now(other), !transposed)));
}

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

Tensor matrix_power(const Tensor& a, int64_t n) {
  check(a.dim() >= 2, "linalg.matrix_power: The input tensor A must have at least 2 dimensions.");
  check(a.size(-1) == a.size(-2),
        "linalg.matrix_power: A must be batches of square matrices, but they are ", a.size(-2),
        " by ", a.size(-1), " matrices");
  if (n == 0)
    return identity_like(a, a.size(-1), a.size(-1)) +
           fill(a, Scalar(0));  // a constant, but part of the graph
  Tensor square = n < 0 ? linalg_inv(a) : a, result;
  for (uint64_t rest = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n); rest;
       rest >>= 1) {
    if (rest & 1) result = result.defined() ? matmul(result, square) : square;
    if (rest > 1) square = matmul(square, square);
  }
  return result.is_same(a) ? clone(a) : result;
}

namespace {

// The [13/13] Pade approximant of exp, and the norm up to which it is exact in double precision:
// Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).
constexpr double pade_13[] = {64764752532480000,
                              32382376266240000,
                              7771770303897600,
                              1187353796428800,
                              129060195264000,
                              10559470521600,
                              670442572800,
                              33522128640,
                              1323241920,
                              40840800,
                              960960,
                              16380,
                              182,
                              1};
constexpr double pade_13_bound = 5.371920351148152;

Tensor pade_exp(const Tensor& a) {
  auto c = [](int i) { return Scalar(pade_13[i] / pade_13[0]); };
  Tensor one = identity_like(a, a.size(-1), a.size(-1)), a2 = matmul(a, a), a4 = matmul(a2, a2),
         a6 = matmul(a4, a2);
  Tensor odd = matmul(a, matmul(a6, a6 * c(13) + a4 * c(11) + a2 * c(9)) + a6 * c(7) + a4 * c(5) +
                             a2 * c(3) + one * c(1));
  Tensor even =
      matmul(a6, a6 * c(12) + a4 * c(10) + a2 * c(8)) + a6 * c(6) + a4 * c(4) + a2 * c(2) + one;
  return linalg_solve_kernel(even - odd, even + odd, true)[0];
}

}  // namespace

Tensor matrix_exp(const Tensor& a) {
  if (is_reduced(a.dtype())) return to(matrix_exp(to(a, DType::Float32)), a.dtype());
  check_square("linalg.matrix_exp", a);
  if (a.numel() == 0) return clone(a);
  if (a.is_meta()) return rl::empty(a.sizes(), options(a));  // how often to square, elements tell
  Tensor norms = amax(sum(abs(detach(a)), Dims{-2}, false), Dims{-1}, false);
  Tensor halvings = ceil(log2(clamp_min(norms / Scalar(pade_13_bound), wrap_number(Scalar(1.0)))));
  Tensor column = unsqueeze(unsqueeze(halvings, -1), -1);
  Tensor largest = to(contiguous(amax(halvings)), DType::Float64);
  Tensor result = pade_exp(a * to(exp2(neg(column)), a));
  double steps = item<double>(largest);
  for (int step = 0; std::isfinite(steps) && step < steps; ++step)
    result = where(gt(column, wrap_number(Scalar(step))), matmul(result, result), result);
  return contiguous(result);
}

}  // namespace rl::ops
