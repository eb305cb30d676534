#include "kernels/cross_entropy.h"

#include <vector>

#include "kernels/cpu/loss_total.h"
#include "kernels/cpu/softmax_lines.h"

namespace rl::kernels {
namespace {

template <class C> class Problem {
 public:
  Problem(const char* name, const CrossEntropy& given)
      : name_(name), given_(given), classes_(static_cast<size_t>(given.target.numel)) {
    const View &input = given.input, &target = given.target;
    bool fits = input.ndim >= 2 && target.ndim == input.ndim - 1;
    for (int64_t d = 0; fits && d < target.ndim; ++d)
      fits = target.sizes[d] == input.sizes[d == 0 ? 0 : d + 1];
    check(fits, name, ": target of sizes ", target.shape(), " does not go with an input of sizes ",
          input.shape());
    int64_t count = input.sizes[1];
    copy(target, InShapeOf<int64_t>(target, classes_.data()).view);
    for (int64_t& c : classes_) {
      if (c == given.ignore_index) {
        c = ignored;
        continue;
      }
      check_index(c >= 0 && c < count, name, ": Target ", c, " is out of bounds for ", count,
                  " classes");
    }
    if (!given.weight && !smooth()) return;
    weights_.resize(static_cast<size_t>(count), C(1));
    if (given.weight) copy(*given.weight, InShapeOf<C>(*given.weight, weights_.data()).view);
    for (C w : weights_) mass_ += w;
  }

  void forward(const View& out, const View& largest, const View& sums, const View& total_weight) {
    Scratch<C> losses(classes_.size()), used;
    InShapeOf<int64_t> classes(given_.target, classes_.data());
    InShapeOf<C> loss(given_.target, losses.data());
    SoftmaxLines<1, 4, false> lines(name_, {&given_.input}, 1,
                                    {&classes.view, &largest, &sums, &loss.view});
    lines.run([&](const SoftmaxTile& tile, char* const* p, const int64_t* strides) {
      C high[softmax_columns], sum[softmax_columns], logs[softmax_columns];
      C weighted[softmax_columns];
      softmax_sums(tile, p[0], strides[0], smooth() ? weights_.data() : nullptr, high, sum, logs,
                   weighted);
      for (int64_t j = 0; j < tile.width; ++j) {
        int64_t c = at<int64_t>(p[1], j, lines.step(0));
        at<C>(p[2], j, lines.step(1)) = high[j];
        at<C>(p[3], j, lines.step(2)) = sum[j];
        C score = c == ignored ? C(0) : reinterpret_cast<const C*>(p[0])[c * strides[0] + j];
        C value = hard(c) * ((high[j] - score) + logs[j]);
        if (smooth()) value += share(c) * (mass_ * logs[j] - weighted[j]);
        at<C>(p[4], j, lines.step(3)) = c == ignored ? C(0) : value;
      }
    });
    if (given_.reduction != Reduction::None)
      for (int64_t c : classes_) used.push_back(weight(c));
    store_losses(losses, used, given_.reduction, given_.target, out, total_weight);
  }

  // With p the softmax: p times the weight of the whole target, less the target.
  void backward(const View& grad, const View& largest, const View& sums, const View& total_weight,
                const View& grad_input) {
    Scratch<C> grads = loss_gradients<C>(grad, given_.reduction, given_.target, total_weight);
    InShapeOf<int64_t> classes(given_.target, classes_.data());
    InShapeOf<C> slope(given_.target, grads.data());
    SoftmaxLines<2, 4> lines(name_, {&given_.input, &grad_input}, 1,
                             {&classes.view, &largest, &sums, &slope.view});
    lines.run([&](const SoftmaxTile& tile, char* const* p, const int64_t* strides) {
      C high[softmax_columns], scale[softmax_columns], even[softmax_columns];
      for (int64_t j = 0; j < tile.width; ++j) {
        int64_t c = at<int64_t>(p[2], j, lines.step(0));
        C g = c == ignored ? C(0) : at<C>(p[5], j, lines.step(3));
        high[j] = at<C>(p[3], j, lines.step(1));
        even[j] = g * share(c);
        scale[j] = (g * hard(c) + even[j] * mass_) / at<C>(p[4], j, lines.step(2));
      }
      softmax_slopes(tile, p[0], strides[0], smooth() ? weights_.data() : nullptr, high, scale,
                     even, p[1], strides[1]);
      for (int64_t j = 0; j < tile.width; ++j) {
        int64_t c = at<int64_t>(p[2], j, lines.step(0));
        if (c == ignored) continue;
        reinterpret_cast<C*>(p[1])[c * strides[1] + j] -= at<C>(p[5], j, lines.step(3)) * hard(c);
      }
    });
  }

 private:
  static constexpr int64_t ignored = -1;

  template <class T> static T& at(char* first, int64_t j, int64_t step) {
    return *reinterpret_cast<T*>(first + j * step);
  }
  bool smooth() const { return given_.smoothing > 0; }
  C weight(int64_t c) const {
    if (c == ignored) return 0;
    return weights_.empty() ? C(1) : weights_[static_cast<size_t>(c)];
  }
  C hard(int64_t c) const { return C(1 - given_.smoothing) * weight(c); }
  C share(int64_t c) const {
    if (c == ignored) return 0;
    return C(given_.smoothing / static_cast<double>(given_.input.sizes[1]));
  }

  const char* name_;
  const CrossEntropy& given_;
  Scratch<int64_t> classes_;
  std::vector<C> weights_;  // empty where all are 1 and no sum of them is needed
  C mass_ = 0;
};

template <class F> void visit_compute(const CrossEntropy& given, F f) {
  if (given.input.dtype == DType::Float64) f(Problem<double>("cross_entropy", given));
  else f(Problem<float>("cross_entropy", given));
}

}  // namespace

void cross_entropy(const CrossEntropy& given, const View& out, const View& largest,
                   const View& sums, const View& total_weight) {
  visit_compute(given, [&](auto problem) { problem.forward(out, largest, sums, total_weight); });
}

void cross_entropy_backward(const CrossEntropy& given, const View& grad, const View& largest,
                            const View& sums, const View& total_weight, const View& grad_input) {
  visit_compute(given, [&](auto problem) {
    problem.backward(grad, largest, sums, total_weight, grad_input);
  });
}

}  // namespace rl::kernels
