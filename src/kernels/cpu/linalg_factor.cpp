// Orthogonal factorisations, eigenvalues, singular values and least squares.
#include <cmath>
#include <limits>

#include "kernels/cpu/lapack.h"
#include "kernels/cpu/linalg_lanes.h"
#include "kernels/cpu/reflectors.h"
#include "kernels/cpu/row_qr.h"
#include "kernels/linalg.h"

namespace rl::kernels {
namespace {

template <class Tag> using type_of = typename Tag::type;

// Matrices of this many rows and columns cost the library more in calls than in work.
constexpr int most_small = 16;

double product(int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// Routines that may take long, which the user can stop.

template <class T> void factor_qr(int columns, Columns<T>& a, Buffer<T>& tau) {
  interruptible_call(
      2 * product(a.rows(), columns, std::min(a.rows(), columns)),
      [columns](Columns<T>& m, Buffer<T>& scales) {
        return Lapack<T>::geqrf(m.rows(), columns, m.data(), m.ld(), scales.data());
      },
      a, tau);
}
template <class T> void make_q(int columns, int count, Columns<T>& a, Buffer<T>& tau) {
  interruptible_call(
      2 * product(a.rows(), columns, count),
      [columns, count](Columns<T>& m, Buffer<T>& scales) {
        return Lapack<T>::orgqr(m.rows(), columns, count, m.data(), m.ld(), scales.data());
      },
      a, tau);
}

// What is written in rows: `to` itself, or rows that become it.
template <class T, class F> void by_rows(const Matrix<T>& to, F&& f) {
  if (to.column_step == 1) return f(to);
  Rows<T> m(to.rows, to.columns);
  f(m.matrix());
  copy_matrix(m.matrix(), to);
}
// R, of what a factorisation left.
template <class T> void take_upper(const Matrix<T>& from, const Matrix<T>& upper) {
  for (int64_t i = 0; i < upper.rows; ++i) {
    const T* row = from.data + i * from.row_step;
    T* to = upper.data + i * upper.row_step;
    for (int64_t j = 0; j < upper.columns; ++j, row += from.column_step, to += upper.column_step)
      *to = i <= j ? *row : T(0);
  }
}
// Of a few columns most lanes of a panel's rows are idle: where there are many rows, LAPACK is then
// quicker (1,000 x 3: 10 us, by panels 22).
template <class T> bool fills_panels(const Matrix<T>& a) { return a.columns > 8 || a.rows <= 128; }

template <class T> bool qr_by_rows(const Matrix<T>& a, const Matrix<T>* q, const Matrix<T>& r) {
  if (!fills_panels(a)) return false;
  Factored<T> m(a);
  if (!m.in_range) return false;
  take_upper(m.r(), r);
  if (q) by_rows(*q, [&](const Matrix<T>& made) { m.reflectors.make_q(made); });
  return true;
}

}  // namespace

void qr(const View& a, const View* q, const View& r) {
  if (qr_in_lanes(a, q, r)) return;
  for_each_matrix("qr", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at), upper = matrix_of<T>(r, at);
    if constexpr (!is_complex_v<T>) {
      Matrix<T> basis = q ? matrix_of<T>(*q, at) : upper;
      if (qr_by_rows(from, q ? &basis : nullptr, upper)) return;
    }
    int64_t width = q ? q->sizes[q->ndim - 1] : 0;
    Columns<T> m(from.rows, std::max(from.columns, width));
    int reflectors = static_cast<int>(std::min(from.rows, from.columns));
    Buffer<T> tau(std::max(reflectors, 1));
    m.load(from);
    int columns = static_cast<int>(from.columns);
    bool small = std::max(m.rows(), m.columns()) <= most_small;
    if (small) factor_by_reflectors(m, columns, tau.data());
    else factor_qr(columns, m, tau);
    take_upper({m.data(), m.rows(), m.columns(), 1, m.rows()}, upper);
    if (!q) return;
    if (small) multiply_reflectors(m, reflectors, tau.data());
    else make_q(static_cast<int>(width), reflectors, m, tau);
    m.store(matrix_of<T>(*q, at));
  });
}

void geqrf(const View& a, const View& out, const View& tau) {
  if (geqrf_in_lanes(a, out, tau)) return;
  for_each_matrix("geqrf", a, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(a, at);
    if constexpr (!is_complex_v<T>)
      if (fills_panels(from)) {
        Factored<T> m(from);
        if (m.in_range) {
          copy_matrix(m.r(), matrix_of<T>(out, at));
          return store_vector<T>(m.reflectors.tau(), tau, at);
        }
      }
    Columns<T> m(from.rows, from.columns);
    Buffer<T> scales(std::max<int64_t>(std::min(from.rows, from.columns), 1));
    m.load(from);
    factor_qr(m.columns(), m, scales);
    m.store(matrix_of<T>(out, at));
    store_vector<T>(scales.data(), tau, at);
  });
}

void householder_product(const View& vectors, const View& tau, const View& out) {
  if (householder_product_in_lanes(vectors, tau, out)) return;
  for_each_matrix("householder_product", vectors, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(vectors, at);
    int64_t count = tau.sizes[tau.ndim - 1];
    Buffer<T> scales(std::max<int64_t>(count, 1));
    load_vector<T>(tau, at, scales.data());
    if constexpr (!is_complex_v<T>) {
      RowQr<T> reflectors(from.rows, count);
      reflectors.load(from, scales.data());
      return by_rows(matrix_of<T>(out, at), [&](const Matrix<T>& q) { reflectors.make_q(q); });
    }
    Columns<T> m(from.rows, from.columns);
    m.load(from);
    make_q(m.columns(), static_cast<int>(count), m, scales);
    m.store(matrix_of<T>(out, at));
  });
}

void ormqr(const View& vectors, const View& tau, const View& c, const View& out, bool left,
           bool adjoint) {
  for_each_matrix("ormqr", vectors, [&](auto tag, int64_t at) {
    using T = type_of<decltype(tag)>;
    Matrix<T> from = matrix_of<T>(vectors, at), right = matrix_of<T>(c, at);
    int64_t count = tau.sizes[tau.ndim - 1];
    Buffer<T> scales(std::max<int64_t>(count, 1));
    load_vector<T>(tau, at, scales.data());
    if constexpr (!is_complex_v<T>) {  // x Q is (Q^T x^T)^T
      RowQr<T> reflectors(from.rows, count);
      Matrix<T> given = left ? right : turned(right), made = matrix_of<T>(out, at);
      Rows<T> x(given.rows, given.columns);
      reflectors.load(from, scales.data());
      copy_matrix(given, x.matrix());
      reflectors.multiply(x.matrix(), left == adjoint);
      return copy_matrix(x.matrix(), left ? made : turned(made));
    }
    Columns<T> m(from.rows, from.columns), x(right.rows, right.columns);
    m.load(from);
    x.load(right);
    char op = !adjoint ? 'N' : is_complex_v<T> ? 'C' : 'T';
    interruptible_call(
        2 * product(x.rows(), x.columns(), count),
        [left, op, k = static_cast<int>(count)](Columns<T>& v, Buffer<T>& factors, Columns<T>& y) {
          return Lapack<T>::ormqr(left ? 'L' : 'R', op, y.rows(), y.columns(), k, v.data(), v.ld(),
                                  factors.data(), y.data(), y.ld());
        },
        m, scales, x);
    x.store(matrix_of<T>(out, at));
  });
}

namespace {

template <class T>
void eigh_of(const View& a, const View& values, const View* vectors, bool upper, const View& info,
             int64_t at) {
  Matrix<T> from = matrix_of<T>(a, at);
  Columns<T> m(from.rows, from.columns);
  Buffer<real_t<T>> w(std::max<int64_t>(from.rows, 1));
  m.load(from);
  int code = interruptible_call(
      5 * product(m.rows(), m.rows(), m.rows()),
      [job = vectors ? 'V' : 'N', part = upper ? 'U' : 'L'](Columns<T>& x,
                                                            Buffer<real_t<T>>& found) {
        return Lapack<T>::eigh(job, part, x.rows(), x.data(), x.ld(), found.data());
      },
      m, w);
  set_info(info, at, code);
  store_vector<real_t<T>>(w.data(), values, at);
  if (vectors) m.store(matrix_of<T>(*vectors, at));
}

// What is done with matrices that lanes leave to others: one(TypeTag, at).
template <class F> OneMatrix outside_lanes(DType dtype, F one) {
  return [=](int64_t at) {
    LibraryCall call;
    visit<float, double>("linalg", dtype, [&](auto tag) { one(tag, at); });
  };
}

}  // namespace

void eigh(const View& a, const View& values, const View* vectors, bool upper, const View& info) {
  auto one = [&](auto tag, int64_t at) {
    eigh_of<type_of<decltype(tag)>>(a, values, vectors, upper, info, at);
  };
  if (eigh_in_lanes(a, values, vectors, upper, info, outside_lanes(a.dtype, one))) return;
  for_each_matrix("eigh", a, one);
}

namespace {

// geev of the complex types gives complex pairs at once ...
template <class R> int general_eigen(const Columns<std::complex<R>>& a, std::complex<R>* w,
                                     const Columns<std::complex<R>>& v) {
  bool wanted = v.columns() > 0;
  return geev(wanted ? 'V' : 'N', a.rows(), a.data(), a.ld(), w, wanted ? v.data() : nullptr);
}
// ... and of the real ones two columns, real and imaginary part, for each conjugate pair.
template <class R>
int general_eigen(const Columns<R>& a, std::complex<R>* w, const Columns<std::complex<R>>& v) {
  int n = a.rows();
  bool wanted = v.columns() > 0;
  Buffer<R> wr(std::max(n, 1)), wi(std::max(n, 1));
  Columns<R> packed(n, v.columns());
  int code = geev(wanted ? 'V' : 'N', n, a.data(), a.ld(), wr.data(), wi.data(),
                  wanted ? packed.data() : static_cast<R*>(nullptr));
  for (int j = 0; j < n; ++j) w[j] = {wr[j], wi[j]};
  if (!wanted) return code;
  for (int j = 0; j < n; ++j) {
    bool pair = wi[j] != R(0) && j + 1 < n;
    for (int i = 0; i < n; ++i) {
      R re = packed(i, j), im = pair ? packed(i, j + 1) : R(0);
      v(i, j) = {re, im};
      if (pair) v(i, j + 1) = {re, -im};
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
    int code = interruptible_call(
        10 * product(m.rows(), m.rows(), m.rows()),
        [](Columns<T>& x, Buffer<C>& found, Columns<C>& columns) {
          return general_eigen(x, found.data(), columns);
        },
        m, w, v);
    set_info(info, at, code);
    store_vector<C>(w.data(), values, at);
    if (vectors) v.store(matrix_of<C>(*vectors, at));
  });
}

namespace {

template <class T>
int singular_values(char job, SvdDriver driver, Columns<T>& a, Buffer<real_t<T>>& s, Columns<T>& u,
                    Columns<T>& vh) {
  return interruptible_call(
      8 * product(a.rows(), a.columns(), std::min(a.rows(), a.columns())),
      [job, driver](Columns<T>& m, Buffer<real_t<T>>& values, Columns<T>& left, Columns<T>& right) {
        int rows = m.rows(), columns = m.columns();
        if (driver == SvdDriver::DivideAndConquer)
          return Lapack<T>::gesdd(job, rows, columns, m.data(), m.ld(), values.data(), left.data(),
                                  left.ld(), right.data(), right.ld());
        Buffer<real_t<T>> superdiagonal(std::min(rows, columns));
        return Lapack<T>::gesvd(job, rows, columns, m.data(), m.ld(), values.data(), left.data(),
                                left.ld(), right.data(), right.ld(), superdiagonal.data());
      },
      a, s, u, vh);
}

// Of a matrix with many more rows than columns: R has its singular values and right vectors, and Q
// turns the left ones. False, and nothing done, where squares of elements leave the range of T.
template <class T>
bool svd_by_qr(const Matrix<T>& a, const Matrix<T>* u, Buffer<T>& s, const Matrix<T>& vh,
               SvdDriver driver, int* code) {
  int64_t n = a.columns, vectors = u ? n : 0;
  Factored<T> m(a);
  if (!m.in_range) return false;
  Columns<T> r(n, n), left(vectors, vectors), right(vectors, vectors);
  take_upper(m.r(), {r.data(), n, n, 1, n});
  *code = singular_values(u ? 'S' : 'N', driver, r, s, left, right);
  if (!u) return true;
  right.store(vh);
  by_rows(*u, [&](const Matrix<T>& made) {
    set_identity(made);
    left.store(part_of(made, 0, 0, n, n));
    m.reflectors.multiply(made, false);
  });
  return true;
}

template <class T>
bool svd_by_qr(const View& a, const View* u, const View& s, const View* vh, const View& info,
               SvdDriver driver, int64_t at) {
  Matrix<T> from = matrix_of<T>(a, at);
  int64_t few = std::min(from.rows, from.columns);
  if (few == 0 || std::max(from.rows, from.columns) < 2 * few) return false;
  bool tall = from.rows > from.columns;
  Matrix<T> left = from, right = from;
  if (u) left = matrix_of<T>(*u, at), right = matrix_of<T>(*vh, at);
  Matrix<T> vectors = tall ? left : turned(right);
  Buffer<T> values(few);
  int code = 0;
  if (!svd_by_qr(tall ? from : turned(from), u ? &vectors : nullptr, values,
                 tall ? right : turned(left), driver, &code))
    return false;
  set_info(info, at, code);
  store_vector<T>(values.data(), s, at);
  return true;
}

template <class T>
void svd_of(const View& a, const View* u, const View& s, const View* vh, const View& info,
            SvdDriver driver, int64_t at) {
  using R = real_t<T>;
  if constexpr (!is_complex_v<T>)
    if (svd_by_qr<T>(a, u, s, vh, info, driver, at)) return;
  Matrix<T> from = matrix_of<T>(a, at);
  int64_t few = std::min(from.rows, from.columns), none = 0;
  Columns<T> m(from.rows, from.columns);
  Columns<T> left(u ? from.rows : none, u ? u->sizes[u->ndim - 1] : none);
  Columns<T> right(u ? vh->sizes[vh->ndim - 2] : none, u ? from.columns : none);
  Buffer<R> values(std::max<int64_t>(few, 1));
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
  } else {
    code = singular_values(job, driver, m, values, left, right);
  }
  set_info(info, at, code);
  store_vector<R>(values.data(), s, at);
  if (!u) return;
  left.store(matrix_of<T>(*u, at));
  right.store(matrix_of<T>(*vh, at));
}

}  // namespace

void svd(const View& a, const View* u, const View& s, const View* vh, const View& info,
         SvdDriver driver) {
  auto one = [&](auto tag, int64_t at) {
    svd_of<type_of<decltype(tag)>>(a, u, s, vh, info, driver, at);
  };
  if (svd_in_lanes(a, u, s, vh, info, outside_lanes(a.dtype, one))) return;
  for_each_matrix("svd", a, one);
}

namespace {

template <class T>
int call_driver(const Columns<T>& a, const Columns<T>& b, real_t<T>* s, real_t<T> rcond, int* rank,
                LstsqDriver driver) {
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
template <class T>
int least_squares(Columns<T>& a, Columns<T>& b, Buffer<real_t<T>>& s, real_t<T> rcond,
                  Buffer<int>& rank, LstsqDriver driver) {
  int most = std::max(a.columns(), b.columns());
  return interruptible_call(
      4 * product(a.rows(), a.columns(), most),
      [rcond, driver](Columns<T>& m, Columns<T>& x, Buffer<real_t<T>>& values, Buffer<int>& found) {
        return call_driver(m, x, values.data(), rcond, found.data(), driver);
      },
      a, b, s, rank);
}

// Whether the condition of R is at most so much, in a norm that is at least what it is in LAPACK's:
// its inverse's columns, a few at a time.
template <class T> bool is_conditioned(const Matrix<T>& r, double most) {
  constexpr int64_t together = 64;
  double size = 0, of_inverse = 0;
  for (int64_t at = 0; at < r.rows; at += together) {
    int64_t width = std::min(together, r.rows - at), rows = at + width;
    Rows<T> inverse(rows, width);
    Matrix<T> x = inverse.matrix();
    set_identity(part_of(x, at, 0, width, width));
    if (at > 0) std::fill_n(x.data, at * width, T(0));
    solve_triangle<T>(reading(part_of(r, 0, 0, rows, rows)), true, false, x);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; ++j) {
        if (i <= at + j) size += double(r(i, at + j)) * double(r(i, at + j));
        of_inverse += double(x(i, j)) * double(x(i, j));
      }
  }
  return std::sqrt(size) * std::sqrt(of_inverse) <= most;
}

// By Q R of a, or of its transpose where it has fewer rows than columns. False, and nothing done,
// where the rank is not plain to see.
template <class T>
bool lstsq_by_rows(const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& solution,
                   double rcond) {
  const bool tall = a.rows >= a.columns;
  const int64_t few = std::min(a.rows, a.columns), many = std::max(a.rows, a.columns);
  const double most = 0.1 / std::max<double>(rcond, std::numeric_limits<T>::epsilon());
  Factored<T> m(tall ? a : turned(a));
  Rows<T> x(many, b.columns);
  Matrix<T> r = part_of(m.r(), 0, 0, few, few), head = part_of(x.matrix(), 0, 0, few, b.columns);
  if (!m.in_range || !is_conditioned(r, most)) return false;
  copy_matrix(b, part_of(x.matrix(), 0, 0, a.rows, b.columns));
  if (tall) {
    m.reflectors.multiply(x.matrix(), true);
    solve_triangle<T>(reading(r), true, false, head);
  } else {
    solve_triangle<T>(reading(turned(r)), false, false, head);
    std::fill_n(&x.matrix()(few, 0), (many - few) * b.columns, T(0));
    m.reflectors.multiply(x.matrix(), false);
  }
  copy_matrix(part_of(x.matrix(), 0, 0, solution.rows, b.columns), solution);
  return true;
}

template <class T>
void lstsq_of(const View& a, const View& b, const View& solution, const View* rank,
              const View* singular_values, double rcond, LstsqDriver driver, const View& info,
              int64_t at) {
  using R = real_t<T>;
  Matrix<T> from = matrix_of<T>(a, at), right = matrix_of<T>(b, at);
  bool trivial = from.rows == 0 || from.columns == 0;
  bool iterates = driver == LstsqDriver::Gelsd || driver == LstsqDriver::Gelss;
  if constexpr (!is_complex_v<T>)
    if (!iterates && !trivial && lstsq_by_rows(from, right, matrix_of<T>(solution, at), rcond)) {
      set_info(info, at, 0);
      if (rank) *item_of<int64_t>(*rank, at, 0) = std::min(from.rows, from.columns);
      return;
    }
  Columns<T> m(from.rows, from.columns), x(std::max(from.rows, from.columns), right.columns);
  Buffer<R> s(std::max<int64_t>(std::min(from.rows, from.columns), 1));
  m.load(from);
  std::fill_n(x.data(), int64_t(x.rows()) * x.columns(), T(0));
  x.load(right);
  Buffer<int> found(1);
  found[0] = 0;
  if (iterates && !m.is_finite()) return set_info(info, at, not_finite);
  int code = trivial ? 0 : least_squares<T>(m, x, s, static_cast<R>(rcond), found, driver);
  set_info(info, at, code);
  x.store(matrix_of<T>(solution, at));
  if (rank) *item_of<int64_t>(*rank, at, 0) = found[0];
  if (singular_values) store_vector<R>(s.data(), *singular_values, at);
}

}  // namespace

void lstsq(const View& a, const View& b, const View& solution, const View* rank,
           const View* singular_values, double rcond, LstsqDriver driver, const View& info) {
  auto one = [&](auto tag, int64_t at) {
    lstsq_of<type_of<decltype(tag)>>(a, b, solution, rank, singular_values, rcond, driver, info,
                                     at);
  };
  if (lstsq_in_lanes(a, b, solution, rank, rcond, driver, info, outside_lanes(a.dtype, one)))
    return;
  for_each_matrix("lstsq", a, one);
}

}  // namespace rl::kernels
