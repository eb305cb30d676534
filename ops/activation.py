"""Activation functions."""
from ops.schema import COMPLEX, FLOATING, REAL, composite, elementwise

elementwise("relu(input: Tensor)", "maximum(input, 0)", dtypes=REAL, inplace=True, out=False,
            doc="max(input, 0).",
            grad={"input": "where(out <= 0, 0, grad)"})
elementwise("threshold(input: Tensor, threshold: Scalar, value: Scalar)",
            "where(input <= threshold, value, input)",
            guard='check_fits("threshold", value, input.dtype()), '
                  'check_fits("threshold", threshold, input.dtype())',
            dtypes=REAL, inplace=True, names=("torch.threshold",),
            doc="value where input is at most threshold.",
            grad={"input": "where(input <= threshold, 0, grad)"})
elementwise("leaky_relu(input: Tensor, negative_slope: Scalar = 0.01)",
            "where(input > 0, input, input * negative_slope)",
            dtypes=FLOATING, names=(), inplace=True,
            guard='check_number_of("leaky_relu", negative_slope, input)',
            doc="input above 0, negative_slope * input below.",
            grad={"input": "where(input > 0, grad, grad * negative_slope)"})
elementwise("elu(input: Tensor, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1)",
            "where(input <= 0, alpha * scale * expm1(input * input_scale), input * scale)",
            dtypes=FLOATING, names=(), inplace=True,
            guard='check_number_of("elu", alpha, input)',
            doc="scale * (input above 0, alpha * (exp(input_scale * input) - 1) below).",
            grad={"input": "grad * scale * where(input > 0, 1, exp(where(input >= 0, 0, input * "
                           "input_scale)) * input_scale * alpha)"})
elementwise("gelu_erf(input: Tensor)", "gelu(input)", dtypes=FLOATING, node="GeluBackward0",
            names=(), doc="Exact gelu.",
            grad={"input": "grad * (0.5 * (1 + erf(input * 0.70710678118654752440)) + "
                           "input * 0.39894228040143267794 * exp(-0.5 * input * input))"})
elementwise("gelu_tanh(input: Tensor)",
            "0.5 * input * (1 + tanh(0.79788456080286535588 * (input + 0.044715 * input * input * "
            "input)))", dtypes=FLOATING,
            node="GeluBackward0", names=(), doc="gelu by tanh.", grad={"input":
                "grad * (0.5 * (1 + tanh(0.79788456080286535588 * (input + 0.044715 * input * "
                "input * input))) + "
                "0.5 * input * (1 - square(tanh(0.79788456080286535588 * (input + 0.044715 * input "
                "* input * input)))) * "
                "0.79788456080286535588 * (1 + 0.134145 * input * input))"})
elementwise("silu(input: Tensor)", "input * sigmoid(input)", dtypes=FLOATING | COMPLEX, names=(),
            inplace=True, doc="input * sigmoid(input).",
            grad={"input": "grad * conj(sigmoid(input) * (1 + input * (1 - sigmoid(input))))"})
elementwise("mish(input: Tensor)", "input * tanh(log1pexp(input))", dtypes=FLOATING, names=(),
            inplace=True,
            doc="input * tanh(softplus(input)).",
            grad={"input": "grad * (tanh(softplus(input)) + input * sigmoid(input) * (1 - "
                           "square(tanh(softplus(input)))))"})
elementwise("hardtanh(input: Tensor, min_val: Scalar = -1, max_val: Scalar = 1)",
            "minimum(maximum(input, min_val), max_val)",
            dtypes=REAL, names=(), inplace=True, doc="input limited to [min_val, max_val].",
            guard='check_number_of("hardtanh", min_val, input), '
                  'check_number_of("hardtanh", max_val, input)',
            grad={"input": "where((out > min_val) & (out < max_val), grad, 0)"})
# From one maximum within another minimum gcc makes masks of masks, at half the speed.
_UP_TO_SIX = "where(input >= 3, 6, where(input <= -3, 0, input + 3))"
elementwise("hardsigmoid(input: Tensor)", f"{_UP_TO_SIX} / 6", dtypes=FLOATING,
            names=(), inplace=True,
            doc="relu6(input + 3) / 6.",
            grad={"input": "where((input > -3) & (input < 3), grad / 6, 0)"})
elementwise("hardswish(input: Tensor)", f"input * {_UP_TO_SIX} / 6",
            dtypes=FLOATING, names=(), inplace=True,
            doc="input * relu6(input + 3) / 6.",
            grad={"input": "grad * where(input >= 3, 1, where(input <= -3, 0, input / 3 + 0.5))"})
elementwise("softplus(input: Tensor, beta: Scalar = 1, threshold: Scalar = 20)",
            "where(input * beta > threshold, input, log1pexp(input * beta) / beta)",
            dtypes=FLOATING,
            names=("nn.functional.softplus",),
            guard='check_number_of("softplus", beta, input), '
                  'check_number_of("softplus", threshold, input)',
            doc="log(1 + exp(beta * input)) / beta; input itself above threshold.",
            grad={"input": "where(input * beta > threshold, grad, grad * sigmoid(input * beta))"})
elementwise("softshrink(input: Tensor, lambd: Scalar = 0.5)",
            "where(input > lambd, input - lambd, where(input < -lambd, input + lambd, input * 0))",
            dtypes=FLOATING,
            guard='check(!(lambd.real() < 0), "softshrink: lambda must not be negative, but is ", '
                  'lambd), check_number_of("softshrink", lambd, input)',
            names=("nn.functional.softshrink",), doc="input moved towards 0 by lambd.",
            grad={"input": "where((input < -lambd) | (input > lambd), grad, 0)"})
elementwise("hardshrink(input: Tensor, lambd: Scalar = 0.5)",
            "where((input >= -lambd) & (input <= lambd), 0, input)",
            dtypes=FLOATING, names=("torch.hardshrink", "Tensor.hardshrink",
                                    "nn.functional.hardshrink"),
            guard='check_number_of("hardshrink", lambd, input)',
            doc="input where its absolute value is above lambd, else 0.",
            grad={"input": "where((input < -lambd) | (input > lambd), grad, 0)"})
elementwise("logsigmoid(input: Tensor)", "log_sigmoid(input)", dtypes=FLOATING,
            node="LogSigmoidBackward0", names=("nn.functional.logsigmoid",),
            doc="log(sigmoid(input)).",  # each side's derivative is as exact as it is
            grad={"input": "grad * where(input < 0, 1 - sigmoid(where(input < 0, input, "
                           "neg(input))), sigmoid(where(input < 0, input, neg(input))))"})
elementwise("prelu_kernel(input: Tensor, weight: Tensor)",
            "where(input > 0, input, weight * input)", dtypes=FLOATING, names=(),
            node="PreluKernelBackward0",
            doc="input above 0, weight * input below.",
            grad={"input": "grad * where(input > 0, 1, weight)",
                  "weight": "grad * where(input > 0, 0, input)"})

composite("selu(input: Tensor)", "elu(input, 1.6732632423543772848, 1.0507009873554804934, 1)",
          names=("torch.selu",), inplace=True,
          doc="elu scaled to keep mean 0 and variance 1.")
composite("celu(input: Tensor, alpha: Scalar = 1)",
          "elu(input, checked_alpha(alpha), 1, 1.0 / alpha)", names=("torch.celu",), inplace=True,
          node="CeluBackward0",
          doc="input above 0, alpha * (exp(input / alpha) - 1) below.")
composite("prelu(input: Tensor, weight: Tensor)", """
    check_same_device("prelu", "input", input, "weight", weight)
    check(dtype(input) == dtype(weight), "prelu: Type promoting not supported. Got ", dtype(input),
          " and ", dtype(weight))
    check(dim_of(weight) <= 1,
          "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ", dim_of(weight))
    check(numel(weight) == 1 or dim_of(input) > 0, "prelu: Not allow zero-dim input tensor.")
    if numel(weight) == 1:
        return prelu_kernel(input, weight if dim_of(weight) == dim_of(input)
                            else reshape(weight, []))
    channels = size(input, 1) if dim_of(input) > 1 else 1
    check(numel(weight) == channels,
          "prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = ",
          numel(weight), " and channel size = ", channels, ".")
    return prelu_kernel(input, weight if dim_of(input) == 1
                        else reshape(weight, channel_sizes(dim_of(input), channels)))
          """,
          names=("torch.prelu", "Tensor.prelu", "nn.functional.prelu"),
          doc="input above 0, weight * input below; one weight, or one for each channel (dim 1).",
          batch="prelu", autocast="lower_precision")

for _name, _arguments, _pass in (
        ("relu", "", ""), ("leaky_relu", "negative_slope: float = 0.01, ", ", negative_slope"),
        ("elu", "alpha: float = 1.0, ", ", alpha"), ("selu", "", ""),
                                 ("celu", "alpha: float = 1.0, ", ", alpha"), ("silu", "", ""),
                                 ("mish", "", ""), ("hardsigmoid", "", ""), ("hardswish", "", ""),
        ("threshold", "threshold: Scalar, value: Scalar, ", ", threshold, value")):
    composite(f"functional_{_name}(input: Tensor, {_arguments}inplace: bool = False)",
              f"{_name}_(input{_pass}) if inplace else {_name}(input{_pass})",
              names=(f"nn.functional.{_name}",),
              doc=f"{_name}, in place if asked.")
composite("relu6(input: Tensor, inplace: bool = False)",
          "hardtanh_(input, 0, 6) if inplace else hardtanh(input, 0, 6)",
          names=("nn.functional.relu6",), doc="input limited to [0, 6].")
composite("gelu(input: Tensor, *, approximate: str = 'none')", """
    check(approximate == "none" or approximate == "tanh",
          "gelu: approximate argument must be either none or tanh, got ", approximate)
    return gelu_erf(input) if approximate == "none" else gelu_tanh(input)
          """, names=("nn.functional.gelu",),
          out=True,
          doc="input times the normal distribution function of input; approximate='tanh' for the "
              "older formula.",
          batch="elementwise")
composite("functional_hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, "
          "inplace: bool = False)", """
    check_value(min_val <= max_val, "hardtanh: min_val cannot be greater than max_val, got ",
                min_val,
                " and ", max_val)
    check(dtype(input) != bool, "hardtanh: Bool inputs not supported for hardtanh")
    return hardtanh_(input, min_val, max_val) if inplace else hardtanh(input, min_val, max_val)
          """,
          names=("nn.functional.hardtanh",), doc="input limited to [min_val, max_val].",
          batch="elementwise")
composite("glu(input: Tensor, dim: int = -1)", """
    check(dim_of(input) > 0, "glu does not support 0-dimensional tensors")
    check(size(input, dim) % 2 == 0, "glu: size ", size(input, dim), " of dim ", dim,
          " must be even")
    halves = chunk(input, 2, dim)
    return mul_(sigmoid(halves[1]), halves[0])
          """, names=("nn.functional.glu",), grad={"input": "glu_gradient(grad, input, dim)"},
          doc="a sigmoid(b), with a and b the halves of the input along `dim`.",
          samples=("x(2, 4)", "x(4, 3), dim=0"), batch="dim")
composite("glu_gradient(grad_output: Tensor, input: Tensor, dim: int)", """
    halves = chunk(input, 2, dim)
    gate = conj(sigmoid(halves[1]))
    first = grad_output * gate
    return cat([first, first * conj(halves[0]) * (1 - gate)], dim)
          """, names=(), doc="Gradient of glu.")
