"""Functions of two and three elements."""
from ops.schema import (
    BOOL,
    COMPLEX,
    FLOATING,
    INTEGRAL,
    NUMERIC,
    REAL,
    composite,
    elementwise,
    kernel,
)

composite("rsub(input: Tensor, other: Tensor | Number, alpha: Scalar = 1)",
          "sub(other, input, alpha)", names=("torch.rsub",),
          node={None: "RsubBackward0", "other": "RsubBackward1"},
          grad={"input": "scale(grad, -conj(alpha))", "other": "grad"},
          doc="other - alpha * input.")
elementwise("fmod(input: Tensor, other: Tensor | Number)", "fmod(input, other)",
            node={None: "FmodBackward1", "other": "FmodBackward0"}, dtypes=REAL,
            inplace=True,
            guard='check_divisor("fmod", input, other)',
            doc="Remainder with the sign of input.", ref="numpy.fmod",
            grad={"input": "grad", "other": "neg(grad * trunc_divide(input, other))"})

elementwise("atan2(input: Tensor, other: Tensor)", "atan2(input, other)", result="float",
            dtypes=FLOATING, inplace=True,
            names=("torch.atan2", "Tensor.atan2", "torch.arctan2", "Tensor.arctan2"),
            doc="Angle of the point (other, input).",
            grad={"input": "grad * other * where(input * input + other * other == 0, 0, "
                           "reciprocal(input * input + other * other))",
                  "other": "neg(grad * input * where(input * input + other * other == 0, 0, "
                           "reciprocal(input * input + other * other)))"}, ref="numpy.arctan2")
for _name, _sign, _doc in (("fmax", ">=", "larger"), ("fmin", "<=", "smaller")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"{_name}(input, other)",
                dtypes=REAL | BOOL, ref=f"numpy.{_name}",
                doc=f"The {_doc} of two elements; the other one if one is NaN.",
                grad={"input": f"where((input {_sign} other) | isnan(other), grad, 0)",
                      "other": f"where((input {_sign} other) | isnan(other), 0, grad)"})

elementwise("hypot(input: Tensor, other: Tensor)", "hypot(input, other)", dtypes=FLOATING,
            inplace=True, ref="numpy.hypot",
            doc="sqrt(input^2 + other^2).", grad={"input": "grad * input / out",
                                                  "other": "grad * other / out"})
elementwise("copysign(input: Tensor, other: Tensor | Number)", "copysign(input, other)",
            node={None: "CopysignBackward0", "other": "CopysignBackward1"},
            result="float", dtypes=FLOATING, inplace=True, reduced_in_registers=True,
            ref="numpy.copysign", doc="The size of input with the sign of other.",
            grad={"input": "grad * where(input == 0, 0, out / input)", "other": "zeros_like(grad)"})
elementwise("nextafter_elements(input: Tensor, other: Tensor)", "nextafter(input, other)",
            dtypes=FLOATING, names=(),
            doc="nextafter of float32 and float64.", grad="nextafter has it")
kernel("nextafter(input: Tensor, other: Tensor)", inplace=True, out="cast", ref="numpy.nextafter",
       doc="The next number after input in the direction of other.",
       grad={"input": "where(input == other, 0, grad)", "other": "zeros_like(grad)"},
       batch="elementwise")
elementwise("heaviside(input: Tensor, values: Tensor)", "heaviside(input, values)",
            dtypes=REAL | BOOL, inplace=True, out=True, ref="numpy.heaviside",
            guard='check_same_dtype("heaviside", input, "values", values)',
            doc="0 below 0, 1 above, values at 0.", grad="a step has no gradient")
for _name, _doc in (("gcd", "Greatest common divisor."), ("lcm", "Least common multiple.")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"{_name}(input, other)", dtypes=INTEGRAL,
                inplace=True, ref=f"numpy.{_name}",
                doc=_doc, grad="integers have no gradient")
for _name, _power in (("logaddexp", "exp"), ("logaddexp2", "exp2")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"{_name}(input, other)",
                ref=f"numpy.{_name}",
                dtypes=FLOATING | COMPLEX if _power == "exp" else FLOATING,
                doc=f"log of {_power}(input) + {_power}(other), in that base.",
                grad={"input": f"grad / conj(1 + {_power}(other - input))",
                      "other": f"grad / conj(1 + {_power}(input - other))"})
composite("ldexp(input: Tensor, other: Tensor)", grad={
    "input": "grad * pow(2.0, other)", "other": "grad * out * 0.69314718055994530942"}, body="""
    factor = pow(2.0, other)
    exact = is_reduced(dtype(input)) and is_integral_or_bool(dtype(other))
    return input * (to(factor, dtype(input)) if exact else factor)
          """, inplace=True, out="cast", ref="numpy.ldexp",
          doc="input times 2 to the power of other.", batch="elementwise", node="LdexpBackward0")
composite("float_power(input: Tensor | Number, exponent: Tensor | Number)", """
    check_type(not is_number(input) or not is_number(exponent),
               "float_power(): the input or the exponent must be Tensor, but both are numbers")
    wide = complex128 if is_complex(input) or is_complex(exponent) else float64
    # What gradients compute from a number alone would be of the default dtype.
    if is_number(exponent):
        return pow(to(input, wide), item(exponent))
    return pow(to(input, wide), to(exponent, wide))
          """, inplace="exact", out=True,
          ref="numpy.float_power",
          doc="input to the power of exponent, in float64 or complex128.", batch="elementwise")

for _name in ("and", "or", "xor", "left_shift", "right_shift"):
    composite(f"bitwise_{_name}__number(input: Scalar, other: Tensor)",
              f"bitwise_{_name}(wrap_number(input), other)", names=(f"torch.bitwise_{_name}",),
              doc=f"bitwise_{_name} of a number and each element.", samples=("3, index(4, 3)",))
elementwise("lerp(input: Tensor, end: Tensor, weight: Tensor | Number)", "lerp(input, end, weight)",
            node={None: "LerpBackward1", "weight": "LerpBackward0"},
            dtypes=FLOATING | COMPLEX, reduced_in_registers=True,
            guard="check_lerp(input, end, weight)",
            inplace=True, out=True, doc="input + weight * (end - input).",
            grad={"input": "grad * conj(1 - weight)", "end": "grad * conj(weight)",
                  "weight": "grad * conj(end - input)"})
elementwise("addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1)",
            "input + value * tensor1 * tensor2", dtypes=NUMERIC, inplace=True,
            reduced_in_registers=True,
            guard='check_real("addcmul", "value", value, input, tensor1, tensor2)',
            doc="input + value * tensor1 * tensor2.",
            grad={"input": "grad", "tensor1": "grad * conj(tensor2 * value)",
                  "tensor2": "grad * conj(tensor1 * value)"})
elementwise("addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1)",
            "input + value * (tensor1 / tensor2)", dtypes=FLOATING | COMPLEX, inplace=True,
            guard="check_addcdiv(input, tensor1, tensor2, value)",
            doc="input + value * tensor1 / tensor2.",
            grad={"input": "grad", "tensor1": "grad * conj(value / tensor2)",
                  "tensor2": "neg(grad * conj(value * tensor1 / (tensor2 * tensor2)))"})
# The order of arguments before value was a keyword; old optimizers still write it.
for _name, _sign in (("addcmul", "*"), ("addcdiv", "/")):
    composite(f"{_name}__scaled(input: Tensor, value: Scalar, tensor1: Tensor, tensor2: Tensor)",
              f"{_name}(input, tensor1, tensor2, in_old_order(value, '{_name}'))",
              names=(f"torch.{_name}", f"Tensor.{_name}"), inplace=True,
              doc=f"input + value * tensor1 {_sign} tensor2.")

# Gradients of reductions, in one pass over the input.
_OWN = {"dtypes": FLOATING | COMPLEX, "names": ()}
elementwise("scaled_difference(scale: Tensor, input: Tensor, mean: Tensor)",
            "scale * (input - mean)", **_OWN, doc="That of a variance.",
            grad={"scale": "grad * conj(input - mean)", "input": "grad * conj(scale)",
                  "mean": "neg(grad * conj(scale))"})
_DIVISOR = "where(norm == 0, 1, norm)"  # its derivatives would be NaN, and not 0 for being masked
elementwise("scaled_direction(scale: Tensor, input: Tensor, norm: Tensor)",
            "where(norm == 0, 0, scale * (input / norm))", **_OWN,
            doc="That of a Euclidean norm.",
            grad={"scale": f"where(norm == 0, 0, grad * conj(input / {_DIVISOR}))",
                  "input": f"where(norm == 0, 0, grad * conj(scale / {_DIVISOR}))",
                  "norm": "where(norm == 0, 0, "
                          f"neg(grad * conj(scale * (input / {_DIVISOR}) / {_DIVISOR})))"})
elementwise("scaled_exp(scale: Tensor, input: Tensor, total: Tensor)",
            "scale * conj(exp(input - total))", **_OWN, doc="That of logsumexp.",
            grad={"scale": "grad * exp(input - total)", "input": "conj(grad) * out",
                  "total": "neg(conj(grad) * out)"})
