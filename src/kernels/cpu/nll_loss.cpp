#include "kernels/nll_loss.h"

#include <algorithm>
#include <atomic>

#include "kernels/cpu/loss_total.h"
#include "kernels/cpu/offsets.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {
namespace {

// Targets in row-major order, each with the address of class 0 of its scores (a view whose dim 1
// holds the classes) and the index of the target.
class Targets {
 public:
  Targets(const char* name, const View& target, const View& scores, const View* weight,
          int64_t ignore_index)
      : name_(name), target_dtype_(target.dtype), weight_(weight), ignore_index_(ignore_index) {
    check(scores.ndim >= 2 && target.ndim == scores.ndim - 1, name, ": target of sizes ",
          target.shape(), " does not go with an input of sizes ", scores.shape());
    check(target.dtype == DType::Int64 || target.dtype == DType::UInt8, name,
          ": expected a target of dtype int64, got ", target.dtype);
    classes_ = scores.sizes[1];
    class_step_ = scores.strides[1] * itemsize(scores.dtype);
    check(!weight || (weight->numel == classes_ && weight->dtype == scores.dtype), name,
          ": weight tensor should be defined for all ", classes_, " classes in the input's dtype");
    walk_.base[0] = target.ptr<char>();
    walk_.base[1] = scores.ptr<char>();
    for (int64_t d = target.ndim - 1; d >= 0; --d) {
      int64_t s = d == 0 ? 0 : d + 1;
      check(target.sizes[d] == scores.sizes[s], name, ": target of sizes ", target.shape(),
            " does not go with an input of sizes ", scores.shape());
      walk_.add(target.sizes[d], {target.strides[d] * itemsize(target.dtype),
                                  scores.strides[s] * itemsize(scores.dtype)});
    }
    walk_.finish(false);
  }

  int64_t count() const { return walk_.numel; }

  // f(number, score address, weight) for each target that counts, ignored(number) for the others; T
  // is the scores' dtype.
  template <class T, class F, class G>
  void for_each(F&& f, G&& ignored) const {
    parallel_for(0, count(), default_grain / 4, [&](int64_t begin, int64_t end) {
      constexpr int64_t strip = 512;
      int64_t classes[strip], number = begin;
      walk_.range(begin, end, walk_.base, [&](char* const* p, int64_t n) {
        for (int64_t i = 0; i < n; i += strip) {
          int64_t m = std::min(strip, n - i), step = walk_.strides[0][0];
          load_strip(target_dtype_, p[0] + i * step, step, DType::Int64, classes, m);
          for_strip<T>(classes, m, p[1] + i * walk_.strides[1][0], number, f, ignored);
          number += m;
        }
      });
    });
  }

 private:
  // Local copies: f writes memory, and members would be read again after each.
  template <class T, class F, class G>
  void for_strip(const int64_t* classes, int64_t n, char* scores, int64_t first, F f,
                 G ignored) const {
    using C = compute_t<T>;
    const T* weights = weight_ ? weight_->ptr<T>() : nullptr;
    int64_t step = walk_.strides[1][0], class_step = class_step_, ignore_index = ignore_index_;
    bool inside = all_inside(classes, n, classes_, false);
    for (int64_t k = 0; k < n; ++k, scores += step) {
      int64_t c = classes[k];
      if (c == ignore_index) {
        ignored(first + k);
        continue;
      }
      if (!inside)
        check_index(c >= 0 && c < classes_, name_, ": Target ", c, " is out of bounds for ",
                    classes_, " classes");
      f(first + k, reinterpret_cast<T*>(scores + c * class_step), weights ? C(weights[c]) : C(1));
    }
  }

  const char* name_;
  DType target_dtype_;
  const View* weight_;
  int64_t ignore_index_, classes_, class_step_;
  StridedIterator<2> walk_;  // target, scores
};

}  // namespace

void nll_loss(const View& input, const View& target, const View* weight, int64_t ignore_index,
              Reduction reduction, const View& out, const View& total_weight) {
  Targets targets("nll_loss", target, input, weight, ignore_index);
  visit_floating("nll_loss", input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    Scratch<C> losses(static_cast<size_t>(targets.count())), weights;
    bool weighted = weight && reduction != Reduction::None;
    if (weighted) weights.resize(losses.size());
    C *loss = losses.data(), *used = weights.data();
    std::atomic<int64_t> ignored = 0;
    targets.template for_each<T>(
        [=](int64_t i, const T* score, C w) {
          loss[i] = -C(*score) * w;
          if (weighted) used[i] = w;
        },
        [=, &ignored](int64_t i) {
          loss[i] = 0;
          if (weighted) used[i] = 0;
          ++ignored;
        });
    C weight_sum = weighted ? total(weights) : static_cast<C>(targets.count() - ignored);
    store_losses(losses, weight_sum, reduction, target, out, total_weight);
  });
}

void nll_loss_backward(const View& grad, const View& target, const View* weight,
                       int64_t ignore_index, Reduction reduction, const View& total_weight,
                       const View& grad_input) {
  Targets targets("nll_loss_backward", target, grad_input, weight, ignore_index);
  fill(grad_input, 0);
  visit_floating("nll_loss_backward", grad_input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    Scratch<C> grads = loss_gradients<C>(grad, reduction, target, total_weight);
    const C* slopes = grads.data();
    targets.template for_each<T>([=](int64_t i, T* to, C w) { *to = T(-w * slopes[i]); },
                                 [](int64_t) {});
  });
}

}  // namespace rl::kernels
