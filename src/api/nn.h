// Layers. Names, arguments, defaults and initial values are those of Python's rushlight.nn, and so
// a file of a state_dict fits both.
//
//   struct Net : nn::Module {
//     nn::Linear fc{784, 10};
//     Net() { register_module("fc", fc); }
//     Tensor forward(const Tensor& x) { return fc(x); }
//   };
#pragma once
#include <functional>
#include <memory>

#include "api/rushlight.h"

namespace rushlight::nn {

// What has parameters. Modules are values that share their state when copied, as tensors do.
class Module {
 public:
  Module();
  virtual ~Module();

  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  TensorList parameters() const;
  NamedTensors state_dict() const;
  // Copies the values; every name must be there, with its shape.
  void load_state_dict(const NamedTensors& values) const;
  void save(const std::string& path) const { rushlight::save(state_dict(), path); }
  void load(const std::string& path) const { load_state_dict(rushlight::load(path)); }
  void zero_grad() const;
  void train(bool mode = true) const;
  void eval() const { train(false); }
  bool is_training() const;

  Tensor register_parameter(const std::string& name, const Tensor& value);
  Tensor register_buffer(const std::string& name, const Tensor& value);
  void register_module(const std::string& name, const Module& module);

 private:
  struct State;
  void collect(NamedTensors& found, const std::string& prefix, bool of_parameters) const;
  std::shared_ptr<State> state_;
};

struct Linear : Module {
  Tensor weight, bias;
  Linear(int64_t in_features, int64_t out_features, bool with_bias = true);
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }
};

struct Conv2dOptions {
  Dims stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;
  bool bias = true;
};
struct Conv2d : Module {
  Tensor weight, bias;
  Conv2dOptions options;
  Conv2d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
         Conv2dOptions options = {});
  Tensor operator()(const Tensor& x) const {
    return conv2d(x, weight, bias, options.stride, options.padding, options.dilation,
                  options.groups);
  }
};

struct BatchNorm : Module {  // BatchNorm1d, 2d and 3d
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  double eps, momentum;
  explicit BatchNorm(int64_t num_features, double eps = 1e-5, double momentum = 0.1);
  Tensor operator()(const Tensor& x) const;
};

struct LayerNorm : Module {
  Tensor weight, bias;
  Dims normalized_shape;
  double eps;
  explicit LayerNorm(const Dims& normalized_shape, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const {
    return layer_norm(x, normalized_shape, weight, bias, eps);
  }
};

struct Embedding : Module {
  Tensor weight;
  Embedding(int64_t num_embeddings, int64_t embedding_dim);
  Tensor operator()(const Tensor& indices) const { return functional_embedding(indices, weight); }
};

struct Dropout : Module {
  double p;
  explicit Dropout(double p = 0.5) : p(p) {}
  Tensor operator()(const Tensor& x) const { return dropout(x, p, is_training()); }
};

// Self-attention as of nn.MultiheadAttention with batch_first: (batch, length, width).
struct MultiheadAttention : Module {
  Tensor in_proj_weight, in_proj_bias;
  Linear out_proj;
  int64_t heads;
  MultiheadAttention(int64_t width, int64_t heads);
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    bool is_causal = false) const;
};

// One layer of nn.LSTM with batch_first: (batch, length, input) -> (batch, length, hidden).
struct LSTM : Module {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  int64_t hidden_size;
  LSTM(int64_t input_size, int64_t hidden_size);
  Tensor operator()(const Tensor& x) const;
};

// Calls one after the other, named "0", "1", ... as in Python.
struct Sequential : Module {
  std::vector<std::function<Tensor(const Tensor&)>> steps;
  template <class... Steps> explicit Sequential(const Steps&... given) { (add(given), ...); }
  template <class Step> void add(const Step& step) {
    if constexpr (std::is_base_of_v<Module, Step>)
      register_module(std::to_string(steps.size()), step);
    steps.push_back(step);
  }
  Tensor operator()(Tensor x) const {
    for (const auto& step : steps) x = step(x);
    return x;
  }
};

}  // namespace rushlight::nn
