// LSTM and GRU layers: a matrix product and one pass over the gates for each time step. What does
// not depend on the step before, the gradient of the weight above all, is one product for all
// steps.
#include "kernels/recurrent.h"

#include "dispatch/generated.h"
#include "kernels/gemm.h"

namespace rl {
namespace {

void check_layer(const char* op, const Tensor& x, const Tensor& hidden, const Tensor& weight,
                 int64_t gates) {
  check(x.dim() == 3 && hidden.dim() == 2 && weight.dim() == 2, op, ": expected x (L, N, ", gates,
        " H), hidden (N, H) and weight (", gates, " H, H), got ", x.sizes(), ", ", hidden.sizes(),
        " and ", weight.sizes());
  int64_t size = hidden.sizes()[1];
  check(x.sizes()[1] == hidden.sizes()[0] && x.sizes()[2] == gates * size &&
            weight.sizes()[0] == gates * size && weight.sizes()[1] == size,
        op, ": x ", x.sizes(), " and weight ", weight.sizes(), " do not fit the hidden state ",
        hidden.sizes());
  check(x.dtype() == hidden.dtype() && x.dtype() == weight.dtype(), op,
        ": expected one dtype, got ", x.dtype(), ", ", hidden.dtype(), " and ", weight.dtype());
  check_implemented(x.dtype() == DType::Float32 || x.dtype() == DType::Float64, op,
                    ": not implemented for dtype ", x.dtype());
}

// The steps of a layer in the order in which they run.
struct Steps {
  int64_t count;
  bool reverse;
  int64_t at(int64_t i) const { return reverse ? count - 1 - i : i; }
};

// Step t of (L, N, k), without a record.
Tensor step_of(const Tensor& t, int64_t at) {
  return alias(t, IntSpan(t.sizes().data() + 1, 2), IntSpan(t.strides().data() + 1, 2),
               t.offset() + at * t.strides()[0]);
}

// The states from which the steps start, (L, N, H): `all` shifted by one, `first` at its beginning.
Tensor states_before(const Tensor& first, const Tensor& all, bool reverse) {
  int64_t count = all.sizes()[0];
  Tensor start = ops::unsqueeze(first, 0);
  if (reverse) return ops::cat({ops::slice(all, 0, 1, count, 1), start}, 0);
  return ops::cat({start, ops::slice(all, 0, 0, count - 1, 1)}, 0);
}

// sum over steps and samples of a^T b: (L, N, p), (L, N, q) -> (p, q).
Tensor product_over_steps(const Tensor& a, const Tensor& b) {
  return ops::mm(ops::t(ops::reshape(a, Dims{-1, a.sizes()[2]})),
                 ops::reshape(b, Dims{-1, b.sizes()[2]}));
}

Tensor contiguous_or_none(const Tensor& t) { return t.defined() ? ops::contiguous(t) : t; }
const void* step_data(const Tensor& t, int64_t at) {
  return t.defined()
             ? static_cast<const char*>(t.view().data) + at * t.strides()[0] * itemsize(t.dtype())
             : nullptr;
}

}  // namespace

namespace impl {

std::array<Tensor, 3> lstm_layer(const Tensor& x, const Tensor& hidden, const Tensor& cell,
                                 const Tensor& weight, bool reverse) {
  check_layer("lstm_layer", x, hidden, weight, 4);
  check(cell.sizes() == hidden.sizes() && cell.dtype() == hidden.dtype(), "lstm_layer: the cell ",
        cell.sizes(), " and the hidden state ", hidden.sizes(), " differ");
  Steps steps{x.sizes()[0], reverse};
  int64_t n = hidden.sizes()[0], size = hidden.sizes()[1];
  Dims sizes{steps.count, n, size};
  Tensor output = rl::empty(sizes, options(x)), cells = rl::empty(sizes, options(x)),
         gates = rl::empty(x.sizes(), options(x));
  if (x.is_meta() || hidden.is_meta()) return {output, cells, gates};
  ops::copy_(gates, x);
  Tensor across = ops::contiguous(ops::t(weight)), h = ops::contiguous(hidden),
         c = ops::contiguous(cell);
  kernels::RecurrentStep step{x.dtype(), n, size};
  for (int64_t i = 0; i < steps.count; ++i) {
    int64_t at = steps.at(i);
    Tensor now = step_of(gates, at), next_h = step_of(output, at), next_c = step_of(cells, at);
    kernels::gemm(h.view(), across.view(), now.view(), {1, 1});
    kernels::lstm_step(step, now.view().data, c.view().data, next_c.view().data,
                       next_h.view().data);
    h = next_h;
    c = next_c;
  }
  return {output, cells, gates};
}

std::array<Tensor, 2> gru_layer(const Tensor& x, const Tensor& hidden, const Tensor& weight,
                                const Tensor& bias, bool reverse) {
  check_layer("gru_layer", x, hidden, weight, 3);
  Steps steps{x.sizes()[0], reverse};
  int64_t n = hidden.sizes()[0], size = hidden.sizes()[1];
  check(!bias.defined() ||
            (bias.dim() == 1 && bias.sizes()[0] == 3 * size && bias.dtype() == x.dtype()),
        "gru_layer: bias must have shape [", 3 * size, "] and dtype ", x.dtype());
  Tensor output = rl::empty(Dims{steps.count, n, size}, options(x)),
         gates = rl::empty(Dims{steps.count, n, 4 * size}, options(x));
  if (x.is_meta() || hidden.is_meta()) return {output, gates};
  Tensor from_input = ops::contiguous(x), across = ops::contiguous(ops::t(weight)),
         h = ops::contiguous(hidden), b = contiguous_or_none(bias);
  Tensor sums = rl::empty(Dims{n, 3 * size}, options(x));
  View bias_view;
  if (b.defined()) bias_view = b.view();
  kernels::RecurrentStep step{x.dtype(), n, size};
  for (int64_t i = 0; i < steps.count; ++i) {
    int64_t at = steps.at(i);
    Tensor next = step_of(output, at);
    kernels::gemm(h.view(), across.view(), sums.view(), {}, b.defined() ? &bias_view : nullptr);
    kernels::gru_step(step, step_data(from_input, at), sums.view().data, h.view().data,
                      step_of(gates, at).view().data, next.view().data);
    h = next;
  }
  return {output, gates};
}

}  // namespace impl

namespace grad {

using namespace ops;

namespace {

// Differentiable again: the same, op by op.
std::array<Tensor, 4> lstm_gradients_by_ops(const Tensor& grad_output, const Tensor& grad_cells,
                                            const Tensor& grad_gates, const Tensor& cell,
                                            const Tensor& weight, const Tensor& before,
                                            const Tensor& cells, const Tensor& gates, Steps steps) {
  Tensor dh = ops::zeros_like(cell), dc = ops::zeros_like(cell);
  TensorList sums(static_cast<size_t>(steps.count));
  for (int64_t i = steps.count - 1; i >= 0; --i) {
    int64_t at = steps.at(i);
    TensorList gate = chunk(select(gates, 0, at), 4, 1);
    Tensor c = i > 0 ? select(cells, 0, steps.at(i - 1)) : cell, t = tanh(select(cells, 0, at));
    if (grad_output.defined()) dh = dh + select(grad_output, 0, at);
    if (grad_cells.defined()) dc = dc + select(grad_cells, 0, at);
    Tensor slope = dc + dh * gate[3] * (1 - t * t);
    Tensor d = cat({slope * gate[2], slope * c, slope * gate[0], dh * t}, 1);
    if (grad_gates.defined()) d = d + select(grad_gates, 0, at);
    Tensor steepness = cat({gate[0] * (1 - gate[0]), gate[1] * (1 - gate[1]), 1 - gate[2] * gate[2],
                            gate[3] * (1 - gate[3])},
                           1);
    sums[static_cast<size_t>(at)] = d * steepness;
    dc = slope * gate[1];
    dh = mm(sums[static_cast<size_t>(at)], weight);
  }
  Tensor dx = stack(sums, 0);
  return {dx, dh, dc, product_over_steps(dx, before)};
}

std::array<Tensor, 4> gru_gradients_by_ops(const Tensor& grad_output, const Tensor& grad_gates,
                                           const Tensor& hidden, const Tensor& weight,
                                           const Tensor& before, const Tensor& gates, Steps steps) {
  Tensor dh = ops::zeros_like(hidden);
  TensorList to_x(static_cast<size_t>(steps.count)), to_sums(static_cast<size_t>(steps.count));
  for (int64_t i = steps.count - 1; i >= 0; --i) {
    int64_t at = steps.at(i);
    TensorList gate = chunk(select(gates, 0, at), 4, 1), more;
    if (grad_gates.defined()) more = chunk(select(grad_gates, 0, at), 4, 1);
    auto plus = [&](const Tensor& t, size_t k) { return more.empty() ? t : t + more[k]; };
    const Tensor &r = gate[0], &z = gate[1], &n = gate[2], &from_hidden = gate[3];
    if (grad_output.defined()) dh = dh + select(grad_output, 0, at);
    Tensor dn = plus(dh * (1 - z), 2) * (1 - n * n),
           dz = plus(dh * (select(before, 0, at) - n), 1) * z * (1 - z);
    Tensor dr = plus(dn * from_hidden, 0) * r * (1 - r);
    to_x[static_cast<size_t>(at)] = cat({dr, dz, dn}, 1);
    to_sums[static_cast<size_t>(at)] = cat({dr, dz, plus(dn * r, 3)}, 1);
    dh = dh * z + mm(to_sums[static_cast<size_t>(at)], weight);
  }
  Tensor sums = stack(to_sums, 0);
  return {stack(to_x, 0), dh, product_over_steps(sums, before), sum(sums, Dims{0, 1}, false)};
}

}  // namespace

std::array<Tensor, 4> lstm_gradients(const Tensor& grad_output, const Tensor& grad_cells,
                                     const Tensor& grad_gates, const Tensor& hidden,
                                     const Tensor& cell, const Tensor& weight, const Tensor& output,
                                     const Tensor& cells, const Tensor& gates, bool reverse) {
  Steps steps{output.sizes()[0], reverse};
  Tensor before = states_before(hidden, output, reverse);
  if (grad_enabled() || output.is_meta())
    return lstm_gradients_by_ops(grad_output, grad_cells, grad_gates, cell, weight, before, cells,
                                 gates, steps);
  Tensor from_output = contiguous_or_none(grad_output), from_cells = contiguous_or_none(grad_cells),
         from_gates = contiguous_or_none(grad_gates);
  Tensor w = contiguous(weight), first_cell = contiguous(cell);
  Tensor dx = rl::empty(gates.sizes(), options(gates)), dh = ops::zeros_like(cell),
         dc = ops::zeros_like(first_cell);
  kernels::RecurrentStep step{gates.dtype(), cell.sizes()[0], cell.sizes()[1]};
  for (int64_t i = steps.count - 1; i >= 0; --i) {
    int64_t at = steps.at(i);
    const void* c = i > 0 ? step_data(cells, steps.at(i - 1)) : first_cell.view().data;
    Tensor sums = step_of(dx, at);
    if (from_output.defined()) add_(dh, step_of(from_output, at));
    if (from_cells.defined()) add_(dc, step_of(from_cells, at));
    kernels::lstm_step_backward(step, step_data(gates, at), c, step_data(cells, at), dh.view().data,
                                dc.view().data, step_data(from_gates, at), sums.view().data);
    kernels::gemm(sums.view(), w.view(), dh.view());
  }
  return {dx, dh, dc, product_over_steps(dx, before)};
}

std::array<Tensor, 4> gru_gradients(const Tensor& grad_output, const Tensor& grad_gates,
                                    const Tensor& hidden, const Tensor& weight, const Tensor& bias,
                                    const Tensor& output, const Tensor& gates, bool reverse) {
  Steps steps{output.sizes()[0], reverse};
  Tensor before = states_before(hidden, output, reverse);
  std::array<Tensor, 4> grads;
  if (grad_enabled() || output.is_meta()) {
    grads = gru_gradients_by_ops(grad_output, grad_gates, hidden, weight, before, gates, steps);
  } else {
    Tensor from_output = contiguous_or_none(grad_output),
           from_gates = contiguous_or_none(grad_gates), w = contiguous(weight);
    Dims sizes = gates.sizes();
    sizes.back() = weight.sizes()[0];
    Tensor dx = rl::empty(sizes, options(gates)), sums = rl::empty(sizes, options(gates)),
           dh = ops::zeros_like(contiguous(hidden));
    kernels::RecurrentStep step{gates.dtype(), hidden.sizes()[0], hidden.sizes()[1]};
    for (int64_t i = steps.count - 1; i >= 0; --i) {
      int64_t at = steps.at(i);
      Tensor now = step_of(sums, at);
      if (from_output.defined()) add_(dh, step_of(from_output, at));
      kernels::gru_step_backward(step, step_data(gates, at), step_data(before, at), dh.view().data,
                                 step_data(from_gates, at), step_of(dx, at).view().data,
                                 now.view().data);
      kernels::gemm(now.view(), w.view(), dh.view(), {1, 1});
    }
    grads = {dx, dh, product_over_steps(sums, before), sum(sums, Dims{0, 1}, false)};
  }
  if (!bias.defined()) grads[3] = Tensor();
  return grads;
}

}  // namespace grad
}  // namespace rl
