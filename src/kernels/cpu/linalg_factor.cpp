// Orthogonal factorisations, eigenvalues, singular values and least squares.
#include <cmath>
#include <limits>

#include "kernels/cpu/lapack.h"
#include "kernels/cpu/reflectors.h"
#include "kernels/linalg.h"

namespace rl::kernels {
namespace {

template <class Tag> using type_of = typename Tag::type;

// Matrices of this many rows and columns cost the library more in calls than in work.
constexpr int most_small = 16;

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
template <class R> int general_eigen(const Columns<std::complex<R>>& a, std::complex<R>* w,
                                     const Columns<std::complex<R>>* v) {
  return geev(v ? 'V' : 'N', a.rows(), a.data(), a.ld(), w, v ? v->data() : nullptr);
}
// ... and of the real ones two columns, real and imaginary part, for each conjugate pair.
template <class R>
int general_eigen(const Columns<R>& a, std::complex<R>* w, const Columns<std::complex<R>>* v) {
  int n = a.rows();
  Buffer<R> wr(std::max(n, 1)), wi(std::max(n, 1));
  Columns<R> packed(n, v ? n : 0);
  int code = geev(v ? 'V' : 'N', n, a.data(), a.ld(), wr.data(), wi.data(),
                  v ? packed.data() : static_cast<R*>(nullptr));
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
