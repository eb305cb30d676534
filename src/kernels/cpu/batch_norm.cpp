#include "kernels/batch_norm.h"

#include <cmath>
#include <optional>
#include <vector>

#include "kernels/cpu/batch_norm_loops.h"
#include "kernels/cpu/channels_last.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

using Values = std::vector<double>;

// A vector per channel in double, or `missing` throughout where there is none.
Values read(const View* v, int64_t channels, double missing) {
  Values values(static_cast<size_t>(channels), missing);
  if (v)
    visit_floating("batch_norm", v->dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t c = 0; c < channels; ++c)
        values[static_cast<size_t>(c)] =
            static_cast<double>(static_cast<compute_t<T>>(v->ptr<T>()[c * v->strides[0]]));
    });
  return values;
}
Values read(const View& v) { return read(&v, v.numel, 0); }

void write(const View& v, const Values& values) {
  visit_floating("batch_norm", v.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t c = 0; c < v.numel; ++c)
      v.ptr<T>()[c * v.strides[0]] =
          static_cast<T>(static_cast<compute_t<T>>(values[static_cast<size_t>(c)]));
  });
}

bool has_rows(const View& v) {  // rows of channels, equally far apart
  if (v.sizes[1] > 1 && v.strides[1] != 1) return false;
  int64_t step = -1, reach = 0;
  for (int64_t i = v.ndim - 1; i >= 0; --i) {
    if (i == 1 || v.sizes[i] == 1) continue;
    if (step < 0) step = v.strides[i], reach = step * v.sizes[i];
    else if (v.strides[i] != reach) return false;
    else reach *= v.sizes[i];
  }
  return true;
}

bool has_planes(const View& v) {  // contiguous beyond the channels
  return is_contiguous({v.sizes + 2, v.ndim - 2}, {v.strides + 2, v.ndim - 2});
}

ChannelData rows_of(const View& v) {
  for (int64_t i = v.ndim - 1; i >= 0; --i)
    if (i != 1 && v.sizes[i] > 1) return {v.dtype, v.data, v.strides[i], 1};
  return {v.dtype, v.data, 0, 1};
}

// The tensors of a call in one layout, those that have another one as copies.
class Operands {
 public:
  // The last view is written to if `writes`.
  Operands(std::initializer_list<const View*> views, bool writes)
      : views_(views), output_(writes ? views_.back() : nullptr) {
    const View& first = *views_[0];
    bool rows = true;
    for (const View* v : views_) rows = rows && has_rows(*v);
    layout.dtype = compute_dtype(first.dtype);
    layout.channels = first.sizes[1];
    int64_t length = 1;
    for (int64_t i = 2; i < first.ndim; ++i) length *= first.sizes[i];
    // Runs of one element, by planes, took 20 times as long as rows.
    layout.by_rows = (rows || length == 1) && layout.channels > 1;
    layout.batch = layout.by_rows ? first.sizes[0] * length : first.sizes[0];
    layout.length = layout.by_rows ? 1 : length;
    for (const View* v : views_) data.push_back(data_of(*v));
  }
  ~Operands() = default;
  Operands(const Operands&) = delete;

  void write_back() {
    if (output_copy_) copy(output_copy_->view(), *output_);
  }
  ChannelLayout layout;
  std::vector<ChannelData> data;

 private:
  ChannelData data_of(const View& v) {
    if (layout.by_rows ? has_rows(v) : has_planes(v)) return data_in_place(v);
    RowMajor& near = &v == output_ ? output_copy_.emplace(v.shape(), v.dtype)
                                   : copies_.emplace_back(RowMajor::copy_of(v, v.dtype));
    return data_in_place(near.view());
  }
  ChannelData data_in_place(const View& v) const {
    if (layout.by_rows) return rows_of(v);
    return {v.dtype, v.data, v.strides[0], v.strides[1]};
  }
  std::vector<const View*> views_;
  const View* output_;
  std::vector<RowMajor> copies_;
  std::optional<RowMajor> output_copy_;
};

struct Moments {
  Values mean, var;
};

Moments moments(const Operands& in) {
  size_t channels = static_cast<size_t>(in.layout.channels);
  Moments m{Values(channels), Values(channels)};
  channel_moments(in.layout, in.data[0], m.mean.data(), m.var.data());
  for (double& v : m.var) v /= in.layout.count();
  return m;
}

ChannelAffine affine(const BatchNormArgs& args, const Values& mean, const Values& invstd) {
  int64_t channels = static_cast<int64_t>(mean.size());
  ChannelAffine a{read(args.weight, channels, 1), read(args.bias, channels, 0)};
  for (size_t c = 0; c < mean.size(); ++c) {
    a.scale[c] *= invstd[c];
    a.shift[c] -= mean[c] * a.scale[c];
  }
  return a;
}

void move_towards(const View* running, const Values& target, double momentum) {
  if (!running) return;
  Values values = read(*running);
  for (size_t c = 0; c < values.size(); ++c)
    values[c] = (1 - momentum) * values[c] + momentum * target[c];
  write(*running, values);
}

Values inverse_std(const Values& var, double eps) {
  Values invstd(var);
  for (double& v : invstd) v = 1 / std::sqrt(v + eps);
  return invstd;
}

}  // namespace

void batch_norm_apply(const View& input, const ChannelAffine& affine, const BatchNormArgs&,
                      const View&, const View&, const View& out) {
  if (input.numel == 0) return;
  Operands in({&input, &out}, true);
  channel_affine(in.layout, in.data[0], affine.scale.data(), affine.shift.data(), in.data[1]);
  in.write_back();
}

ChannelAffine batch_norm_train(const View& input, const BatchNormArgs& args,
                               const View* running_mean, const View* running_var, double momentum,
                               const View& save_mean, const View& save_invstd) {
  if (input.numel == 0) return {};
  Operands in({&input}, false);
  Moments m = moments(in);
  Values invstd = inverse_std(m.var, args.eps);
  write(save_mean, m.mean);
  write(save_invstd, invstd);
  move_towards(running_mean, m.mean, momentum);
  double n = in.layout.count();
  for (double& v : m.var) v *= n / (n - 1);
  move_towards(running_var, m.var, momentum);
  return affine(args, m.mean, invstd);
}

ChannelAffine batch_norm_eval(const BatchNormArgs& args, const View& mean, const View& var) {
  return affine(args, read(mean), inverse_std(read(var), args.eps));
}

void batch_norm_backward(const View& grad_out, const StripFormula* lazy_grad, const View& input,
                         const View* weight, const View& mean, const View& invstd, bool train,
                         const View* grad_input, const View* grad_weight, const View* grad_bias) {
  int64_t channels = input.sizes[1];
  Values sums(static_cast<size_t>(channels), 0.0), products(sums);
  if (input.numel) {
    Values center = read(mean), inverse = read(invstd), scale = read(weight, channels, 1);
    const View& written = grad_input ? *grad_input : input;
    Operands in({&grad_out, &input, &written}, grad_input != nullptr);
    in.data[0].formula = lazy_grad;
    for (size_t c = 0; c < scale.size(); ++c) scale[c] *= inverse[c];
    channel_backward(
        in.layout, in.data[0], in.data[1],
        {train, center.data(), inverse.data(), scale.data(), sums.data(), products.data()},
        grad_input ? &in.data[2] : nullptr);
    for (size_t c = 0; c < products.size(); ++c) products[c] *= inverse[c];
    in.write_back();
  }
  if (grad_weight) write(*grad_weight, products);
  if (grad_bias) write(*grad_bias, sums);
}

}  // namespace rl::kernels
