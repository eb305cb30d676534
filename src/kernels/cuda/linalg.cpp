// Factorisations and solvers, on the host: the matrices are copied there, LAPACK works on them and
// the results are copied back. docs/cuda.md says so.
#include "kernels/linalg.h"

#include <vector>

#include "kernels/cuda/launch.h"

namespace rl::cuda {
namespace {

// An argument that the function of the host writes; all other views it reads.
struct Result {
  const View* view;
};
Result to(const View& v) { return {&v}; }
Result to(const View* v) { return {v}; }

// The device's memory of a view as contiguous memory of the host, for the length of a call.
class OnHost {
 public:
  OnHost(const Context& context, const View* given, bool written)
      : context_(context), given_(given), written_(written) {
    if (!given) return;
    memory_.resize(static_cast<size_t>(given->numel * itemsize(given->dtype)));
    strides_ = contiguous_strides(given->shape());
    view_ = View{memory_.data(), given->sizes, strides_.data(), given->ndim,
                 given->numel,   given->dtype, Device{}};
    if (written || memory_.empty()) return;
    Contiguous packed(context, *given);
    int device = context.device.index;
    CUstream stream = current_stream(device);
    note_waiting();
    {
      timeline::Piece piece("Memcpy DtoH", device, stream);
      RL_CUDA(cuMemcpyDtoHAsync_v2, memory_.data(), reinterpret_cast<CUdeviceptr>(packed.data()),
              memory_.size(), stream);
    }
    synchronize_stream(device, stream);
  }
  OnHost(const OnHost&) = delete;
  operator const View&() const { return view_; }
  operator const View*() const { return given_ ? &view_ : nullptr; }
  void finish() const {
    if (!given_ || !written_ || memory_.empty()) return;
    ContiguousResult packed(context_, *given_);
    upload(context_, packed.data(), memory_.data(), memory_.size());
    packed.finish();
  }

 private:
  const Context& context_;
  const View* given_;
  bool written_;
  std::vector<char> memory_;
  Dims strides_;
  View view_;
};

template <class T> struct Passed {  // a number
  Passed(const Context&, T value) : value(value) {}
  operator T() const { return value; }
  void finish() const {}
  T value;
};
template <> struct Passed<View> : OnHost {
  Passed(const Context& c, const View& v) : OnHost(c, &v, false) {}
};
template <> struct Passed<const View*> : OnHost {
  Passed(const Context& c, const View* v) : OnHost(c, v, false) {}
};
template <> struct Passed<Result> : OnHost {
  Passed(const Context& c, Result r) : OnHost(c, r.view, true) {}
};

template <class Function, class... Each> void call(Function function, const Each&... each) {
  function(each...);
  (each.finish(), ...);
}
template <class Function, class... Given>
void run(const Context& context, Function function, const Given&... given) {
  use(context.device.index);
  call(function, Passed<Given>(context, given)...);
}

}  // namespace

void cholesky(const Context& c, const View& a, const View& out, bool upper, const View& info) {
  run(c, kernels::cholesky, a, to(out), upper, to(info));
}
void lu_factor(const Context& c, const View& a, const View& lu, const View& pivots, bool pivot,
               const View& info) {
  run(c, kernels::lu_factor, a, to(lu), to(pivots), pivot, to(info));
}
void lu_solve(const Context& c, const View& lu, const View& pivots, const View& b, const View& out,
              bool left, kernels::Transpose op) {
  run(c, kernels::lu_solve, lu, pivots, b, to(out), left, op);
}
void lu_permutation(const Context& c, const View& pivots, const View& permutation) {
  run(c, kernels::lu_permutation, pivots, to(permutation));
}
void ldl_factor(const Context& c, const View& a, const View& ld, const View& pivots, bool hermitian,
                const View& info) {
  run(c, kernels::ldl_factor, a, to(ld), to(pivots), hermitian, to(info));
}
void ldl_solve(const Context& c, const View& ld, const View& pivots, const View& b, const View& out,
               bool hermitian) {
  run(c, kernels::ldl_solve, ld, pivots, b, to(out), hermitian);
}
void solve_triangular(const Context& c, const View& a, const View& b, const View& out, bool upper,
                      bool left, bool unitriangular) {
  run(c, kernels::solve_triangular, a, b, to(out), upper, left, unitriangular);
}
void inverse(const Context& c, const View& a, const View& out, const View& info) {
  run(c, kernels::inverse, a, to(out), to(info));
}
void lu_slogdet(const Context& c, const View& lu, const View& pivots, const View& sign,
                const View& logabsdet) {
  run(c, kernels::lu_slogdet, lu, pivots, to(sign), to(logabsdet));
}
void lu_det(const Context& c, const View& lu, const View& pivots, const View& det) {
  run(c, kernels::lu_det, lu, pivots, to(det));
}
void qr(const Context& c, const View& a, const View* q, const View& r) {
  run(c, kernels::qr, a, to(q), to(r));
}
void geqrf(const Context& c, const View& a, const View& out, const View& tau) {
  run(c, kernels::geqrf, a, to(out), to(tau));
}
void householder_product(const Context& c, const View& vectors, const View& tau, const View& out) {
  run(c, kernels::householder_product, vectors, tau, to(out));
}
void ormqr(const Context& c, const View& vectors, const View& tau, const View& other,
           const View& out, bool left, bool adjoint) {
  run(c, kernels::ormqr, vectors, tau, other, to(out), left, adjoint);
}
void eigh(const Context& c, const View& a, const View& values, const View* vectors, bool upper,
          const View& info) {
  run(c, kernels::eigh, a, to(values), to(vectors), upper, to(info));
}
void eig(const Context& c, const View& a, const View& values, const View* vectors,
         const View& info) {
  run(c, kernels::eig, a, to(values), to(vectors), to(info));
}
void svd(const Context& c, const View& a, const View* u, const View& s, const View* vh,
         const View& info, kernels::SvdDriver driver) {
  run(c, kernels::svd, a, to(u), to(s), to(vh), to(info), driver);
}
void lstsq(const Context& c, const View& a, const View& b, const View& solution, const View* rank,
           const View* singular_values, double rcond, kernels::LstsqDriver driver,
           const View& info) {
  run(c, kernels::lstsq, a, b, to(solution), to(rank), to(singular_values), rcond, driver,
      to(info));
}

}  // namespace rl::cuda
