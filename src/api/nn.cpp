#include "api/nn.h"

#include <cmath>

namespace rushlight::nn {

struct Module::State {
  bool training = true;
  NamedTensors parameters, buffers;
  std::vector<std::pair<std::string, Module>> modules;
};

Module::Module() : state_(std::make_shared<State>()) { initialize(); }
Module::~Module() = default;

Tensor Module::register_parameter(const std::string& name, const Tensor& value) {
  set_requires_grad(value);
  state_->parameters.emplace_back(name, value);
  return value;
}
Tensor Module::register_buffer(const std::string& name, const Tensor& value) {
  state_->buffers.emplace_back(name, value);
  return value;
}
void Module::register_module(const std::string& name, const Module& module) {
  state_->modules.emplace_back(name, module);
}

void Module::collect(NamedTensors& found, const std::string& prefix, bool of_parameters) const {
  for (const auto& [name, t] : of_parameters ? state_->parameters : state_->buffers)
    found.emplace_back(prefix + name, t);
  for (const auto& [name, module] : state_->modules)
    module.collect(found, prefix + name + ".", of_parameters);
}
NamedTensors Module::named_parameters() const {
  NamedTensors found;
  collect(found, "", true);
  return found;
}
NamedTensors Module::named_buffers() const {
  NamedTensors found;
  collect(found, "", false);
  return found;
}
TensorList Module::parameters() const {
  TensorList found;
  for (const auto& [name, t] : named_parameters()) found.push_back(t);
  return found;
}
NamedTensors Module::state_dict() const {
  NamedTensors found = named_parameters();
  for (auto& entry : named_buffers()) found.push_back(std::move(entry));
  return found;
}
void Module::load_state_dict(const NamedTensors& values) const {
  NoGradGuard guard;
  const NamedTensors own = state_dict();
  for (const auto& [name, t] : own) {
    const Tensor* found = nullptr;
    for (const auto& [given, value] : values)
      if (given == name) found = &value;
    rl::check(found, "load_state_dict: there is no '", name, "'");
    rl::check(found->sizes() == t.sizes(), "load_state_dict: '", name, "': expected shape ",
              t.sizes(), ", got ", found->sizes());
    copy_(t, *found);
  }
  for (const auto& [given, value] : values) {
    bool known = false;
    for (const auto& [name, t] : own) known = known || name == given;
    rl::check(known, "load_state_dict: '", given, "' is no parameter or buffer");
  }
}
void Module::zero_grad() const {
  for (const Tensor& t : parameters()) rushlight::zero_grad(t);
}
void Module::train(bool mode) const {
  state_->training = mode;
  for (const auto& [name, module] : state_->modules) module.train(mode);
}
bool Module::is_training() const { return state_->training; }

namespace {

Tensor uniform(const Dims& sizes, double bound) {
  NoGradGuard guard;
  Tensor t = rl::empty(sizes, {rl::default_dtype(), Device{}});
  return uniform_(t, -bound, bound);
}
// kaiming_uniform_ with a = sqrt(5), as Python's layers begin: 1 / sqrt(fan_in).
double bound_of(int64_t fan_in) { return fan_in > 0 ? 1.0 / std::sqrt(double(fan_in)) : 0.0; }

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias) {
  const double gain = std::sqrt(2.0 / (1 + 5.0));
  const double bound =
      in_features > 0 ? std::sqrt(3.0) * (gain / std::sqrt(double(in_features))) : 0;
  weight = register_parameter("weight", uniform({out_features, in_features}, bound));
  if (with_bias) bias = register_parameter("bias", uniform({out_features}, bound_of(in_features)));
}

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, Conv2dOptions given)
    : options(std::move(given)) {
  rl::check_value(
      options.groups > 0 && in_channels % options.groups == 0 && out_channels % options.groups == 0,
      "Conv2d: ", options.groups, " groups of ", in_channels, " and ", out_channels, " channels");
  const int64_t fan_in = in_channels / options.groups * kernel_size * kernel_size;
  const double gain = std::sqrt(2.0 / (1 + 5.0));
  weight = register_parameter(
      "weight", uniform({out_channels, in_channels / options.groups, kernel_size, kernel_size},
                        std::sqrt(3.0) * (gain / std::sqrt(double(fan_in)))));
  if (options.bias) bias = register_parameter("bias", uniform({out_channels}, bound_of(fan_in)));
}

BatchNorm::BatchNorm(int64_t num_features, double eps, double momentum)
    : eps(eps), momentum(momentum) {
  weight = register_parameter("weight", ones({num_features}));
  bias = register_parameter("bias", zeros({num_features}));
  running_mean = register_buffer("running_mean", zeros({num_features}));
  running_var = register_buffer("running_var", ones({num_features}));
  num_batches_tracked = register_buffer("num_batches_tracked", zeros({}, kInt64));
}
Tensor BatchNorm::operator()(const Tensor& x) const {
  if (is_training()) add_(num_batches_tracked, rl::wrap_number(Scalar(1)));
  return batch_norm(x, running_mean, running_var, weight, bias, is_training(), momentum, eps);
}

LayerNorm::LayerNorm(const Dims& shape, double eps) : normalized_shape(shape), eps(eps) {
  weight = register_parameter("weight", ones(shape));
  bias = register_parameter("bias", zeros(shape));
}

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim) {
  weight = register_parameter("weight", randn({num_embeddings, embedding_dim}));
}

MultiheadAttention::MultiheadAttention(int64_t width, int64_t heads)
    : out_proj(width, width), heads(heads) {
  rl::check_value(heads > 0 && width % heads == 0, "MultiheadAttention: a width of ", width,
                  " for ", heads, " heads");
  const double bound = std::sqrt(6.0 / double(3 * width + width));
  in_proj_weight = register_parameter("in_proj_weight", uniform({3 * width, width}, bound));
  in_proj_bias = register_parameter("in_proj_bias", zeros({3 * width}));
  register_module("out_proj", out_proj);
  NoGradGuard guard;
  zero_(out_proj.bias);
}
Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      bool is_causal) const {
  const int64_t width = out_proj.weight.sizes()[0];
  const Tensor* inputs[] = {&query, &key, &value};
  Tensor parts[3];
  for (int i = 0; i < 3; ++i) {
    const Tensor& x = *inputs[i];
    rl::check_value(x.dim() == 3, "MultiheadAttention: expected 3 dims, got ", x.dim());
    Tensor projected = linear(x, slice(in_proj_weight, 0, i * width, (i + 1) * width),
                              slice(in_proj_bias, 0, i * width, (i + 1) * width));
    const Dims split{x.sizes()[0], x.sizes()[1], heads, width / heads};
    parts[i] = transpose(reshape(projected, split), 1, 2);
  }
  Tensor mixed =
      scaled_dot_product_attention(parts[0], parts[1], parts[2], Tensor(), 0.0, is_causal);
  return out_proj(reshape(transpose(mixed, 1, 2), query.sizes()));
}

LSTM::LSTM(int64_t input_size, int64_t hidden_size) : hidden_size(hidden_size) {
  const double bound = bound_of(hidden_size);
  weight_ih = register_parameter("weight_ih_l0", uniform({4 * hidden_size, input_size}, bound));
  weight_hh = register_parameter("weight_hh_l0", uniform({4 * hidden_size, hidden_size}, bound));
  bias_ih = register_parameter("bias_ih_l0", uniform({4 * hidden_size}, bound));
  bias_hh = register_parameter("bias_hh_l0", uniform({4 * hidden_size}, bound));
}
Tensor LSTM::operator()(const Tensor& x) const {
  rl::check_value(x.dim() == 3, "LSTM: expected 3 dims, got ", x.dim());
  Tensor hidden = zeros({x.sizes()[0], hidden_size}, x.dtype()), cell = hidden;
  const Tensor inputs = linear(x, weight_ih, bias_ih + bias_hh);
  TensorList outputs;
  for (int64_t t = 0; t < x.sizes()[1]; ++t) {
    const Tensor gates = select(inputs, 1, t) + linear(hidden, weight_hh);
    auto gate = [&](int64_t i) { return slice(gates, 1, i * hidden_size, (i + 1) * hidden_size); };
    cell = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * tanh(gate(2));
    hidden = sigmoid(gate(3)) * tanh(cell);
    outputs.push_back(hidden);
  }
  return stack(outputs, 1);
}

}  // namespace rushlight::nn
