// What rows of losses hand to kernels.
#pragma once
#include "dispatch/launcher.h"
#include "dispatch/optional_view.h"
#include "kernels/cross_entropy.h"

namespace rl {

kernels::Reduction reduction_of(const std::string& name);

class CrossEntropyViews {
 public:
  CrossEntropyViews(const Tensor& input, const Tensor& target, const Tensor& weight,
                    int64_t ignore_index, kernels::Reduction how, double smoothing)
      : input_(input.view()),
        target_(target.view()),
        weight_(weight),
        given_{input_, target_, weight_.get(), ignore_index, how, smoothing} {
    launch::place_of("cross_entropy", input, target, weight);
  }
  CrossEntropyViews(const CrossEntropyViews&) = delete;
  operator const kernels::CrossEntropy&() const { return given_; }

 private:
  View input_, target_;
  OptionalView weight_;
  kernels::CrossEntropy given_;
};

}  // namespace rl
