"""Functions of one element."""
from ops.schema import (
    ALL,
    BOOL,
    COMPLEX,
    FLOATING,
    REAL,
    composite,
    elementwise,
    function,
    kernel,
)

function("angle_backward(grad: Tensor, input: Tensor)", """
    if not is_complex(input):
        return zeros_like(grad)
    turned = grad * (input * 1j / square(abs(input)))
    return where(eq(input, 0), zeros_like(turned), turned)
         """)
# 0 around 0 too: the square underflows.
function("sinc_backward(grad: Tensor, input: Tensor)", """
    angle = input * pi
    squared = angle * input
    slope = where(eq(squared, 0), 0, (cos(angle) * angle - sin(angle)) / squared)
    return grad * conj_now(slope)
         """)

_FC = FLOATING | COMPLEX


def _function(name, grad, doc, dtypes=_FC, names=None, ref=None):
    """A function that turns integers into floats."""
    elementwise(f"{name}(input: Tensor)", f"{name}(input)", result="float", dtypes=dtypes, doc=doc,
                names=names,
                grad={"input": grad}, inplace=True, ref=ref or f"numpy.{name}")


def _both(name, *more):
    return tuple(f"{m}.{n}" for n in (name, *more) for m in ("torch", "Tensor"))


_function("expm1", "grad * conj(out + 1)", "exp(input) - 1, exact near 0.",
          names=_both("expm1") + ("special.expm1",))
_function("log10", "grad / conj(input * 2.302585092994045684)", "Logarithm of base 10.")
_function("log1p", "grad / conj(input + 1)", "log(1 + input), exact near 0.",
          names=_both("log1p") + ("special.log1p",))
_function("tan", "grad * conj(1 + out * out)", "Tangent, of radians.")
_function("asin", "grad * conj(rsqrt(1 - input * input))", "Inverse sine.",
          names=_both("asin", "arcsin"), ref="numpy.arcsin")
_function("acos", "neg(grad * conj(rsqrt(1 - input * input)))", "Inverse cosine.",
          names=_both("acos", "arccos"),
          ref="numpy.arccos")
_function("atan", "grad / conj(1 + input * input)", "Inverse tangent.",
          names=_both("atan", "arctan"), ref="numpy.arctan")
_function("sinh", "grad * conj(cosh(input))", "Hyperbolic sine.")
_function("cosh", "grad * conj(sinh(input))", "Hyperbolic cosine.")
_function("tanh", "grad * conj(1 - out * out)", "Hyperbolic tangent.")
_function("asinh", "grad * conj(rsqrt(input * input + 1))", "Inverse hyperbolic sine.",
          names=_both("asinh", "arcsinh"),
          ref="numpy.arcsinh")
_function("acosh", "grad * conj(rsqrt(input - 1) * rsqrt(input + 1))", "Inverse hyperbolic cosine.",
          names=_both("acosh", "arccosh"), ref="numpy.arccosh")
_function("atanh", "grad / conj(1 - input * input)", "Inverse hyperbolic tangent.",
          names=_both("atanh", "arctanh"),
          ref="numpy.arctanh")
_function("sigmoid", "grad * conj((1 - out) * out)", "1 / (1 + exp(-input)).",
          ref="scipy.special.expit",
          names=_both("sigmoid") + ("special.expit", "nn.functional.sigmoid"))
_function("erf", "1.1283791670955125739 * grad * exp(neg(input * input))", "Error function.",
          FLOATING,
          names=_both("erf") + ("special.erf",), ref="scipy.special.erf")
_function("erfc", "-1.1283791670955125739 * grad * exp(neg(input * input))",
          "1 - erf(input), exact where that is small.",
          FLOATING, names=_both("erfc") + ("special.erfc",), ref="scipy.special.erfc")
_function("erfinv", "0.88622692545275801365 * grad * exp(out * out)", "Inverse of erf.", FLOATING,
          names=_both("erfinv") + ("special.erfinv",), ref="scipy.special.erfinv")
_function("lgamma", "grad * digamma(input)",
          "Logarithm of the absolute value of the gamma function.", FLOATING,
          names=_both("lgamma") + ("special.gammaln",), ref="scipy.special.gammaln")
_function("digamma", "grad * polygamma(1, input)", "Derivative of lgamma.", FLOATING,
          names=_both("digamma") + ("special.digamma", "special.psi"), ref="scipy.special.digamma")
# By itself, as the zeta function keeps a loop from being one of vectors: 3 times as fast.
elementwise("trigamma(input: Tensor)", "trigamma(input)", result="float", dtypes=FLOATING, names=(),
            node="PolygammaBackward0",
            doc="Second derivative of lgamma.", grad={"input": "grad * polygamma(2, input)"})
elementwise("polygamma_kernel(n: int, input: Tensor)", "polygamma(n, input)", result="float",
            dtypes=FLOATING, names=(),
            node="PolygammaBackward0", doc="n-th derivative of digamma.",
            grad={"input": "grad * polygamma(n + 1, input)"})
composite("polygamma(n: int, input: Tensor)",
          "digamma(input) if n == 0 else trigamma(input) if n == 1 else polygamma_kernel(n, input)",
          out="cast",
          names=("torch.polygamma", "special.polygamma"), doc="n-th derivative of digamma.")
composite("polygamma__method(input: Tensor, n: int)", "polygamma(n, input)",
          names=("Tensor.polygamma",), inplace=True,
          doc="n-th derivative of digamma.", samples=("pos(2, 3), 1",))
_function("sinc", "sinc_backward(grad, input)", "sin(pi input) / (pi input), 1 at 0.",
          names=_both("sinc") + ("special.sinc",))

elementwise("trunc(input: Tensor)", "trunc(input)", dtypes=REAL, inplace=True,
            reduced_in_registers=True,
            names=_both("trunc", "fix"), ref="numpy.trunc", out=True,
            doc="Each element without its fraction.", grad={"input": "zeros_like(grad)"})
elementwise("frac(input: Tensor)", "frac(input)", dtypes=FLOATING,
            doc="The fraction of each element.", inplace=True, out=True,
            grad={"input": "grad"}, linear=False)
elementwise("sign(input: Tensor)", "sign(input)", dtypes=REAL | BOOL, doc="-1, 0 or 1.",
            inplace=True, out=True,
            grad={"input": "zeros_like(grad)"}, ref="numpy.sign")
composite("positive(input: Tensor)", """
    check(dtype(input) != bool, "positive: the `+` operator, on a bool tensor is not supported")
    return input
          """, names=_both("positive"), doc="The tensor itself.",
          batch="elementwise", linear=True)


elementwise("signbit(input: Tensor)", "signbit(input)", result="bool", dtypes=REAL | BOOL,
            doc="Is the sign bit set?", out=True)
for _name, _factor, _doc in (("deg2rad", "0.017453292519943295769", "Degrees as radians."),
                             ("rad2deg", "57.295779513082320877", "Radians as degrees.")):
    elementwise(f"{_name}(input: Tensor)", f"input * {_factor}", result="float", dtypes=FLOATING,
                doc=_doc, inplace=True,
                grad={"input": f"grad * {_factor}"}, ref=f"numpy.{_name}")
elementwise("logit_kernel(input: Tensor)", "logit(input)", result="float", dtypes=FLOATING,
            node="LogitBackward0", names=(), inplace=True,
            doc="log(input / (1 - input)).",
            grad={"input": "where((input >= 0) & (input <= 1), grad / (input * (1 - input)), nan)"})
composite("logit(input: Tensor, eps: float | None = None)", """
    x = floating(input)
    return logit_kernel(clamp(x, given(eps), 1 - given(eps)) if eps is not None else x)
          """, inplace=True, out="cast",
          names=_both("logit") + ("special.logit",), node="LogitBackward0",
          doc="log(input / (1 - input)), input held in [eps, 1 - eps].", ref="scipy.special.logit",
          batch="elementwise")
elementwise("angle_kernel(input: Tensor)", "angle(input)", result="real", dtypes=_FC,
            node="AngleBackward0", names=(), doc="Argument of a complex number.",
            grad={"input": "angle_backward(grad, input)"})
composite("angle(input: Tensor)",
          "angle_kernel(floating(input))", out="cast", ref="numpy.angle",
          doc="Argument of a complex number; 0 or pi of a real one.",
          batch="elementwise")
elementwise("nan_to_num_kernel(input: Tensor, missing: float, posinf: float, neginf: float)",
            "nan_to_num(input, missing, posinf, neginf)",
            dtypes=ALL, node="NanToNumBackward0", names=(), called="nan_to_num", inplace=True,
            doc="nan_to_num with all replacements given.",
            grad={"input": "where(isfinite(input), grad, 0)"})
composite("nan_to_num(input: Tensor, nan: float | None = None, posinf: float | None = None, "
          "neginf: float | None = None)", """
    largest = 0.0 if is_integral_or_bool(dtype(input)) else largest_finite(dtype(input))
    return nan_to_num_kernel(input, value_or(nan, 0), value_or(posinf, largest),
                             value_or(neginf, -largest))
          """, inplace=True,
          out=True, ref="numpy.nan_to_num",
          doc="NaN becomes 0, infinities the largest finite numbers, unless others are given.",
          batch="elementwise")
kernel("frexp(input: Tensor) -> tuple[mantissa, exponent]", out=True, ref="numpy.frexp",
       doc="input as mantissa * 2^exponent, the mantissa's size in [0.5, 1).",
       grad={"input": "grad * pow(2.0, to_dtype(neg(exponent), dtype(input)))"},
       batch="elementwise")
composite("isreal(input: Tensor)",
          "eq(imag(input), 0) if is_complex(input) else full_like(input, True, bool)",
          doc="Is the imaginary part zero?", ref="numpy.isreal",
          batch="elementwise")
composite("polar(abs: Tensor, angle: Tensor)", """
    check(is_floating(abs) and is_floating(angle),
          "polar: Expected both inputs to be Half, Float or Double tensors but got ", dtype(abs),
          " and ", dtype(angle))
    check_same_dtype("polar", abs, "angle", angle)
    return complex(abs * cos(angle), abs * sin(angle))
          """, names=("torch.polar",), out=True,
          doc="Complex numbers of the given sizes and angles.",
          grad={"abs": "real(grad * conj_now(polar(ones_like(angle), angle)))",
                "angle": "imag(grad * conj_now(out))"},
          batch="elementwise", autocast="float32", node="PolarBackward0")
