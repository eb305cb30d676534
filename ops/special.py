"""Special functions."""
import re

from ops.schema import FLOATING, composite, elementwise, function


def _special(name, grad, doc, names=None, ref=None, inplace=False):
    camel = re.sub("(?<![a-z])[a-z]", lambda letter: letter[0].upper(), name).replace("_", "")
    elementwise(f"{name}(input: Tensor)", f"{name}(input)", result="float", dtypes=FLOATING,
                doc=doc,
                node=None if name == "i0" else f"Special{camel}Backward0",
                names=names or (f"special.{name}",), grad={"input": grad}, inplace=inplace,
                ref=ref or f"scipy.special.{name}")


_special("entr", "grad * (neg(log(input)) - 1)", "-input * log(input), 0 at 0.")
_special("erfcx", "grad * (2 * input * out - 1.1283791670955125739)",
         "exp(input^2) erfc(input), without overflow.")
_special("ndtr", "0.39894228040143267794 * grad * exp(-0.5 * input * input)",
         "The normal distribution function.")
_special("ndtri", "2.5066282746310005024 * grad * exp(0.5 * out * out)",
         "The normal quantile, inverse of ndtr.")
# Above 13 erfcx overflows, and with it its derivative. Each side is kept from what the other is
# for.
_special("log_ndtr",
         "grad * where(input < 1, 0.79788456080286535588 / erfcx(-0.70710678118654752440 * "
         "clamp_max(input, 1)), "
                     "0.39894228040143267794 * exp(-0.5 * square(clamp_max(clamp_min(input, 1), "
                     "100))) / ndtr(clamp_max(clamp_min(input, 1), 100)))",
         "Logarithm of the normal distribution function, exact in its lower tail.")
_special("i0", "grad * i1(input)", "Modified Bessel function of the first kind, order 0.",
         ("torch.i0", "Tensor.i0", "special.i0", "special.modified_bessel_i0"), inplace=True)
_special("i0e", "grad * (i1e(input) - sign(input) * out)", "exp(-|input|) i0(input).")
# Near 0 the quotient's numerator underflows. The inner `where` keeps the second derivative there
# from
# being 0 * NaN.
_special("i1",
         "grad * where(abs(input) < 1e-10, 0.5, i0(input) - out / where(abs(input) < 1e-10, 1, "
         "input))",
         "Modified Bessel function of the first kind, order 1.",
         ("special.i1", "special.modified_bessel_i1"))
_special("i1e",
         "grad * where(abs(input) < 1e-10, 0.5, i0e(input) - out * (sign(input) + "
         "reciprocal(where(abs(input) < 1e-10, 1, input))))",
         "exp(-|input|) i1(input).")
for _name, _kind, _order, _slope in (
        ("j0", "first", 0, "neg(grad * bessel_j1(input))"),
        ("j1", "first", 1,
         "grad * where(abs(input) < 1e-10, 0.5, bessel_j0(input) - out / where(abs(input) < 1e-10, "
         "1, input))"),
        ("y0", "second", 0, "neg(grad * bessel_y1(input))"),
                                     ("y1", "second", 1,
                                      "grad * (bessel_y0(input) - out / input)")):
    _special(f"bessel_{_name}", _slope, f"Bessel function of the {_kind} kind, order {_order}.",
             ref=f"scipy.special.{_name}")
for _order, _slope in ((0, "modified_bessel_k1(input)"),
                       (1, "(modified_bessel_k0(input) + out / input)")):
    _special(f"modified_bessel_k{_order}", f"neg(grad * {_slope})", ref=f"scipy.special.k{_order}",
             doc=f"Modified Bessel function of the second kind, order {_order}.")
for _order, _slope in ((0, "out - scaled_modified_bessel_k1(input)"),
                       (1, "out - scaled_modified_bessel_k0(input) - out / input")):
    _special(f"scaled_modified_bessel_k{_order}", f"grad * ({_slope})",
             f"exp(input) modified_bessel_k{_order}(input).",
             ref=f"scipy.special.k{_order}e")
_special("spherical_bessel_j0", "grad * where(input == 0, 0, (cos(input) - out) / input)",
         "sin(input) / input, 1 at 0.",
         ref="functools.partial(scipy.special.spherical_jn, 0)")
elementwise("airy_ai(input: Tensor)", "airy_ai(input)", result="float", dtypes=FLOATING,
            names=("special.airy_ai",),
            doc="The Airy function Ai.", ref="(lambda x: scipy.special.airy(x)[0])",
            grad="the derivative of airy_ai is no function of this library, nor of torch")

# The degree n is truncated: negative ones give 0, and those beyond 2^24 may give NaN.
# at 1 and -1 by its limit
_LIMIT = "where({x} * {x} == 1, pow({x}, trunc(n) + 1) * {limit}, {slope} / ({x} * {x} - 1))"
_SLOPE_U = _LIMIT.format(x="{x}", limit="trunc(n) * (trunc(n) + 1) * (trunc(n) + 2) / 3",
                         slope="((trunc(n) + 1) * {t}(input, n + 1) - {x} * out)")
_SLOPE_P = _LIMIT.format(x="input", limit="trunc(n) * (trunc(n) + 1) / 2",
                         slope="trunc(n) * (input * out - legendre_polynomial_p(input, n - 1))")
for _name, _doc, _slope, _ref in (
        ("chebyshev_polynomial_t", "Chebyshev polynomial of the first kind",
         "trunc(n) * chebyshev_polynomial_u(input, n - 1)", "eval_chebyt(n, x)"),
        ("chebyshev_polynomial_u", "Chebyshev polynomial of the second kind",
         _SLOPE_U.format(t="chebyshev_polynomial_t", x="input"),
         "eval_chebyu(n, x)"),
        ("chebyshev_polynomial_v", "Chebyshev polynomial of the third kind", None, None),
        ("chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind", None, None),
        ("hermite_polynomial_h", "Hermite polynomial of physics",
         "2 * trunc(n) * hermite_polynomial_h(input, n - 1)",
         "eval_hermite(numpy.asarray(n).astype(int), x)"),
        ("hermite_polynomial_he", "Hermite polynomial of probability",
         "trunc(n) * hermite_polynomial_he(input, n - 1)",
         "eval_hermitenorm(numpy.asarray(n).astype(int), x)"),
        ("laguerre_polynomial_l", "Laguerre polynomial",
         "where(input == 0, neg(trunc(n)), trunc(n) * (out - laguerre_polynomial_l(input, n - 1)) "
         "/ input)", "eval_laguerre(n, x)"),
        ("legendre_polynomial_p", "Legendre polynomial", _SLOPE_P, "eval_legendre(n, x)"),
        ("shifted_chebyshev_polynomial_t",
         "Chebyshev polynomial of the first kind, of 2 input - 1,",
         "2 * trunc(n) * shifted_chebyshev_polynomial_u(input, n - 1)", "eval_sh_chebyt(n, x)"),
        ("shifted_chebyshev_polynomial_u",
         "Chebyshev polynomial of the second kind, of 2 input - 1,",
         "2 * " + _SLOPE_U.format(t="shifted_chebyshev_polynomial_t", x="(2 * input - 1)"),
         "eval_sh_chebyu(n, x)"),
        ("shifted_chebyshev_polynomial_v",
         "Chebyshev polynomial of the third kind, of 2 input - 1,", None, None),
        ("shifted_chebyshev_polynomial_w",
         "Chebyshev polynomial of the fourth kind, of 2 input - 1,", None, None)):
    elementwise(f"{_name}(input: Tensor | Number, n: Tensor | Number)", f"{_name}(input, n)",
                result="float", dtypes=FLOATING,
                names=(f"special.{_name}",), doc=f"{_doc} of degree n.",
                ref=_ref and f"(lambda x, n: scipy.special.{_ref})",
                samples=("x(2, 3), 3", "x(2, 3), fixed([0.0, 2.0, 7.0])",
                         "0.5, fixed([4, 1], 'int64')"),
                grad={"input": f"grad * {_slope}"} if _slope else "this kind has no gradient "
                                                                  "formula here, nor any in torch")

for _name, _alias, _doc, _sign in (("igamma", "gammainc", "lower", ""),
                                   ("igammac", "gammaincc", "upper", "-")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"{_name}(input, other)", dtypes=FLOATING,
                inplace=True,
                names=(f"torch.{_name}", f"Tensor.{_name}", f"special.{_alias}"),
                ref=f"scipy.special.{_alias}",
                doc=f"Regularised {_doc} incomplete gamma function; input is the shape, other the "
                    f"bound.",
                samples=("pos(2, 3), pos(2, 3)", "pos(3), pos(2, 3)"),
                grad={"input": f"missing_gradient('{_name}: input')",
                      "other": f"{_sign}grad * igamma_slope(input, other)"})
elementwise("igamma_slope(input: Tensor, other: Tensor)", "igamma_slope(input, other)",
            dtypes=FLOATING, names=(),
            doc="The derivative of igamma by other.",
            grad={"input": "missing_gradient('igamma: input')",
                  "other": "grad * out * ((input - 1) / other - 1)"})
elementwise("zeta(input: Tensor | Number, other: Tensor | Number)", "zeta(input, other)",
            result="float", dtypes=FLOATING,
            node={None: "SpecialZetaBackward0", "input": "SpecialZetaBackward1",
                  "other": "SpecialZetaBackward2"},
            names=("special.zeta",), doc="The Hurwitz zeta function.",
            ref="scipy.special.zeta",
            samples=("above_one(2, 3), pos(2, 3)", "2, pos(2, 3)", "above_one(2, 3), 2"),
            grad={"input": "missing_gradient('zeta: input')",
                  "other": "neg(grad * input * zeta(input + 1, other))"})
elementwise("xlog1py(input: Tensor | Number, other: Tensor | Number)", "xlog1py(input, other)",
            node={None: "SpecialXlog1PyBackward0", "input": "SpecialXlog1PyBackward1",
                  "other": "SpecialXlog1PyBackward2"},
            result="float",
            dtypes=FLOATING, names=("special.xlog1py",),
            doc="input * log1p(other), 0 where input is 0.",
            ref="scipy.special.xlog1py",
            grad={"input": "where((input == 0) & (other <= -1), 0, xlog1py(grad, other))",
                  "other": "grad * input / (other + 1)"})
# input less 0, 1/2, 1 ... (p - 1)/2, in a new last dim
function("with_halves(input: Tensor, p: int)", """
    x = floating(input)
    halves = to(arange(0, p, 1, default_dtype(), strided, device(input)) * -0.5, dtype(x))
    return unsqueeze(x, -1) + halves
         """)
composite("mvlgamma(input: Tensor, p: int)", """
    check(p >= 1, "mvlgamma: p has to be greater than or equal to 1, got ", p)
    check(dtype(input) != bool and not is_complex(input), "mvlgamma: not implemented for dtype ",
          dtype(input))
    terms = sum(lgamma(with_halves(input, p)), [-1], False)
    return terms + 0.28618247146235004 * (p * (p - 1))  # log(pi) / 4
          """, names=("torch.mvlgamma", "Tensor.mvlgamma",
                                                    "special.multigammaln"), out="cast",
          inplace=True,
          doc="Logarithm of the multivariate gamma function of dimension p.",
          ref="scipy.special.multigammaln",
          batch="elementwise", node="MvlgammaBackward0",
          grad={"input": "grad * sum(digamma(with_halves(input, p)), [-1], False)"})
