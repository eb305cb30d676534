// Orthogonal factorisations, eigenvalues, singular values and least squares.
#include <cmath>
#include <limits>

#include "kernels/cpu/lapack.h"
#include "kernels/linalg.h"

namespace rl::kernels {
namespace {

template <class Tag> using type_of = typename Tag::type;

// Matrices of this many rows and columns cost the library more in calls than in work.
constexpr int most_small = 16;

template <class T> T conjugated(T x) {
  if constexpr (is_complex_v<T>) return std::conj(x);
  else return x;
}
template <class T> auto real_part(T x) {
  if constexpr (is_complex_v<T>) return x.real();
  else return x;
}

// As LAPACK's larfg: tau of the reflector H = 1 - tau v v^H, v[0] = 1, for which H^H x is beta
// times the first unit vector. x becomes beta and the rest of v.
template <class T> T make_reflector(T* x, int n) {
  using R = real_t<T>;
  R largest(0), sum(0);
  for (int i = 0; i < n; ++i) largest = std::max(largest, R(std::abs(x[i])));
  bool nothing_below = true;
  for (int i = 1; i < n; ++i) nothing_below = nothing_below && x[i] == T(0);
  if (nothing_below && x[0] == T(real_part(x[0]))) return T(0);
  for (int i = 0; i < n; ++i) sum += R(std::norm(x[i] / largest));
  T alpha = x[0];
  R beta = -std::copysign(largest * std::sqrt(sum), real_part(alpha));
  for (int i = 1; i < n; ++i) x[i] /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}

// m[k.., j] -= tau v (v^H m[k.., j]) with v below the diagonal of column k of `vectors`.
template <class T> void reflect(const Columns<T>& vectors, int k, T tau, const Columns<T>& m,
                                int j) {
  T dot = m(k, j);
  for (int i = k + 1; i < m.rows(); ++i) dot += conjugated(vectors(i, k)) * m(i, j);
  dot *= tau;
  m(k, j) -= dot;
  for (int i = k + 1; i < m.rows(); ++i) m(i, j) -= vectors(i, k) * dot;
}

template <class T> void factor_by_reflectors(const Columns<T>& m, int columns, T* tau) {
  for (int k = 0; k < std::min(m.rows(), columns); ++k) {
    tau[k] = make_reflector(&m(k, k), m.rows() - k);
    for (int j = k + 1; j < columns; ++j) reflect(m, k, conjugated(tau[k]), m, j);
  }
}

// The first columns of the product of the reflectors that m holds, written over them.
template <class T> void multiply_reflectors(const Columns<T>& m, int reflectors, const T* tau) {
  for (int j = reflectors; j < m.columns(); ++j)
    for (int i = 0; i < m.rows(); ++i) m(i, j) = T(i == j);
  for (int k = reflectors - 1; k >= 0; --k) {
    for (int j = k + 1; j < m.columns(); ++j) reflect(m, k, tau[k], m, j);
    for (int i = 0; i < k; ++i) m(i, k) = T(0);
    m(k, k) = T(1) - tau[k];
    for (int i = k + 1; i < m.rows(); ++i) m(i, k) *= -tau[k];
  }
}

}  // namespace

void qr(const View& a, const View* q, const View& r) {
  for_each_matrix("qr", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at), upper = matrix_of<T>(r, at);
    int64_t width = q ? q->sizes[q->ndim - 1] : 0;
    Columns<T> m(from.rows, std::max(from.columns, width));
    int reflectors = static_cast<int>(std::min(from.rows, from.columns));
    Buffer<T> tau(std::max(reflectors, 1));
    m.load(from);
    int columns = static_cast<int>(from.columns);
    bool small = std::max(m.rows(), m.columns()) <= most_small;
    if (small) factor_by_reflectors(m, columns, tau.data());
    else Lapack<T>::geqrf(m.rows(), columns, m.data(), m.ld(), tau.data());
    for (int64_t i = 0; i < upper.rows; ++i)
      for (int64_t j = 0; j < upper.columns; ++j) upper(i, j) = i <= j ? m(i, j) : T(0);
    if (!q) return;
    if (small) multiply_reflectors(m, reflectors, tau.data());
    else
      Lapack<T>::orgqr(m.rows(), static_cast<int>(width), reflectors, m.data(), m.ld(), tau.data());
    m.store(matrix_of<T>(*q, at));
  });
}

void geqrf(const View& a, const View& out, const View& tau) {
  for_each_matrix("geqrf", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at);
    Columns<T> m(from.rows, from.columns);
    Buffer<T> scales(std::max<int64_t>(std::min(from.rows, from.columns), 1));
    m.load(from);
    Lapack<T>::geqrf(m.rows(), m.columns(), m.data(), m.ld(), scales.data());
    m.store(matrix_of<T>(out, at));
    store_vector<T>(scales.data(), tau, at);
  });
}

void householder_product(const View& vectors, const View& tau, const View& out) {
  for_each_matrix("householder_product", vectors, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(vectors, at);
    int64_t count = tau.sizes[tau.ndim - 1];
    Columns<T> m(from.rows, from.columns);
    Buffer<T> scales(std::max<int64_t>(count, 1));
    m.load(from);
    load_vector<T>(tau, at, scales.data());
    Lapack<T>::orgqr(m.rows(), m.columns(), static_cast<int>(count), m.data(), m.ld(),
                     scales.data());
    m.store(matrix_of<T>(out, at));
  });
}

void ormqr(const View& vectors, const View& tau, const View& c, const View& out, bool left,
           bool adjoint) {
  for_each_matrix("ormqr", vectors, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(vectors, at), right = matrix_of<T>(c, at);
    int64_t count = tau.sizes[tau.ndim - 1];
    Columns<T> m(from.rows, from.columns), x(right.rows, right.columns);
    Buffer<T> scales(std::max<int64_t>(count, 1));
    m.load(from);
    x.load(right);
    load_vector<T>(tau, at, scales.data());
    char op = !adjoint ? 'N' : is_complex_v<T> ? 'C' : 'T';
    Lapack<T>::ormqr(left ? 'L' : 'R', op, x.rows(), x.columns(), static_cast<int>(count), m.data(),
                     m.ld(), scales.data(), x.data(), x.ld());
    x.store(matrix_of<T>(out, at));
  });
}

void eigh(const View& a, const View& values, const View* vectors, bool upper, const View& info) {
  for_each_matrix("eigh", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at);
    Columns<T> m(from.rows, from.columns);
    Buffer<real_t<T>> w(std::max<int64_t>(from.rows, 1));
    m.load(from);
    set_info(info, at,
             Lapack<T>::eigh(vectors ? 'V' : 'N', upper ? 'U' : 'L', m.rows(), m.data(), m.ld(),
                             w.data()));
    store_vector<real_t<T>>(w.data(), values, at);
    if (vectors) m.store(matrix_of<T>(*vectors, at));
  });
}

namespace {

// geev of the complex types gives complex pairs at once ...
int general_eigen(const Columns<complex64>& a, complex64* w, const Columns<complex64>* v) {
  return scipy_LAPACKE_cgeev(LAPACK_COL_MAJOR, 'N', v ? 'V' : 'N', a.rows(), a.data(), a.ld(), w,
                             nullptr, 1, v ? v->data() : nullptr, a.ld());
}
int general_eigen(const Columns<complex128>& a, complex128* w, const Columns<complex128>* v) {
  return scipy_LAPACKE_zgeev(LAPACK_COL_MAJOR, 'N', v ? 'V' : 'N', a.rows(), a.data(), a.ld(), w,
                             nullptr, 1, v ? v->data() : nullptr, a.ld());
}
// ... and of the real ones two columns, real and imaginary part, for each conjugate pair.
template <class R> int real_geev(const Columns<R>& a, R* wr, R* wi, R* v) {
  auto geev = [] {
    if constexpr (std::is_same_v<R, float>) return &scipy_LAPACKE_sgeev;
    else return &scipy_LAPACKE_dgeev;
  }();
  return geev(LAPACK_COL_MAJOR, 'N', v ? 'V' : 'N', a.rows(), a.data(), a.ld(), wr, wi, nullptr, 1,
              v, a.ld());
}
template <class R>
int general_eigen(const Columns<R>& a, std::complex<R>* w, const Columns<std::complex<R>>* v) {
  int n = a.rows();
  Buffer<R> wr(std::max(n, 1)), wi(std::max(n, 1));
  Columns<R> packed(n, v ? n : 0);
  int code = real_geev(a, wr.data(), wi.data(), v ? packed.data() : static_cast<R*>(nullptr));
  for (int j = 0; j < n; ++j) w[j] = {wr[j], wi[j]};
  if (!v) return code;
  for (int j = 0; j < n; ++j) {
    bool pair = wi[j] != R(0) && j + 1 < n;
    for (int i = 0; i < n; ++i) {
      R re = packed(i, j), im = pair ? packed(i, j + 1) : R(0);
      (*v)(i, j) = {re, im};
      if (pair) (*v)(i, j + 1) = {re, -im};
    }
    j += pair;
  }
  return code;
}

}  // namespace

void eig(const View& a, const View& values, const View* vectors, const View& info) {
  for_each_matrix("eig", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    using C = std::complex<real_t<T>>;
    Matrix<T> from = matrix_of<T>(a, at);
    Columns<T> m(from.rows, from.columns);
    Buffer<C> w(std::max<int64_t>(from.rows, 1));
    Columns<C> v(from.rows, vectors ? from.rows : 0);
    m.load(from);
    set_info(info, at, general_eigen(m, w.data(), vectors ? &v : nullptr));
    store_vector<C>(w.data(), values, at);
    if (vectors) v.store(matrix_of<C>(*vectors, at));
  });
}

void svd(const View& a, const View* u, const View& s, const View* vh, const View& info,
         SvdDriver driver) {
  for_each_matrix("svd", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    using R = real_t<T>;
    Matrix<T> from = matrix_of<T>(a, at);
    int64_t few = std::min(from.rows, from.columns), none = 0;
    Columns<T> m(from.rows, from.columns);
    Columns<T> left(u ? from.rows : none, u ? u->sizes[u->ndim - 1] : none);
    Columns<T> right(u ? vh->sizes[vh->ndim - 2] : none, u ? from.columns : none);
    Buffer<R> values(std::max<int64_t>(few, 1)), superdiagonal(std::max<int64_t>(few, 1));
    m.load(from);
    if (!m.is_finite()) {
      // As in torch, singular values by themselves are NaN where there is an infinity.
      std::fill_n(values.data(), few, std::numeric_limits<R>::quiet_NaN());
      set_info(info, at, u || m.has_nan() ? not_finite : 0);
      return store_vector<R>(values.data(), s, at);
    }
    char job = !u ? 'N' : left.columns() == few && right.rows() == few ? 'S' : 'A';
    int code = 0;
    if (few == 0) {  // no singular values: any unitary bases will do
      for (int j = 0; j < left.columns(); ++j)
        for (int i = 0; i < left.rows(); ++i) left(i, j) = T(i == j);
      for (int j = 0; j < right.columns(); ++j)
        for (int i = 0; i < right.rows(); ++i) right(i, j) = T(i == j);
    } else if (driver == SvdDriver::DivideAndConquer) {
      code = Lapack<T>::gesdd(job, m.rows(), m.columns(), m.data(), m.ld(), values.data(),
                              left.data(), left.ld(), right.data(), right.ld());
    } else {
      code =
          Lapack<T>::gesvd(job, m.rows(), m.columns(), m.data(), m.ld(), values.data(), left.data(),
                           left.ld(), right.data(), right.ld(), superdiagonal.data());
    }
    set_info(info, at, code);
    store_vector<R>(values.data(), s, at);
    if (!u) return;
    left.store(matrix_of<T>(*u, at));
    right.store(matrix_of<T>(*vh, at));
  });
}

namespace {

template <class T>
int least_squares(const Columns<T>& a, const Columns<T>& b, real_t<T>* s, real_t<T> rcond,
                  int* rank, LstsqDriver driver) {
  int m = a.rows(), n = a.columns(), k = b.columns();
  switch (driver) {
    case LstsqDriver::Gels: return Lapack<T>::gels(m, n, k, a.data(), a.ld(), b.data(), b.ld());
    case LstsqDriver::Gelsy: {
      Buffer<int> free_columns(std::max(n, 1));
      std::fill_n(free_columns.data(), n, 0);
      return Lapack<T>::gelsy(m, n, k, a.data(), a.ld(), b.data(), b.ld(), free_columns.data(),
                              rcond, rank);
    }
    case LstsqDriver::Gelsd:
      return Lapack<T>::gelsd(m, n, k, a.data(), a.ld(), b.data(), b.ld(), s, rcond, rank);
    default: return Lapack<T>::gelss(m, n, k, a.data(), a.ld(), b.data(), b.ld(), s, rcond, rank);
  }
}

}  // namespace

void lstsq(const View& a, const View& b, const View& solution, const View* rank,
           const View* singular_values, double rcond, LstsqDriver driver, const View& info) {
  for_each_matrix("lstsq", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    using R = real_t<T>;
    Matrix<T> from = matrix_of<T>(a, at), right = matrix_of<T>(b, at);
    Columns<T> m(from.rows, from.columns), x(std::max(from.rows, from.columns), right.columns);
    Buffer<R> s(std::max<int64_t>(std::min(from.rows, from.columns), 1));
    m.load(from);
    std::fill_n(x.data(), int64_t(x.rows()) * x.columns(), T(0));
    x.load(right);
    int found = 0;
    bool trivial = from.rows == 0 || from.columns == 0;
    bool iterates = driver == LstsqDriver::Gelsd || driver == LstsqDriver::Gelss;
    if (iterates && !m.is_finite()) return set_info(info, at, not_finite);
    set_info(info, at,
             trivial ? 0 : least_squares<T>(m, x, s.data(), static_cast<R>(rcond), &found, driver));
    x.store(matrix_of<T>(solution, at));
    if (rank) *item_of<int64_t>(*rank, at, 0) = found;
    if (singular_values) store_vector<R>(s.data(), *singular_values, at);
  });
}

}  // namespace rl::kernels
