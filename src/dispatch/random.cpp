// Random numbers.

#include <cmath>
#include <limits>

#include "core/generator.h"
#include "dispatch/draw.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "impl_random.h"
#include "impl_shape.h"
#include "launch_random.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_random.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl {
namespace {

// What was there before has no part in the numbers drawn.
struct RedrawnBackward final : Node {
  using Node::Node;
  void apply(Gradients& g, Gradients& r) override {
    if (g[0].defined() && wants(0)) r[0] = ops::zeros_like(g[0]);
  }
};

}  // namespace

Ref<Node> before_drawing(const Tensor& t, const char* op) {
  check_in_place(t, op);
  if (!records(t)) return nullptr;
  Ref<Node> node = make_ref<RedrawnBackward>(op);
  node->add_input(t);
  return node;
}

Tensor drawn(const Tensor& t, const Ref<Node>& node, const char* op) {
  bump_version(t, op);
  if (node) rebase_history(t, node);
  return t;
}

void check_drawn(const char* op, DType dtype) {
  check_implemented(is_differentiable(dtype), op, ": not implemented for dtype ", dtype);
}
void check_uniform(const Tensor& t, double from, double to) {
  check_drawn("uniform_", t.dtype());
  check(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
        " > to=", to);
  DType real = to_real(t.dtype());
  double most = real == DType::Float32 ? std::numeric_limits<float>::max()
                                       : std::numeric_limits<double>::max();
  check(is_reduced(real) || to - from <= most, "uniform_ expects to-from <= ", most,
        ", the largest number of ", real, ", but found to=", to, " and from=", from);
}
void check_permutation(int64_t n, DType dtype) {
  check(n >= 0, "randperm: n must be non-negative, got ", n);
  const int digits = dtype == DType::Float16    ? 11
                     : dtype == DType::BFloat16 ? 8
                     : dtype == DType::Float32  ? 24
                     : dtype == DType::Float64  ? 53
                                                : 0;
  check(digits == 0 || n <= (int64_t{1} << digits) + 1, "randperm: n cannot be greater than ",
        (int64_t{1} << digits) + 1, " for ", dtype, ", got ", n);
  if (digits == 0 && n > 0) check_fits("randperm", Scalar(n - 1), dtype);
}
void check_deviation(double std) {
  check(std >= 0, "normal expects std >= 0.0, but found std ", std);
}
void check_normal(const Tensor& t, double std) {
  check_drawn("normal_", t.dtype());
  check_deviation(std);
}
void check_exponential(const Tensor& t, double lambd) {
  check_drawn("exponential_", t.dtype());
  check(lambd > 0, "exponential_ expects lambda > 0.0, but found lambda=", lambd);
}
void check_cauchy(const Tensor& t, double sigma) {
  check_drawn("cauchy_", t.dtype());
  check(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
}
void check_log_normal(const Tensor& t, double std) {
  check_drawn("log_normal_", t.dtype());
  check(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
}
void check_geometric(double p) {
  check(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
}
void check_bernoulli(double p) {
  check(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
}
void check_range(int64_t low, int64_t high) {
  check(low < high, "random_ expects 'from' to be less than 'to', but got from=", low,
        " >= to=", high);
}
void check_binomial(const Tensor& count, const Tensor& prob) {
  check_drawn("binomial", count.dtype());
  check_value(prob.is_floating(),
              "binomial: expected probabilities of a floating point dtype, got ", prob.dtype());
  check(count.dtype() == prob.dtype(), "binomial: count is of ", count.dtype(), " and prob of ",
        prob.dtype(), ", expected one dtype");
}

namespace ops {

Tensor random_(const Tensor& input, int64_t from, std::optional<int64_t> to, Generator* generator) {
  check(!to || from < *to, "random_ expects 'from' to be less than 'to', but got from=", from,
        " >= to=", to.value_or(0));
  const Ref<Node> node = before_drawing(input, "random_");
  if (to) launch::random_from_to(input, from, *to, generator_or_default(generator));
  else launch::random_from(input, from, generator_or_default(generator));
  return drawn(input, node, "random_");
}

}  // namespace ops

namespace impl {

Tensor normal(const Tensor& mean, const Tensor& std, Generator* generator) {
  check(!std.is_complex(), "normal expects standard deviation to be non-complex");
  check(std.numel() == 0 || item_or(ops::amin(std), 0.0) >= 0,
        "normal expects all elements of std >= 0.0");
  Tensor drawn = rl::empty(broadcast_sizes(mean.sizes(), std.sizes(), "normal"), options(mean));
  ops::normal_(drawn, 0, 1, generator);
  return ops::add_(ops::mul_(drawn, std), mean);
}
Tensor normal(const Tensor& mean, double std, Generator* generator) {
  check(std >= 0, "normal expects std >= 0.0, but found std ", std);
  Tensor drawn = ops::normal_(rl::empty(mean.sizes(), options(mean)), 0, std, generator);
  return ops::add_(drawn, mean);
}
Tensor normal(double mean, const Tensor& std, Generator* generator) {
  return normal(ops::full(std.sizes(), Scalar(mean), std.dtype(), {}, std.device()), std,
                generator);
}

}  // namespace impl

void check_weights_to_draw_by(const Tensor& input, int64_t num_samples, bool replacement) {
  check(input.is_floating(),
        "multinomial only supports floating-point dtypes for input, got: ", input.dtype());
  check(input.dim() == 1 || input.dim() == 2, "prob_dist must be 1 or 2 dim, got shape ",
        input.sizes());
  check(num_samples > 0, "cannot sample n_sample <= 0 samples");
  check(replacement || num_samples <= input.sizes().back(),
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
}
}  // namespace rl
