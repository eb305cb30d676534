"""Special functions."""
import re

from ops.schema import FLOATING, composite, elementwise


def _special(name, grad, doc, names=None, ref=None):
    camel = re.sub("(?<![a-z])[a-z]", lambda letter: letter[0].upper(), name).replace("_", "")
    elementwise(f"{name}(input: Tensor)", f"{name}(input)", result="float", dtypes=FLOATING, doc=doc,
                node=None if names else f"Special{camel}Backward0",
                names=names or (f"special.{name}",), grad={"input": grad}, ref=ref or f"scipy.special.{name}")


_special("entr", "grad * where(input > 0, neg(log(input)) - 1, where(input == 0, inf, nan))", "-input * log(input), 0 at 0.")
_special("erfcx", "grad * (2 * input * out - 1.1283791670955125739)", "exp(input^2) erfc(input), without overflow.")
_special("ndtr", "0.39894228040143267794 * grad * exp(-0.5 * input * input)", "The normal distribution function.")
_special("ndtri", "2.5066282746310005024 * grad * exp(0.5 * out * out)", "The normal quantile, inverse of ndtr.")
_special("log_ndtr", "0.79788456080286535588 * grad / erfcx(-0.70710678118654752440 * input)",
         "Logarithm of the normal distribution function, exact in its lower tail.")
_special("i0", "grad * i1(input)", "Modified Bessel function of the first kind, order 0.",
         ("torch.i0", "Tensor.i0", "special.i0"))
_special("i0e", "grad * (i1e(input) - sign(input) * out)", "exp(-|input|) i0(input).")
_special("i1", "grad * where(input == 0, 0.5, i0(input) - out / input)",
         "Modified Bessel function of the first kind, order 1.")
_special("i1e", "grad * where(input == 0, 0.5, i0e(input) - out * (sign(input) + reciprocal(input)))",
         "exp(-|input|) i1(input).")
for _name, _kind, _order in (("j0", "first", 0), ("j1", "first", 1), ("y0", "second", 0), ("y1", "second", 1)):
    elementwise(f"bessel_{_name}(input: Tensor)", f"bessel_{_name}(input)", result="float", dtypes=FLOATING,
                names=(f"special.bessel_{_name}",), doc=f"Bessel function of the {_kind} kind, order {_order}.",
                grad="torch defines no gradient of the Bessel functions either", ref=f"scipy.special.{_name}")
elementwise("zeta(input: Tensor | Number, other: Tensor | Number)", "zeta(input, other)", result="float", dtypes=FLOATING,
            node="SpecialZetaBackward0", names=("special.zeta",), doc="The Hurwitz zeta function.", ref="scipy.special.zeta",
            grad={"other": "neg(grad * input * zeta(input + 1, other))"})
elementwise("xlog1py(input: Tensor | Number, other: Tensor | Number)", "xlog1py(input, other)", result="float",
            dtypes=FLOATING, names=("special.xlog1py",), doc="input * log1p(other), 0 where input is 0.",
            ref="scipy.special.xlog1py",
            grad={"input": "where(input == 0, 0, grad * log1p(other))", "other": "grad * input / (other + 1)"})
composite("mvlgamma(input: Tensor, p: int)", names=("torch.mvlgamma", "Tensor.mvlgamma", "special.multigammaln"), out=True,
          doc="Logarithm of the multivariate gamma function of dimension p.", ref="scipy.special.multigammaln")
