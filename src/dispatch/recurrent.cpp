// RNN, LSTM and GRU layers: a pass over the steps, whose gradient is one too. What does not depend
// on the step before, the gradient of the weight above all, is one product for all steps.

#include <algorithm>

#include "dispatch/generated.h"
#include "impl_recurrent.h"
#include "launch_gemm.h"
#include "launch_recurrent.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_masking.h"
#include "ops_matrix.h"
#include "ops_recurrent.h"
#include "ops_reduction.h"
#include "ops_shape.h"
#include "ops_unary.h"

namespace rl {

// Of the interface of kernels: numbers, sizes and dtypes, nothing that a backend computes.
using kernels::gates_of;

namespace {

using kernels::RecurrentCell;
using kernels::RecurrentInput;
using kernels::RecurrentSteps;

// The samples of each step of x: those that `batch_sizes` says, or all of (L, N, k).
RecurrentSteps steps_of(const Tensor& x, const Tensor& hidden, const Dims& batch_sizes,
                        bool reverse) {
  constexpr const char* op = "recurrent_layer";
  int64_t batch = hidden.sizes()[0];
  if (x.dim() == 3) return {Dims(batch > 0 ? x.sizes()[0] : 0, batch), reverse};
  int64_t most = batch, left = x.sizes()[0];
  for (int64_t n : batch_sizes) {
    check(n > 0 && n <= most && n <= left, op,
          ": batch_sizes must be positive, not grow, begin with the batch size ", batch,
          " and add up to ", x.sizes()[0]);
    most = n;
    left -= n;
  }
  check(left == 0 && (batch_sizes.empty() || batch_sizes[0] == batch), op,
        ": batch_sizes must begin with the batch size ", batch, " and add up to ", x.sizes()[0]);
  return {batch_sizes, reverse};
}

// An empty tensor like x, with `k` elements in a row.
Tensor rows_like(const Tensor& x, int64_t k) {
  Dims sizes = x.sizes();
  sizes.back() = k;
  return rl::empty(sizes, options(x));
}

Tensor contiguous_or_none(const Tensor& t) { return t.defined() ? ops::contiguous(t) : t; }
void* data(const Tensor& t) { return t.defined() ? t.view().data : nullptr; }

// (L, N, k) to (L N, k).
Tensor flat(const Tensor& t) { return ops::reshape(t, Dims{-1, t.size(-1)}); }

// The rows of a step of a flat tensor.
Tensor step_of(const Tensor& t, const RecurrentSteps& steps, int64_t i) {
  return ops::narrow(t, 0, steps.begin(i), steps.rows(i));
}

// The states before a step: those after the step before, and first ones.
Tensor states_before(const Tensor& first, const Tensor& all, const RecurrentSteps& steps,
                     int64_t i) {
  int64_t carried = steps.carried(i), rows = steps.rows(i);
  if (carried == 0) return ops::narrow(first, 0, 0, rows);
  Tensor before = ops::narrow(all, 0, steps.begin(i - 1), carried);
  if (carried == rows) return before;
  return ops::cat({before, ops::narrow(first, 0, carried, rows - carried)}, 0);
}

// Tensors of the steps, in the order in which they run, as rows of one.
Tensor join(TensorList parts, const RecurrentSteps& steps, const Tensor& like, int64_t k) {
  if (parts.empty()) return rl::empty(Dims{0, k}, options(like));
  if (steps.begin(0) > 0) std::reverse(parts.begin(), parts.end());
  return ops::cat(parts, 0);
}

// The states before all steps, (R, H).
Tensor states_before(const Tensor& first, const Tensor& all, const RecurrentSteps& steps) {
  int64_t last = steps.count() - 1, batch = steps.rows(0);
  if (last >= 0 && steps.rows(last) == batch) {  // in equal steps, those of all but the last to run
    bool reverse = steps.begin(0) > 0;
    Tensor others = ops::narrow(all, 0, reverse ? batch : 0, last * batch);
    return ops::cat(reverse ? TensorList{others, first} : TensorList{first, others}, 0);
  }
  TensorList parts;
  for (int64_t i = 0; i < steps.count(); ++i) parts.push_back(states_before(first, all, steps, i));
  return join(parts, steps, first, first.size(1));
}

// sum over rows of a^T b.
Tensor product_over_rows(const Tensor& a, const Tensor& b) { return ops::mm(ops::t(a), b); }

RecurrentCell cell_of(const std::string& mode) {
  if (mode == "LSTM") return RecurrentCell::LSTM;
  if (mode == "GRU") return RecurrentCell::GRU;
  check(mode == "RNN_TANH" || mode == "RNN_RELU",
        "recurrent_layer: mode must be 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU', got '", mode, "'");
  return mode == "RNN_TANH" ? RecurrentCell::Tanh : RecurrentCell::Relu;
}

Tensor to_floats(const Tensor& t) {
  return t.defined() && is_reduced(t.dtype()) ? ops::to(t, DType::Float32) : t;
}

// Of devices whose kernels know neither 16-bit floats nor the product of the input: all is computed
// in float32 at least.
bool computes_in_floats(Device place) { return !place.is_cpu() && !place.is_meta(); }

}  // namespace

namespace impl {

namespace {

void check_bias(const Tensor& bias, const Tensor& input, int64_t width) {
  if (!bias.defined()) return;
  check(bias.dim() == 1 && bias.sizes()[0] == width && bias.dtype() == input.dtype(),
        "recurrent_layer: biases must have shape [", width, "] and dtype ", input.dtype(), ", got ",
        bias.sizes(), " and ", bias.dtype());
}

RecurrentSteps check_whole_layer(RecurrentCell kind, const Tensor& input, const Tensor& hidden,
                                 const Tensor& cell, const Tensor& w_ih, const Tensor& w_hh,
                                 const Tensor& b_ih, const Tensor& b_hh, const Dims& batch_sizes,
                                 bool reverse) {
  constexpr const char* op = "recurrent_layer";
  int64_t gates = gates_of(kind);
  check(input.dim() == (batch_sizes.empty() ? 3 : 2) && hidden.dim() == 2, op,
        ": expected input (L, N, in), or with batch_sizes (R, in), and hidden (N, H), got ",
        input.sizes(), " and ", hidden.sizes());
  int64_t size = hidden.sizes()[1];
  check(input.dim() == 2 || input.sizes()[1] == hidden.sizes()[0], op, ": input ", input.sizes(),
        " does not fit the hidden state ", hidden.sizes());
  check(w_ih.sizes() == Dims{gates * size, input.size(-1)} &&
            w_hh.sizes() == Dims{gates * size, size},
        op, ": expected weights (", gates * size, ", ", input.size(-1), ") and (", gates * size,
        ", ", size, "), got ", w_ih.sizes(), " and ", w_hh.sizes());
  check(cell.defined() == (kind == RecurrentCell::LSTM) &&
            (!cell.defined() || cell.sizes() == hidden.sizes()),
        op, ": an LSTM has a cell (N, H) like the hidden state ", hidden.sizes(),
        ", other modes none");
  for (const Tensor* t : {&hidden, &cell, &w_ih, &w_hh}) {
    DType dtype = t->defined() ? t->dtype() : input.dtype();
    check(dtype == input.dtype(), op, ": expected one dtype, got ", input.dtype(), " and ", dtype);
  }
  check_bias(b_ih, input, gates * size);
  check_bias(b_hh, input, gates * size);
  return steps_of(input, hidden, batch_sizes, reverse);
}

// With the input's product as a tensor of its own.
std::array<Tensor, 3> layer_of_floats(RecurrentCell kind, const RecurrentSteps& steps,
                                      const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                      const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                                      const Tensor& b_hh) {
  bool is_gru = kind == RecurrentCell::GRU, is_lstm = kind == RecurrentCell::LSTM;
  Tensor x = ops::linear(input, w_ih, b_ih);
  if (b_hh.defined() && !is_gru) x = x + b_hh;
  int64_t size = hidden.sizes()[1];
  Tensor none = rl::empty(Dims{0}, options(x)), output = rows_like(x, size);
  Tensor cells = is_lstm ? rows_like(x, size) : none;
  Tensor gates = is_lstm || is_gru ? rows_like(x, 4 * size) : none;
  Tensor sums = ops::contiguous(x), w = ops::contiguous(w_hh), h = ops::contiguous(hidden),
         c = contiguous_or_none(cell), b = is_gru ? contiguous_or_none(b_hh) : Tensor();
  launch::recurrent_forward({kind, launch::place_of("recurrent_layer", x, w, h, c, b), x.dtype(),
                             hidden.sizes()[0], size, steps, data(w), data(h), data(c)},
                            {data(sums), data(b), data(output), is_lstm ? data(cells) : nullptr,
                             is_lstm || is_gru ? data(gates) : nullptr});
  return {output, cells, gates};
}

}  // namespace

std::array<Tensor, 3> recurrent_layer(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                      const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                                      const Tensor& b_hh, const std::string& mode,
                                      const Dims& batch_sizes, bool reverse) {
  RecurrentCell kind = cell_of(mode);
  RecurrentSteps steps =
      check_whole_layer(kind, input, hidden, cell, w_ih, w_hh, b_ih, b_hh, batch_sizes, reverse);
  Device place = launch::place_of("recurrent_layer", input, hidden, cell, w_ih, w_hh, b_ih, b_hh);
  bool reduced = is_reduced(input.dtype());
  check_implemented(is_floating(input.dtype()), "recurrent_layer: not implemented for dtype ",
                    input.dtype());
  if (computes_in_floats(place)) {
    auto made = layer_of_floats(kind, steps, to_floats(input), to_floats(hidden), to_floats(cell),
                                to_floats(w_ih), to_floats(w_hh), to_floats(b_ih), to_floats(b_hh));
    return {ops::to(made[0], input.dtype()), made[1], made[2]};
  }
  bool is_gru = kind == RecurrentCell::GRU, is_lstm = kind == RecurrentCell::LSTM;
  int64_t size = hidden.sizes()[1], width = gates_of(kind) * size;
  TensorOptions floats = options(input, compute_dtype(input.dtype()));
  auto rows = [&](int64_t k) {
    Dims sizes = input.sizes();
    sizes.back() = k;
    return rl::empty(sizes, floats);
  };
  Tensor none = rl::empty(Dims{0}, floats), output = rows_like(input, size);
  Tensor cells = is_lstm ? rows(size) : none;
  Tensor gates = is_gru || is_lstm ? rows(4 * size) : reduced ? rows(width) : output;
  Tensor bias = to_floats(b_ih), hidden_bias = contiguous_or_none(to_floats(b_hh));
  if (!is_gru && hidden_bias.defined()) bias = bias.defined() ? bias + hidden_bias : hidden_bias;
  bias = contiguous_or_none(bias);
  Tensor x = ops::contiguous(input), w_x = ops::contiguous(w_ih), w = ops::contiguous(w_hh),
         h = ops::contiguous(hidden), c = contiguous_or_none(to_floats(cell));
  RecurrentInput from{input.dtype(), input.size(-1), data(x), data(w_x), data(bias)};
  launch::recurrent_forward(
      {kind, place, input.dtype(), hidden.sizes()[0], size, steps, data(w), data(h), data(c)},
      {nullptr, is_gru ? data(hidden_bias) : nullptr, data(output), is_lstm ? data(cells) : nullptr,
       data(gates), &from});
  return {output, cells, is_gru || is_lstm ? gates : none};
}

}  // namespace impl

namespace grad {

using namespace ops;

namespace {

// What the kernel gives, of flat tensors and in one order of names for all cells. `before` is of a
// GRU alone.
struct Gradients {
  Tensor x, sums, hidden, cell;
};
Gradients gradients(RecurrentCell kind, const RecurrentSteps& steps, const Tensor& hidden,
                    const Tensor& cell, const Tensor& weight, const Tensor& output,
                    const Tensor& cells, const Tensor& gates, const Tensor& before,
                    const Tensor& grad_output, const Tensor& grad_cells, const Tensor& grad_gates) {
  Tensor w = contiguous(weight), h = contiguous(hidden), c = contiguous_or_none(cell),
         from_output = contiguous_or_none(grad_output), from_cells = contiguous_or_none(grad_cells),
         from_gates = contiguous_or_none(grad_gates);
  Gradients made{rows_like(output, weight.sizes()[0]), Tensor(),
                 rl::empty(h.sizes(), options(h, compute_dtype(h.dtype()))),
                 c.defined() ? rl::empty(c.sizes(), options(c)) : Tensor()};
  if (kind == RecurrentCell::GRU) made.sums = rows_like(output, weight.sizes()[0]);
  launch::recurrent_backward(
      {kind,
       launch::place_of("recurrent_backward", h, w, c, output, from_output, from_cells, from_gates),
       h.dtype(), h.sizes()[0], h.sizes()[1], steps, data(w), data(h), data(c)},
      {data(output), data(cells), data(gates), data(before), data(from_output), data(from_cells),
       data(from_gates), data(made.x), data(made.sums), data(made.hidden), data(made.cell)});
  return made;
}

// Differentiable again: the same, op by op. The states' gradients at a step are `grad` with what
// the step's samples have; the others keep theirs.
class StateGradient {
 public:
  explicit StateGradient(const Tensor& like) : grad_(ops::zeros_like(like)) {}
  Tensor rows(int64_t n) const { return narrow(grad_, 0, 0, n); }
  void set(const Tensor& first) {
    int64_t n = first.size(0), all = grad_.size(0);
    grad_ = n == all ? first : cat({first, narrow(grad_, 0, n, all - n)}, 0);
  }
  const Tensor& all() const { return grad_; }

 private:
  Tensor grad_;
};

// The rows of step i of an incoming gradient, if there is one.
Tensor plus_step(const Tensor& t, const Tensor& grad, const RecurrentSteps& steps, int64_t i) {
  return grad.defined() ? t + step_of(flat(grad), steps, i) : t;
}

Gradients rnn_gradients_by_ops(const Tensor& grad_output, const Tensor& hidden,
                               const Tensor& weight, const Tensor& output, bool relu,
                               const RecurrentSteps& steps) {
  StateGradient dh(hidden);
  TensorList sums(static_cast<size_t>(steps.count()));
  for (int64_t i = steps.count() - 1; i >= 0; --i) {
    Tensor h = step_of(output, steps, i),
           d = plus_step(dh.rows(steps.rows(i)), grad_output, steps, i);
    Tensor& now = sums[static_cast<size_t>(i)];
    now = relu ? masked_fill(d, le(h, wrap_number(Scalar(0))), Scalar(0)) : d * (1 - h * h);
    dh.set(mm(now, weight));
  }
  return {join(sums, steps, weight, weight.size(0)), {}, dh.all(), {}};
}

Gradients lstm_gradients_by_ops(const Tensor& grad_output, const Tensor& grad_cells,
                                const Tensor& grad_gates, const Tensor& hidden, const Tensor& cell,
                                const Tensor& weight, const Tensor& cells, const Tensor& gates,
                                const RecurrentSteps& steps) {
  StateGradient dh(hidden), dc(cell);
  TensorList sums(static_cast<size_t>(steps.count()));
  for (int64_t i = steps.count() - 1; i >= 0; --i) {
    TensorList gate = chunk(step_of(gates, steps, i), 4, 1);
    Tensor c = states_before(cell, cells, steps, i), t = tanh(step_of(cells, steps, i));
    Tensor from_hidden = plus_step(dh.rows(steps.rows(i)), grad_output, steps, i);
    Tensor slope = plus_step(dc.rows(steps.rows(i)), grad_cells, steps, i) +
                   from_hidden * gate[3] * (1 - t * t);
    Tensor d = plus_step(cat({slope * gate[2], slope * c, slope * gate[0], from_hidden * t}, 1),
                         grad_gates, steps, i);
    Tensor steepness = cat({gate[0] * (1 - gate[0]), gate[1] * (1 - gate[1]), 1 - gate[2] * gate[2],
                            gate[3] * (1 - gate[3])},
                           1);
    Tensor& now = sums[static_cast<size_t>(i)];
    now = d * steepness;
    dc.set(slope * gate[1]);
    dh.set(mm(now, weight));
  }
  return {join(sums, steps, weight, weight.size(0)), {}, dh.all(), dc.all()};
}

Gradients gru_gradients_by_ops(const Tensor& grad_output, const Tensor& grad_gates,
                               const Tensor& hidden, const Tensor& weight, const Tensor& before,
                               const Tensor& gates, const RecurrentSteps& steps) {
  StateGradient dh(hidden);
  TensorList to_x(static_cast<size_t>(steps.count())), to_sums = to_x;
  for (int64_t i = steps.count() - 1; i >= 0; --i) {
    TensorList gate = chunk(step_of(gates, steps, i), 4, 1), more;
    if (grad_gates.defined()) more = chunk(step_of(flat(grad_gates), steps, i), 4, 1);
    auto plus = [&](const Tensor& t, size_t k) { return more.empty() ? t : t + more[k]; };
    const Tensor &r = gate[0], &z = gate[1], &n = gate[2], &from_hidden = gate[3];
    Tensor slope = plus_step(dh.rows(steps.rows(i)), grad_output, steps, i);
    Tensor dn = plus(slope * (1 - z), 2) * (1 - n * n),
           dz = plus(slope * (step_of(before, steps, i) - n), 1) * z * (1 - z);
    Tensor dr = plus(dn * from_hidden, 0) * r * (1 - r);
    to_x[static_cast<size_t>(i)] = cat({dr, dz, dn}, 1);
    Tensor& now = to_sums[static_cast<size_t>(i)];
    now = cat({dr, dz, plus(dn * r, 3)}, 1);
    dh.set(slope * z + mm(now, weight));
  }
  int64_t width = weight.size(0);
  return {join(to_x, steps, weight, width), join(to_sums, steps, weight, width), dh.all(), {}};
}

Gradients gradients_by_ops(RecurrentCell kind, const RecurrentSteps& steps, const Tensor& hidden,
                           const Tensor& cell, const Tensor& weight, const Tensor& output,
                           const Tensor& cells, const Tensor& gates, const Tensor& before,
                           const Tensor& grad_output, const Tensor& grad_cells,
                           const Tensor& grad_gates) {
  switch (kind) {
    case RecurrentCell::LSTM:
      return lstm_gradients_by_ops(grad_output, grad_cells, grad_gates, hidden, cell, weight,
                                   flat(cells), flat(gates), steps);
    case RecurrentCell::GRU:
      return gru_gradients_by_ops(grad_output, grad_gates, hidden, weight, before, flat(gates),
                                  steps);
    default:
      return rnn_gradients_by_ops(grad_output, hidden, weight, flat(output),
                                  kind == RecurrentCell::Relu, steps);
  }
}

// Of x, the first states, the weight of the hidden state, and its bias if it is a GRU's.
struct LayerGradients {
  Tensor x, hidden, cell, weight, bias;
};

LayerGradients layer_gradients(RecurrentCell kind, const RecurrentSteps& steps,
                               const Tensor& grad_output, const Tensor& grad_cells,
                               const Tensor& grad_gates, const Tensor& hidden, const Tensor& cell,
                               const Tensor& w_hh, const Tensor& output, const Tensor& cells,
                               const Tensor& gates, bool of_weight, bool of_bias) {
  bool is_gru = kind == RecurrentCell::GRU;
  Tensor before;
  if (is_gru || of_weight) before = states_before(hidden, flat(output), steps);
  auto* run = grad_enabled() ? gradients_by_ops : gradients;
  Gradients made = run(kind, steps, hidden, cell, w_hh, output, cells, gates,
                       is_gru ? before : Tensor(), grad_output, grad_cells, grad_gates);
  Tensor sums = flat(is_gru ? made.sums : made.x);
  return {made.x, made.hidden, made.cell, of_weight ? product_over_rows(sums, before) : Tensor(),
          is_gru && of_bias ? sum(sums, Dims{0}, false) : Tensor()};
}

}  // namespace

std::array<Tensor, 7> recurrent_gradients(
    const Tensor& grad_output, const Tensor& grad_cells, const Tensor& grad_gates,
    const Tensor& input, const Tensor& hidden, const Tensor& cell, const Tensor& w_ih,
    const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, const Tensor& output,
    const Tensor& cells, const Tensor& gates, const std::string& mode, const Dims& batch_sizes,
    bool reverse, bool of_input, bool of_w_ih, bool of_w_hh, bool of_biases) {
  RecurrentCell kind = cell_of(mode);
  bool by_floats =
      grad_enabled() || !is_reduced(input.dtype()) || computes_in_floats(input.device());
  auto in_floats = [&](const Tensor& t) { return by_floats ? to_floats(t) : t; };
  LayerGradients made =
      layer_gradients(kind, steps_of(output, hidden, batch_sizes, reverse), in_floats(grad_output),
                      grad_cells, grad_gates, in_floats(hidden), to_floats(cell), in_floats(w_hh),
                      in_floats(output), cells, gates, of_w_hh, of_biases && b_hh.defined());
  Tensor x = flat(made.x), of_x = of_biases ? sum(x, Dims{0}, false) : Tensor();
  auto as_input = [&](const Tensor& t) { return t.defined() ? to(t, input.dtype()) : t; };
  // A copy of of_x: who scales all gradients in place would scale one of both twice.
  Tensor of_b_hh = kind == RecurrentCell::GRU || !of_biases ? made.bias : clone(of_x);
  return {of_input ? as_input(reshape(mm(x, in_floats(w_ih)), input.sizes())) : Tensor(),
          as_input(made.hidden),
          as_input(made.cell),
          of_w_ih ? as_input(product_over_rows(x, flat(in_floats(input)))) : Tensor(),
          as_input(made.weight),
          b_ih.defined() ? as_input(of_x) : Tensor(),
          b_hh.defined() ? as_input(of_b_hh) : Tensor()};
}

}  // namespace grad
}  // namespace rl
