#include "kernels/cross_entropy.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/loss_total.h"
#include "kernels/cpu/offsets.h"
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
    bool none_ignored = given.ignore_index < 0 || given.ignore_index >= count;
    bool all_count = none_ignored && all_inside(classes_.data(), given.target.numel, count, false);
    for (int64_t& c : classes_) {
      if (all_count) break;
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
    Scratch<C> losses(classes_.size());
    InShapeOf<int64_t> classes(given_.target, classes_.data());
    InShapeOf<C> loss(given_.target, losses.data());
    SoftmaxLines<1, 4, false> lines(name_, {&given_.input}, 1, 128,
                                    {&classes.view, &largest, &sums, &loss.view});
    lines.run(
        [&, target = split()](const SoftmaxTile& tile, char* const* p, const int64_t* strides) {
          C high[softmax_columns], sum[softmax_columns], logs[softmax_columns];
          C weighted[softmax_columns];
          int64_t row = strides[0], steps[4];
          for (int k = 0; k < 4; ++k) steps[k] = lines.step(k);
          softmax_sums(tile, p[0], strides[0], smooth() ? weights_.data() : nullptr, high, sum,
                       logs, weighted);
          const C* scores = reinterpret_cast<const C*>(p[0]);
          for (int64_t j = 0; j < tile.width; ++j) {
            int64_t c = at<int64_t>(p[1], j, steps[0]);
            at<C>(p[2], j, steps[1]) = high[j];
            at<C>(p[3], j, steps[2]) = sum[j];
            C score = c == ignored ? C(0) : scores[tile.offset(j, c, row)];
            C value = target.hard(c) * ((high[j] - score) + logs[j]);
            if (target.even != 0) value += target.even * (target.mass * logs[j] - weighted[j]);
            at<C>(p[4], j, steps[3]) = c == ignored ? C(0) : value;
          }
        });
    C weight_sum = given_.reduction == Reduction::None ? C(0) : sum_of_weights();
    store_losses(losses, weight_sum, given_.reduction, given_.target, out, total_weight);
  }

  // With p the softmax: p times the weight of the whole target, less the target.
  void backward(const View& grad, const View& largest, const View& sums, const View& total_weight,
                const View& grad_input) {
    Scratch<C> grads = loss_gradients<C>(grad, given_.reduction, given_.target, total_weight);
    InShapeOf<int64_t> classes(given_.target, classes_.data());
    InShapeOf<C> slope(given_.target, grads.data());
    SoftmaxLines<2, 4> lines(name_, {&given_.input, &grad_input}, 1, 32,
                             {&classes.view, &largest, &sums, &slope.view});
    lines.run(
        [&, target = split()](const SoftmaxTile& tile, char* const* p, const int64_t* strides) {
          C high[softmax_columns], scale[softmax_columns], even[softmax_columns];
          int64_t row = strides[1], steps[4];
          for (int k = 0; k < 4; ++k) steps[k] = lines.step(k);
          for (int64_t j = 0; j < tile.width; ++j) {
            int64_t c = at<int64_t>(p[2], j, steps[0]);
            C g = c == ignored ? C(0) : at<C>(p[5], j, steps[3]);
            high[j] = at<C>(p[3], j, steps[1]);
            even[j] = g * target.even;
            scale[j] = (g * target.hard(c) + even[j] * target.mass) / at<C>(p[4], j, steps[2]);
          }
          softmax_slopes(tile, p[0], strides[0], smooth() ? weights_.data() : nullptr, high, scale,
                         even, p[1], strides[1]);
          C* slopes = reinterpret_cast<C*>(p[1]);
          for (int64_t j = 0; j < tile.width; ++j) {
            int64_t c = at<int64_t>(p[2], j, steps[0]);
            if (c != ignored)
              slopes[tile.offset(j, c, row)] -= at<C>(p[5], j, steps[3]) * target.hard(c);
          }
        });
  }

 private:
  static constexpr int64_t ignored = -1;

  template <class T> static T& at(char* first, int64_t j, int64_t step) {
    return *reinterpret_cast<T*>(first + j * step);
  }
  bool smooth() const { return given_.smoothing > 0; }
  C sum_of_weights() const {
    if (weights_.empty())
      return static_cast<C>(classes_.end() - classes_.begin() -
                            std::count(classes_.begin(), classes_.end(), ignored));
    Scratch<C> used(classes_.size());
    for (size_t i = 0; i < used.size(); ++i)
      used[i] = classes_[i] == ignored ? C(0) : weights_[static_cast<size_t>(classes_[i])];
    return total(used);
  }
  // What the target has of its own class, by its weight, and evenly of each by theirs. A copy, so
  // that loops need not look for it again after each store.
  struct Split {
    C sharp, even, mass;
    const C* weights;
    C hard(int64_t c) const {
      if (c == ignored) return 0;
      return weights ? sharp * weights[c] : sharp;
    }
  };
  Split split() const {
    return {C(1 - given_.smoothing),
            C(given_.smoothing / static_cast<double>(given_.input.sizes[1])), mass_,
            weights_.empty() ? nullptr : weights_.data()};
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
