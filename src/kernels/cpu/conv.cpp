#include "kernels/conv.h"

#include <algorithm>
#include <optional>

#include "core/parallel.h"
#include "kernels/cpu/conv_problem.h"
#include "kernels/cpu/units.h"
#include "kernels/cpu/workspace.h"
#include "kernels/reduce.h"
#include "kernels/unfold.h"

namespace rl::kernels {

ConvProblem::ConvProblem(const View& big, const View& little, const View& weight,
                         const ConvGeometry& g)
    : dims(g.dims),
      batch(big.sizes[0]),
      channels(big.sizes[1]),
      filters(little.sizes[1]),
      groups(g.groups) {
  for (int i = 0; i < dims; ++i) {
    large[i] = big.sizes[2 + i];
    small[i] = little.sizes[2 + i];
    kernel[i] = weight.sizes[2 + i];
    stride[i] = g.stride[i];
    padding[i] = g.padding[i];
    dilation[i] = g.dilation[i];
  }
}

bool separate(const View& v) {
  Dims order;  // by stride
  for (int64_t i = 0; i < v.ndim; ++i) {
    if (v.sizes[i] <= 1) continue;
    int64_t at = 0;
    while (at < order.size() && v.strides[order[at]] < v.strides[i]) ++at;
    order.insert(at, i);
  }
  int64_t least = 1;
  for (int64_t i : order) {
    if (v.strides[i] < least) return false;
    least = v.strides[i] * v.sizes[i];
  }
  return true;
}

namespace {

// Calls f(pointer, length, step) for runs that cover channel `c` of image `n` of a view.
template <class T, class F> void for_channel(const View& v, int64_t n, int64_t c, F&& f) {
  int64_t size[3] = {1, 1, 1}, step[3] = {0, 0, 0};
  for (int64_t i = 2; i < v.ndim; ++i) {
    size[5 - v.ndim + i - 2] = v.sizes[i];
    step[5 - v.ndim + i - 2] = v.strides[i];
  }
  T* data = v.ptr<T>() + n * v.strides[0] + c * v.strides[1];
  for (int64_t z = 0; z < size[0]; ++z)
    for (int64_t y = 0; y < size[1]; ++y) f(data + z * step[0] + y * step[1], size[2], step[2]);
}

template <class F> void visit_computed(DType t, F&& f) {
  visit<float, double, complex64, complex128, int64_t, int32_t, int16_t, int8_t, uint8_t>("conv", t,
                                                                                          f);
}

void add_bias(const View& out, const View& bias) {
  int64_t channels = out.sizes[1], plane = out.numel / (out.sizes[0] * channels);
  visit_computed(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(0, out.sizes[0] * channels, default_grain / (plane + 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     T value = bias.ptr<T>()[i % channels * bias.strides[0]];
                     for_channel<T>(out, i / channels, i % channels,
                                    [&](T* p, int64_t n, int64_t step) {
                                      for (int64_t x = 0; x < n; ++x)
                                        p[x * step] = static_cast<T>(p[x * step] + value);
                                    });
                   }
                 });
  });
}

// Sums over everything but the channels.
void sum_channels(const View& grad, const View& sums) {
  Dims sizes, strides;
  for (int64_t i = 0; i < grad.ndim; ++i) {
    sizes.push_back(i == 1 ? grad.sizes[1] : 1);
    strides.push_back(i == 1 ? sums.strides[0] : 0);
  }
  sum(grad, {sums.data, sizes.data(), strides.data(), grad.ndim, sums.numel, sums.dtype});
}

// A float copy of an input, or the float temporary that an output is written to, for 16-bit floats;
// also a plain copy of an input with overlapping elements. Otherwise the view itself.
class Operand {
 public:
  enum Role { In, Out };
  Operand(const View& v, Role role) : given_(v) {
    DType dtype = compute_dtype(v.dtype);
    if (dtype == v.dtype && separate(v)) return;
    if (role == In) copy_.emplace(RowMajor::copy_of(v, dtype));
    else copy_.emplace(v.shape(), dtype);
  }
  View view() const { return copy_ ? copy_->view() : given_; }
  void write_back() const {
    if (copy_) copy(copy_->view(), given_);
  }

 private:
  const View& given_;
  std::optional<RowMajor> copy_;
};

// Whether bfloat16 is multiplied as it is: where each channel or a few have a filter of their own,
// floats are as quick.
bool multiplies_bfloat16(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                         const View& weight) {
  for (const View* v : {&large, &small, &weight})
    if (v->dtype != DType::BFloat16 || !v->numel || !separate(*v)) return false;
  return (has_bfloat16_products() || has_matrix_unit()) &&
         (p.groups == 1 || p.channels >= 16 * p.groups) && !suits_planes(op, p);
}

// The kernels read and write what a problem says exists: nothing may stick out.
void check_fit(const ConvProblem& p, const View& large, const View& small, const View& weight) {
  bool fits = large.sizes[0] == small.sizes[0] && weight.sizes[0] == p.filters && p.groups > 0 &&
              weight.sizes[1] * p.groups == p.channels && p.filters % p.groups == 0;
  for (int i = 0; i < p.dims; ++i)
    fits = fits && (p.small[i] - 1) * p.stride[i] + (p.kernel[i] - 1) * p.dilation[i] <
                       p.large[i] + 2 * p.padding[i];
  check(fits, "convolution: tensors of sizes ", large.shape(), " and ", small.shape(),
        " do not belong together with a weight of size ", weight.shape());
}

// Floats, in the first kernel that suits; false if there is none. Each treats the bias of some
// operations itself.
bool run_floats(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                const View& weight, const RowMajor* bias, const StripFormula* formula) {
  float* values = bias ? bias->ptr<float>() : nullptr;
  const float* read = op == ConvOp::Gather ? values : nullptr;
  const float* added = op == ConvOp::Weight ? nullptr : values;
  auto any = [&](bool slower) {
    return !formula && window_conv(op, p, large, small, weight, added, slower);
  };
  bool own = depthwise_conv(op, p, large, small, weight, read, formula) ||
             (!formula && plane_conv(op, p, large, small, weight, read)) ||
             (!formula && winograd_conv(op, p, large, small, weight, read));
  bool finished =
      !own && ((!formula && group_conv(op, p, large, small, weight, added)) || any(false));
  own = own || finished || panel_conv(op, p, large, small, weight, read, formula);
  if (!own) finished = own = any(true);
  if (bias && own && op == ConvOp::Weight) sum_channels(small, bias->view());
  if (bias && own && op == ConvOp::Scatter && !finished) add_bias(large, bias->view());
  return own;
}

bool run(ConvOp op, const View& large, const View& small, const View& weight, const View* bias,
         const ConvGeometry& geometry, const StripFormula* formula = nullptr) {
  int64_t ndim = geometry.dims + 2;
  check(large.ndim == ndim && small.ndim == ndim && weight.ndim == ndim, "convolution: expected ",
        ndim, "-dimensional tensors, got sizes ", large.shape(), ", ", small.shape(), " and ",
        weight.shape());
  auto role = [&](ConvOp writer) { return op == writer ? Operand::Out : Operand::In; };
  ConvProblem problem(large, small, weight, geometry);
  check_fit(problem, large, small, weight);
  const View* read_bias = op == ConvOp::Weight ? nullptr : bias;
  if (pointwise_conv(op, problem, large, small, weight, read_bias, formula)) {
    if (op == ConvOp::Weight && bias) sum_channels(small, *bias);
    return true;
  }
  std::optional<RowMajor> bias_copy;
  if (bias) {
    DType dtype = compute_dtype(large.dtype);
    if (op == ConvOp::Weight) bias_copy.emplace(bias->shape(), dtype);
    else bias_copy.emplace(RowMajor::copy_of(*bias, dtype));
  }
  const float* added = bias && op != ConvOp::Weight ? bias_copy->ptr<float>() : nullptr;
  if (!formula && multiplies_bfloat16(op, problem, large, small, weight) &&
      window_conv(op, problem, large, small, weight, added, true)) {
    if (op == ConvOp::Weight && bias) sum_channels(small, *bias);
    return true;
  }
  Operand l(large, role(ConvOp::Scatter)), s(small, role(ConvOp::Gather)),
      w(weight, role(ConvOp::Weight));
  View lv = l.view(), sv = s.view(), wv = w.view();
  bool floats = large.numel && small.numel && weight.numel && lv.dtype == DType::Float32;
  const RowMajor* used_bias = bias ? &*bias_copy : nullptr;
  if (!floats || !run_floats(op, problem, lv, sv, wv, used_bias, formula)) {
    if (formula) return false;
    generic_conv(op, problem, lv, sv, wv);
    if (bias && op == ConvOp::Weight) sum_channels(sv, bias_copy->view());
    else if (bias) add_bias(op == ConvOp::Gather ? sv : lv, bias_copy->view());
  }
  if (op == ConvOp::Gather) s.write_back();
  if (op == ConvOp::Scatter) l.write_back();
  if (op == ConvOp::Weight) {
    w.write_back();
    if (bias) copy(bias_copy->view(), *bias);
  }
  return true;
}

}  // namespace

bool conv_forward(const View& input, const View& weight, const View* bias, const View& out,
                  const ConvGeometry& geometry, const StripFormula* formula) {
  if (out.numel == 0) return true;
  if (!geometry.transposed) return run(ConvOp::Gather, input, out, weight, bias, geometry, formula);
  return !formula && run(ConvOp::Scatter, out, input, weight, bias, geometry);
}

void conv_backward_input(const View& grad_out, const View& weight, const View& grad_input,
                         const ConvGeometry& geometry) {
  if (grad_input.numel == 0) return;
  if (geometry.transposed) run(ConvOp::Gather, grad_out, grad_input, weight, nullptr, geometry);
  else run(ConvOp::Scatter, grad_input, grad_out, weight, nullptr, geometry);
}

bool conv_backward_weight(const View& grad_out, const View& input, const View& grad_weight,
                          const View* grad_bias, const ConvGeometry& geometry,
                          const StripFormula* formula) {
  if (!geometry.transposed)
    return run(ConvOp::Weight, input, grad_out, grad_weight, grad_bias, geometry, formula);
  if (formula) return false;
  run(ConvOp::Weight, grad_out, input, grad_weight, nullptr, geometry);
  if (!grad_bias) return true;
  Operand grad(grad_out, Operand::In), sums(*grad_bias, Operand::Out);
  sum_channels(grad.view(), sums.view());
  sums.write_back();
  return true;
}

namespace {

void check_parameters(IntSpan input, IntSpan weight, const IntSpan* bias, const ConvGeometry& g,
                      const char* op) {
  int64_t ndim = g.dims + 2;
  check(input.size() == ndim && weight.size() == ndim, op, ": expected ", ndim,
        "-dimensional input and weight, but got "
        "input of size ",
        input, " and weight of size ", weight);
  check(g.groups > 0, op, ": non-positive groups is not supported, got ", g.groups);
  for (int i = 0; i < g.dims; ++i) {
    check(g.stride[i] > 0, op, ": non-positive stride is not supported, got ", g.stride[i]);
    check(g.padding[i] >= 0, op, ": negative padding is not supported, got ", g.padding[i]);
    check(g.dilation[i] > 0, op, ": dilation should be greater than zero, got ", g.dilation[i]);
    check(g.output_padding[i] >= 0, op, ": negative output_padding is not supported, got ",
          g.output_padding[i]);
    check(std::max({g.stride[i], g.padding[i], g.dilation[i], g.output_padding[i]}) <= INT32_MAX,
          op, ": a stride, padding or dilation is too large");
  }
  check(weight[0] >= g.groups, op, ": given groups=", g.groups, ", expected weight to be at least ",
        g.groups, " at dimension 0, but got weight of size ", weight);
  check(weight[0] % g.groups == 0, op, ": given groups=", g.groups,
        ", expected weight to be divisible by ", g.groups,
        " at dimension 0, but got weight of size ", weight);
  int64_t channels = g.transposed ? weight[0] : weight[1] * g.groups;
  int64_t outputs = g.transposed ? weight[1] * g.groups : weight[0];
  check(input[1] == channels, op, ": given groups=", g.groups, ", weight of size ", weight,
        ", expected input", input, " to have ", channels, " channels, but got ", input[1],
        " channels instead");
  if (bias)
    check(bias->size() == 1 && (*bias)[0] == outputs, op, ": given weight of size ", weight,
          ", expected bias to be 1-dimensional with ", outputs, " elements, but got bias of size ",
          *bias, " instead");
}

}  // namespace

Dims conv_output_sizes(IntSpan input, IntSpan weight, const IntSpan* bias, const ConvGeometry& g) {
  const char* op = g.transposed ? "conv_transpose" : "conv";
  check_parameters(input, weight, bias, g, op);
  Dims sizes{input[0], g.transposed ? weight[1] * g.groups : weight[0]};
  for (int i = 0; i < g.dims; ++i) {
    int64_t size = input[2 + i], reach, out;
    check(weight[2 + i] > 0, op,
          ": kernel size should be greater than zero, but got weight of size ", weight);
    check(!__builtin_mul_overflow(g.dilation[i], weight[2 + i] - 1, &reach) && reach < max_numel,
          op, ": a weight of size ", weight, " with dilation ", g.dilation[i], " reaches too far");
    ++reach;
    if (g.transposed) {
      check(size > 0, op, ": expected non-empty spatial dimensions, but got input of size ", input);
      check(g.output_padding[i] < std::max(g.stride[i], g.dilation[i]), op,
            ": output padding must be smaller than either stride or dilation, but got "
            "output_padding ",
            g.output_padding[i], ", stride ", g.stride[i], ", dilation ", g.dilation[i]);
      check(!__builtin_mul_overflow(size - 1, g.stride[i], &out) &&
                !__builtin_add_overflow(out, reach + g.output_padding[i] - 2 * g.padding[i], &out),
            op, ": the output of input size ", input, " and stride ", g.stride[i], " is too large");
      check(out >= 1, op, ": given input size ", input, ", calculated output size ", out,
            " along spatial dimension ", i, " is too small");
    } else {
      check(size + 2 * g.padding[i] >= reach, op, ": calculated padded input size ",
            size + 2 * g.padding[i], " along spatial dimension ", i,
            " is smaller than the kernel size ", reach,
            ". Kernel size can't be greater than actual input size");
      out = window_count(size, weight[2 + i], g.stride[i], g.padding[i], g.dilation[i]);
    }
    sizes.push_back(out);
  }
  return sizes;
}

}  // namespace rl::kernels
