// Mixed-radix Stockham transforms; lengths with a large prime factor go through Bluestein's
// convolution (Bluestein, "A linear filtering approach to the computation of the discrete Fourier
// transform", 1970).
#include "kernels/fft.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <memory>
#include <vector>

#include "core/fork_mutex.h"
#include "core/parallel.h"
#include "kernels/workspace.h"

namespace rl::kernels {
namespace {

constexpr int64_t largest_radix = 31;  // a butterfly of radix r costs r^2

template <class C> class Plan {
 public:
  using R = real_t<C>;
  explicit Plan(int64_t n) : n_(n) {
    int64_t rest = n;
    for (int64_t radix : {4, 2, 3, 5})
      for (; rest % radix == 0; rest /= radix) radices_.push_back(radix);
    for (int64_t radix = 7; radix <= largest_radix; radix += 2)
      for (; rest % radix == 0; rest /= radix) radices_.push_back(radix);
    if (rest == 1) {
      for (int64_t t = 0; t < n; ++t) roots_.push_back(unit_root(t, n));
    } else {
      prepare_convolution();
    }
  }

  int64_t size() const { return n_; }
  int64_t scratch() const { return convolution_ ? 3 * convolution_->size() : n_; }

  // Transforms x in place, forward and unscaled.
  void run(C* x, C* scratch) const {
    if (convolution_) return convolve(x, scratch);
    C *from = x, *to = scratch;
    int64_t done = 1;
    for (int64_t radix : radices_) {
      stage(from, to, done, radix);
      std::swap(from, to);
      done *= radix;
    }
    if (from != x) std::copy_n(from, n_, x);
  }

 private:
  static C unit_root(int64_t t, int64_t n) {
    double angle = -2 * M_PI * static_cast<double>(t) / static_cast<double>(n);
    return C(static_cast<R>(std::cos(angle)), static_cast<R>(std::sin(angle)));
  }

  // `from` holds transforms of length `done` of the n / done subsequences; `to` gets those of
  // length done * radix: Y[k + p done] = sum over q of root^(q k) X_q[k] exp(-2 pi i p q / radix).
  void stage(const C* from, C* to, int64_t done, int64_t radix) const {
    int64_t groups = n_ / (done * radix), step = n_ / radix;
    for (int64_t j = 0; j < groups; ++j)
      for (int64_t k = 0; k < done; ++k) {
        C t[largest_radix];
        C* y = to + j * done * radix + k;
        for (int64_t q = 0; q < radix; ++q) {
          C value = from[(q * groups + j) * done + k];
          t[q] = q && k ? value * roots_[q * k * groups] : value;
        }
        if (radix == 2) {
          y[0] = t[0] + t[1];
          y[done] = t[0] - t[1];
        } else if (radix == 4) {
          C even = t[0] + t[2], odd = t[0] - t[2], sum = t[1] + t[3], difference = t[1] - t[3];
          C turned(difference.imag(), -difference.real());  // times -i
          y[0] = even + sum;
          y[done] = odd + turned;
          y[2 * done] = even - sum;
          y[3 * done] = odd - turned;
        } else {
          for (int64_t p = 0; p < radix; ++p) {
            C total = t[0];
            for (int64_t q = 1; q < radix; ++q) total += t[q] * roots_[p * q % radix * step];
            y[p * done] = total;
          }
        }
      }
  }

  // j k = (j^2 + k^2 - (k - j)^2) / 2 turns the sum into a convolution with a chirp.
  void prepare_convolution() {
    int64_t m = 1;
    while (m < 2 * n_ - 1) m *= 2;
    convolution_ = std::make_unique<Plan>(m);
    for (int64_t j = 0; j < n_; ++j) chirp_.push_back(unit_root(square_modulo(j), 2 * n_));
    filter_.assign(static_cast<size_t>(m), C(0));
    for (int64_t j = 0; j < n_; ++j) {
      filter_[j] = std::conj(chirp_[j]);
      if (j) filter_[m - j] = filter_[j];
    }
    std::vector<C> scratch(static_cast<size_t>(m));
    convolution_->run(filter_.data(), scratch.data());
  }
  int64_t square_modulo(int64_t j) const {
    return static_cast<int64_t>(static_cast<unsigned __int128>(j) * static_cast<uint64_t>(j) %
                                static_cast<uint64_t>(2 * n_));
  }
  void convolve(C* x, C* scratch) const {
    int64_t m = convolution_->size();
    C *a = scratch, *rest = scratch + m;
    for (int64_t j = 0; j < m; ++j) a[j] = j < n_ ? x[j] * chirp_[j] : C(0);
    convolution_->run(a, rest);
    for (int64_t j = 0; j < m; ++j)
      a[j] = std::conj(a[j] * filter_[j]);  // the inverse, by conjugation
    convolution_->run(a, rest);
    R scale = R(1) / static_cast<R>(m);
    for (int64_t k = 0; k < n_; ++k) x[k] = std::conj(a[k]) * scale * chirp_[k];
  }

  int64_t n_;
  std::vector<int64_t> radices_;
  std::vector<C> roots_, chirp_, filter_;
  std::unique_ptr<Plan> convolution_;
};

// The plans used last; sines and cosines cost more than a transform.
template <class C> std::shared_ptr<const Plan<C>> plan_for(int64_t n) {
  constexpr size_t kept = 16;
  static ForkMutex mutex(ForkRank::Plans);
  static std::list<std::shared_ptr<const Plan<C>>> plans;
  ForkLock lock(mutex);
  for (auto at = plans.begin(); at != plans.end(); ++at)
    if ((*at)->size() == n) {
      plans.splice(plans.begin(), plans, at);
      return plans.front();
    }
  plans.push_front(std::make_shared<const Plan<C>>(n));
  if (plans.size() > kept) plans.pop_back();
  return plans.front();
}

}  // namespace

void fft(const View& in, const View& out, bool inverse, double scale) {
  int64_t n = in.sizes[in.ndim - 1];
  if (in.numel == 0) return;
  visit<complex64, complex128>("fft", in.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    auto plan = plan_for<C>(n);
    auto factor = static_cast<real_t<C>>(scale);
    parallel_for(0, in.numel / n, std::max<int64_t>(default_grain / (8 * n), 1),
                 [&](int64_t begin, int64_t end) {
                   Buffer<C> scratch(plan->scratch());
                   for (int64_t row = begin; row < end; ++row) {
                     const C* from = in.ptr<C>() + row * n;
                     C* to = out.ptr<C>() + row * n;
                     for (int64_t i = 0; i < n; ++i) to[i] = inverse ? std::conj(from[i]) : from[i];
                     plan->run(to, scratch.data());
                     for (int64_t i = 0; i < n; ++i)
                       to[i] = (inverse ? std::conj(to[i]) : to[i]) * factor;
                   }
                 });
  });
}

}  // namespace rl::kernels
