// Random numbers.

#include <cmath>

#include "core/generator.h"
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

void check_floating(DType dtype, const char* op) {
  check_implemented(is_differentiable(dtype), op, ": not implemented for dtype ", dtype);
}
void check_floating(const Tensor& t, const char* op) { check_floating(t.dtype(), op); }

// What was there before has no part in the numbers drawn.
struct RedrawnBackward final : Node {
  using Node::Node;
  void apply(Gradients& g, Gradients& r) override {
    if (g[0].defined() && wants(0)) r[0] = ops::zeros_like(g[0]);
  }
};

template <class Draw> Tensor redraw(const Tensor& input, const char* op, Draw&& draw) {
  check_in_place(input, op);
  Ref<Node> node;
  if (records(input)) {
    node = make_ref<RedrawnBackward>(op);
    node->add_input(input);
  }
  draw(input);
  bump_version(input, op);
  if (node) rebase_history(input, node);
  return input;
}

Tensor filled(Tensor t, bool requires_grad) {
  if (requires_grad) {
    check(is_differentiable(t.dtype()),
          "Only Tensors of floating point and complex dtype can require gradients");
    t.impl()->requires_grad = true;
  }
  return t;
}

// A fresh tensor, drawn into.
template <class Draw>
Tensor draw_new(IntSpan sizes, std::optional<DType> dtype, std::optional<Device> device,
                bool requires_grad, Draw&& draw) {
  Tensor t = rl::empty(sizes, {dtype.value_or(default_dtype()), device.value_or(Device{})});
  draw(t);
  return filled(t, requires_grad);
}
template <class Draw>
Tensor draw_like(const Tensor& input, std::optional<DType> dtype, std::optional<Device> device,
                 bool requires_grad, std::optional<MemoryFormat> format, Draw&& draw) {
  Tensor t = ops::empty_like(input, dtype, {}, device, false, false, format);
  draw(t);
  return filled(t, requires_grad);
}

}  // namespace

namespace ops {

Tensor uniform_(const Tensor& input, double from, double to, Generator* generator) {
  check_floating(input, "uniform_");
  check(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
        " > to=", to);
  return redraw(input, "uniform_", [&](const Tensor& v) {
    launch::uniform(v, from, to, generator_or_default(generator));
  });
}
Tensor normal_(const Tensor& input, double mean, double std, Generator* generator) {
  check_floating(input, "normal_");
  check(std >= 0, "normal expects std >= 0.0, but found std ", std);
  return redraw(input, "normal_", [&](const Tensor& v) {
    launch::normal(v, mean, std, generator_or_default(generator));
  });
}
Tensor exponential_(const Tensor& input, double lambd, Generator* generator) {
  check_floating(input, "exponential_");
  check(lambd > 0, "exponential_ expects lambda > 0.0, but found lambda=", lambd);
  return redraw(input, "exponential_", [&](const Tensor& v) {
    launch::exponential(v, lambd, generator_or_default(generator));
  });
}
Tensor cauchy_(const Tensor& input, double median, double sigma, Generator* generator) {
  check_floating(input, "cauchy_");
  check(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  return redraw(input, "cauchy_", [&](const Tensor& v) {
    launch::cauchy(v, median, sigma, generator_or_default(generator));
  });
}
Tensor log_normal_(const Tensor& input, double mean, double std, Generator* generator) {
  check_floating(input, "log_normal_");
  check(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
  return redraw(input, "log_normal_", [&](const Tensor& v) {
    launch::log_normal(v, mean, std, generator_or_default(generator));
  });
}
Tensor geometric_(const Tensor& input, double p, Generator* generator) {
  check(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  return redraw(input, "geometric_",
                [&](const Tensor& v) { launch::geometric(v, p, generator_or_default(generator)); });
}
Tensor random_(const Tensor& input, Generator* generator) {
  return redraw(input, "random_", [&](const Tensor& v) {
    launch::random_natural(v, generator_or_default(generator));
  });
}
Tensor random_(const Tensor& input, int64_t to, Generator* generator) {
  return random_(input, 0, to, generator);
}
Tensor random_(const Tensor& input, int64_t from, std::optional<int64_t> to, Generator* generator) {
  check(!to || from < *to, "random_ expects 'from' to be less than 'to', but got from=", from,
        " >= to=", to.value_or(0));
  return redraw(input, "random_", [&](const Tensor& v) {
    if (to) launch::random_from_to(v, from, *to, generator_or_default(generator));
    else launch::random_from(v, from, generator_or_default(generator));
  });
}
Tensor bernoulli_(const Tensor& input, double p, Generator* generator) {
  check(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  return redraw(input, "bernoulli_",
                [&](const Tensor& v) { launch::bernoulli(v, p, generator_or_default(generator)); });
}
Tensor bernoulli_(const Tensor& input, const Tensor& p, Generator* generator) {
  check_floating(p, "bernoulli_");
  Tensor spread = expand(p, input.sizes());
  return redraw(input, "bernoulli_", [&](const Tensor& v) {
    launch::bernoulli_each(v, spread, generator_or_default(generator));
  });
}

Tensor rand(const Dims& size, Generator* generator, std::optional<DType> dtype, LayoutArgument,
            std::optional<Device> device, bool requires_grad, bool) {
  check_floating(dtype.value_or(default_dtype()), "rand");
  return draw_new(size, dtype, device, requires_grad, [&](const Tensor& v) {
    launch::uniform(v, 0, 1, generator_or_default(generator));
  });
}
Tensor randn(const Dims& size, Generator* generator, std::optional<DType> dtype, LayoutArgument,
             std::optional<Device> device, bool requires_grad, bool) {
  check_floating(dtype.value_or(default_dtype()), "randn");
  return draw_new(size, dtype, device, requires_grad, [&](const Tensor& v) {
    launch::normal(v, 0, 1, generator_or_default(generator));
  });
}
Tensor rand_like(const Tensor& input, Generator* generator, std::optional<DType> dtype,
                 LayoutArgument, std::optional<Device> device, bool requires_grad, bool,
                 std::optional<MemoryFormat> format) {
  check_floating(dtype.value_or(input.dtype()), "rand_like");
  return draw_like(input, dtype, device, requires_grad, format, [&](const Tensor& v) {
    launch::uniform(v, 0, 1, generator_or_default(generator));
  });
}
Tensor randn_like(const Tensor& input, Generator* generator, std::optional<DType> dtype,
                  LayoutArgument, std::optional<Device> device, bool requires_grad, bool,
                  std::optional<MemoryFormat> format) {
  check_floating(dtype.value_or(input.dtype()), "randn_like");
  return draw_like(input, dtype, device, requires_grad, format, [&](const Tensor& v) {
    launch::normal(v, 0, 1, generator_or_default(generator));
  });
}

Tensor randint(int64_t high, const Dims& size, Generator* generator, std::optional<DType> dtype,
               LayoutArgument layout, std::optional<Device> device, bool requires_grad, bool pin) {
  return randint(0, high, size, generator, dtype, layout, device, requires_grad, pin);
}
Tensor randint(int64_t low, int64_t high, const Dims& size, Generator* generator,
               std::optional<DType> dtype, LayoutArgument, std::optional<Device> device,
               bool requires_grad, bool) {
  check(low < high, "random_ expects 'from' to be less than 'to', but got from=", low,
        " >= to=", high);
  return draw_new(size, dtype.value_or(DType::Int64), device, requires_grad, [&](const Tensor& v) {
    launch::random_from_to(v, low, high, generator_or_default(generator));
  });
}
Tensor randint_like(const Tensor& input, int64_t high, Generator* generator,
                    std::optional<DType> dtype, LayoutArgument layout, std::optional<Device> device,
                    bool requires_grad, bool pin, std::optional<MemoryFormat> format) {
  return randint_like(input, 0, high, generator, dtype, layout, device, requires_grad, pin, format);
}
Tensor randint_like(const Tensor& input, int64_t low, int64_t high, Generator* generator,
                    std::optional<DType> dtype, LayoutArgument, std::optional<Device> device,
                    bool requires_grad, bool, std::optional<MemoryFormat> format) {
  check(low < high, "random_ expects 'from' to be less than 'to', but got from=", low,
        " >= to=", high);
  return draw_like(input, dtype, device, requires_grad, format, [&](const Tensor& v) {
    launch::random_from_to(v, low, high, generator_or_default(generator));
  });
}
Tensor randperm(int64_t n, Generator* generator, std::optional<DType> dtype, LayoutArgument,
                std::optional<Device> device, bool requires_grad, bool) {
  check(n >= 0, "randperm: n must be non-negative, got ", n);
  return draw_new(Dims{n}, dtype.value_or(DType::Int64), device, requires_grad,
                  [&](const Tensor& v) { launch::randperm(v, generator_or_default(generator)); });
}

Tensor normal(double mean, double std, const Dims& size, Generator* generator,
              std::optional<DType> dtype, LayoutArgument, std::optional<Device> device,
              bool requires_grad, bool) {
  check(std >= 0, "normal expects std >= 0.0, but found std ", std);
  return draw_new(size, dtype, device, requires_grad, [&](const Tensor& v) {
    launch::normal(v, mean, std, generator_or_default(generator));
  });
}

Tensor dropout(const Tensor& input, double p, bool train) {
  check_value(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (!train || p == 0 || input.numel() == 0) return input;
  if (p == 1) return input * zeros_like(input);
  Tensor mask = bernoulli_(rl::empty_like(input), 1 - p, nullptr);
  return input * div_(mask, wrap_number(Scalar(1 - p)));
}

}  // namespace ops

namespace impl {

Tensor normal(const Tensor& mean, const Tensor& std, Generator* generator) {
  check(!std.is_complex(), "normal expects standard deviation to be non-complex");
  check(std.numel() == 0 || std.is_meta() || item<double>(ops::amin(std)) >= 0,
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

Tensor bernoulli(const Tensor& input, double p, Generator* generator) {
  return ops::bernoulli_(rl::empty(input.sizes(), options(input)), p, generator);
}
Tensor binomial(const Tensor& count, const Tensor& prob, Generator* generator) {
  check_floating(count, "binomial");
  check_value(prob.is_floating(),
              "binomial: expected probabilities of a floating point dtype, got ", prob.dtype());
  check(count.dtype() == prob.dtype(), "binomial: count is of ", count.dtype(), " and prob of ",
        prob.dtype(), ", expected one dtype");
  Dims sizes = broadcast_sizes(count.sizes(), prob.sizes(), "binomial");
  Tensor out = rl::empty(sizes, options(count));
  launch::binomial(expand(count, sizes, false), expand(prob, sizes, false), out,
                   generator_or_default(generator));
  return out;
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
