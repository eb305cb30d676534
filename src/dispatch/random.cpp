// Random numbers.
#include "kernels/random.h"

#include <cmath>

#include "core/generator.h"
#include "dispatch/generated.h"

namespace rl {
namespace {

Generator& chosen(Generator* generator) { return generator ? *generator : default_generator(); }

void check_floating(const Tensor& t, const char* op) {
  check_implemented(is_differentiable(t.dtype()), op, ": not implemented for dtype ", t.dtype());
}

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
  if (!input.is_meta()) draw(input.view());
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
  if (!t.is_meta()) draw(t.view());
  return filled(t, requires_grad);
}
template <class Draw>
Tensor draw_like(const Tensor& input, std::optional<DType> dtype, std::optional<Device> device,
                 bool requires_grad, std::optional<MemoryFormat> format, Draw&& draw) {
  Tensor t = ops::empty_like(input, dtype, {}, device, false, false, format);
  if (!t.is_meta()) draw(t.view());
  return filled(t, requires_grad);
}

}  // namespace

namespace ops {

Tensor uniform_(const Tensor& input, double from, double to, Generator* generator) {
  check_floating(input, "uniform_");
  check(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
        " > to=", to);
  return redraw(input, "uniform_",
                [&](const View& v) { kernels::uniform(v, from, to, chosen(generator)); });
}
Tensor normal_(const Tensor& input, double mean, double std, Generator* generator) {
  check_floating(input, "normal_");
  check(std >= 0, "normal expects std >= 0.0, but found std ", std);
  return redraw(input, "normal_",
                [&](const View& v) { kernels::normal(v, mean, std, chosen(generator)); });
}
Tensor exponential_(const Tensor& input, double lambd, Generator* generator) {
  check_floating(input, "exponential_");
  check(lambd > 0, "exponential_ expects lambda > 0.0, but found lambda=", lambd);
  return redraw(input, "exponential_",
                [&](const View& v) { kernels::exponential(v, lambd, chosen(generator)); });
}
Tensor cauchy_(const Tensor& input, double median, double sigma, Generator* generator) {
  check_floating(input, "cauchy_");
  check(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  return redraw(input, "cauchy_",
                [&](const View& v) { kernels::cauchy(v, median, sigma, chosen(generator)); });
}
Tensor log_normal_(const Tensor& input, double mean, double std, Generator* generator) {
  check_floating(input, "log_normal_");
  check(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
  return redraw(input, "log_normal_",
                [&](const View& v) { kernels::log_normal(v, mean, std, chosen(generator)); });
}
Tensor geometric_(const Tensor& input, double p, Generator* generator) {
  check(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  return redraw(input, "geometric_",
                [&](const View& v) { kernels::geometric(v, p, chosen(generator)); });
}
Tensor random_(const Tensor& input, Generator* generator) {
  return redraw(input, "random_",
                [&](const View& v) { kernels::random_natural(v, chosen(generator)); });
}
Tensor random_(const Tensor& input, int64_t to, Generator* generator) {
  return random_(input, 0, to, generator);
}
Tensor random_(const Tensor& input, int64_t from, std::optional<int64_t> to, Generator* generator) {
  check(!to || from < *to, "random_ expects 'from' to be less than 'to', but got from=", from,
        " >= to=", to.value_or(0));
  return redraw(input, "random_", [&](const View& v) {
    if (to) kernels::random_from_to(v, from, *to, chosen(generator));
    else kernels::random_from(v, from, chosen(generator));
  });
}
Tensor bernoulli_(const Tensor& input, double p, Generator* generator) {
  check(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  return redraw(input, "bernoulli_",
                [&](const View& v) { kernels::bernoulli(v, p, chosen(generator)); });
}
Tensor bernoulli_(const Tensor& input, const Tensor& p, Generator* generator) {
  check_floating(p, "bernoulli_");
  Tensor spread = expand(p, input.sizes());
  return redraw(input, "bernoulli_",
                [&](const View& v) { kernels::bernoulli(v, spread.view(), chosen(generator)); });
}

Tensor rand(const Dims& size, Generator* generator, std::optional<DType> dtype, LayoutArgument,
            std::optional<Device> device, bool requires_grad, bool) {
  return draw_new(size, dtype, device, requires_grad,
                  [&](const View& v) { kernels::uniform(v, 0, 1, chosen(generator)); });
}
Tensor randn(const Dims& size, Generator* generator, std::optional<DType> dtype, LayoutArgument,
             std::optional<Device> device, bool requires_grad, bool) {
  return draw_new(size, dtype, device, requires_grad,
                  [&](const View& v) { kernels::normal(v, 0, 1, chosen(generator)); });
}
Tensor rand_like(const Tensor& input, Generator* generator, std::optional<DType> dtype,
                 LayoutArgument, std::optional<Device> device, bool requires_grad, bool,
                 std::optional<MemoryFormat> format) {
  check_floating(input, "rand_like");
  return draw_like(input, dtype, device, requires_grad, format,
                   [&](const View& v) { kernels::uniform(v, 0, 1, chosen(generator)); });
}
Tensor randn_like(const Tensor& input, Generator* generator, std::optional<DType> dtype,
                  LayoutArgument, std::optional<Device> device, bool requires_grad, bool,
                  std::optional<MemoryFormat> format) {
  check_floating(input, "randn_like");
  return draw_like(input, dtype, device, requires_grad, format,
                   [&](const View& v) { kernels::normal(v, 0, 1, chosen(generator)); });
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
  return draw_new(size, dtype.value_or(DType::Int64), device, requires_grad,
                  [&](const View& v) { kernels::random_from_to(v, low, high, chosen(generator)); });
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
  return draw_like(input, dtype, device, requires_grad, format, [&](const View& v) {
    kernels::random_from_to(v, low, high, chosen(generator));
  });
}
Tensor randperm(int64_t n, Generator* generator, std::optional<DType> dtype, LayoutArgument,
                std::optional<Device> device, bool requires_grad, bool) {
  check(n >= 0, "randperm: n must be non-negative, got ", n);
  return draw_new(Dims{n}, dtype.value_or(DType::Int64), device, requires_grad,
                  [&](const View& v) { kernels::randperm(v, chosen(generator)); });
}

Tensor normal(double mean, double std, const Dims& size, Generator* generator,
              std::optional<DType> dtype, LayoutArgument, std::optional<Device> device,
              bool requires_grad, bool) {
  check(std >= 0, "normal expects std >= 0.0, but found std ", std);
  return draw_new(size, dtype, device, requires_grad,
                  [&](const View& v) { kernels::normal(v, mean, std, chosen(generator)); });
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
  check(std.numel() == 0 || std.is_meta() ||
            *ops::to_dtype(ops::amin(std), DType::Float64).data<double>() >= 0,
        "normal expects all elements of std >= 0.0");
  Tensor drawn = rl::empty(broadcast_sizes(mean.sizes(), std.sizes(), "normal"), options(mean));
  ops::normal_(drawn, 0, 1, generator);
  return drawn * std + mean;
}
Tensor normal(const Tensor& mean, double std, Generator* generator) {
  check(std >= 0, "normal expects std >= 0.0, but found std ", std);
  Tensor drawn = ops::normal_(rl::empty_like(mean), 0, std, generator);
  return drawn + mean;
}
Tensor normal(double mean, const Tensor& std, Generator* generator) {
  return normal(ops::full_like(std, Scalar(mean)), std, generator);
}

Tensor bernoulli(const Tensor& input, Generator* generator) {
  check_floating(input, "bernoulli");
  Tensor out = rl::empty_like(input);
  if (!out.is_meta()) kernels::bernoulli(out.view(), input.view(), chosen(generator));
  return out;
}
Tensor bernoulli(const Tensor& input, double p, Generator* generator) {
  return ops::bernoulli_(rl::empty_like(input), p, generator);
}
Tensor poisson(const Tensor& input, Generator* generator) {
  check_floating(input, "poisson");
  Tensor out = rl::empty_like(input);
  if (!out.is_meta()) kernels::poisson(input.view(), out.view(), chosen(generator));
  return out;
}
Tensor binomial(const Tensor& count, const Tensor& prob, Generator* generator) {
  check_floating(count, "binomial");
  check_value(prob.is_floating(),
              "binomial: expected probabilities of a floating point dtype, got ", prob.dtype());
  check(count.dtype() == prob.dtype(), "binomial: count is of ", count.dtype(), " and prob of ",
        prob.dtype(), ", expected one dtype");
  Dims sizes = broadcast_sizes(count.sizes(), prob.sizes(), "binomial");
  Tensor out = rl::empty(sizes, options(count));
  if (!out.is_meta())
    kernels::binomial(expand(count, sizes, false).view(), expand(prob, sizes, false).view(),
                      out.view(), chosen(generator));
  return out;
}
Tensor multinomial(const Tensor& input, int64_t num_samples, bool replacement,
                   Generator* generator) {
  check(input.is_floating(),
        "multinomial only supports floating-point dtypes for input, got: ", input.dtype());
  check(input.dim() == 1 || input.dim() == 2, "prob_dist must be 1 or 2 dim, got shape ",
        input.sizes());
  check(num_samples > 0, "cannot sample n_sample <= 0 samples");
  int64_t categories = input.sizes().back();
  check(replacement || num_samples <= categories,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  Dims sizes = input.sizes();
  sizes.back() = num_samples;
  Tensor out = rl::empty(sizes, options(input, DType::Int64));
  if (!out.is_meta())
    kernels::multinomial(input.view(), replacement, out.view(), chosen(generator));
  return out;
}
Tensor standard_gamma(const Tensor& input, Generator* generator) {
  check_floating(input, "_standard_gamma");
  Tensor out = rl::empty_like(input);
  if (!out.is_meta()) kernels::standard_gamma(input.view(), out.view(), chosen(generator));
  return out;
}

}  // namespace impl
}  // namespace rl
