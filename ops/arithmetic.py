"""Arithmetic, comparison and logic of elements."""
from ops.schema import (
    ALL,
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

elementwise("add(input: Tensor | Number, other: Tensor | Number, *, alpha: Scalar = 1)", "input + alpha * other", two_numbers=True,
            doc="input + alpha * other, element by element.",
            grad={"input": "grad", "other": "scale(grad, conj(alpha))"}, inplace=True, ref="numpy.add")
elementwise("sub(input: Tensor | Number, other: Tensor | Number, *, alpha: Scalar = 1)", "input - alpha * other", two_numbers=True, dtypes=NUMERIC, guard="check_subtraction(input, other)",
            names=("torch.sub", "Tensor.sub", "torch.subtract", "Tensor.subtract"),
            doc="input - alpha * other, element by element.",
            grad={"input": "grad", "other": "scale(grad, -conj(alpha))"}, inplace=True, ref="numpy.subtract")
elementwise("mul(input: Tensor | Number, other: Tensor | Number)", "input * other", two_numbers=True,
            names=("torch.mul", "Tensor.mul", "torch.multiply", "Tensor.multiply"),
            doc="input * other, element by element.",
            grad={"input": "grad * conj(other)", "other": "grad * conj(input)"}, inplace=True, ref="numpy.multiply")
elementwise("div(input: Tensor | Number, other: Tensor | Number)", "input / other", two_numbers=True, result="float", dtypes=FLOATING | COMPLEX,
            names=("torch.div", "Tensor.div", "torch.divide", "Tensor.divide", "torch.true_divide", "Tensor.true_divide"),
            doc="input / other, element by element; integers become floats.",
            grad={"input": "grad / conj(other)", "other": "neg(grad * conj(input / other / other))"},
            inplace=True, ref="numpy.divide")
elementwise("neg(input: Tensor)", "-input", dtypes=NUMERIC, guard="check_negation(input)",
            names=("torch.neg", "Tensor.neg", "torch.negative", "Tensor.negative"),
            doc="-input, element by element.", grad={"input": "neg(grad)"}, inplace=True, ref="numpy.negative")
elementwise("abs(input: Tensor)", "abs(input)", result="real", dtypes=NUMERIC,
            names=("torch.abs", "Tensor.abs", "torch.absolute", "Tensor.absolute"),
            doc="Absolute value of each element.", grad={"input": "grad * sgn(input)"}, inplace=True, ref="numpy.abs")
elementwise("sgn(input: Tensor)", "sgn(input)",
            doc="Sign of each element; z / |z| for complex numbers.",
            grad={"input": "sgn_backward(grad, input, out)"}, inplace=True)
elementwise("square_elements(input: Tensor)", "input * input", dtypes=NUMERIC, node="PowBackward0", doc="Square of each element.", names=(), inplace=True,
            grad={"input": "grad * conj(2 * input)"})
elementwise("cube_elements(input: Tensor)", "input * input * input", dtypes=NUMERIC, node="PowBackward0", doc="Cube of each element.", names=(), inplace=True,
            grad={"input": "grad * conj(3 * input * input)"})
composite("square(input: Tensor)", "square_elements(counted(input))", inplace=True, out="cast", ref="numpy.square",
          doc="Square of each element; truth values count as numbers.")

for _name, _sign, _alias in (("eq", "==", "eq"), ("ne", "!=", "not_equal"), ("lt", "<", "less"), ("le", "<=", "less_equal"),
                             ("gt", ">", "greater"), ("ge", ">=", "greater_equal")):
    elementwise(f"{_name}(input: Tensor, other: Tensor | Number)", f"input {_sign} other", result="bool", inplace=True,
                dtypes=ALL if _sign in ("==", "!=") else REAL | BOOL, doc=f"input {_sign} other, element by element.",
                names=tuple(f"{_place}.{_n}" for _n in dict.fromkeys((_name, _alias)) for _place in ("torch", "Tensor")))
for _name, _sign in (("bitwise_and", "&"), ("bitwise_or", "|"), ("bitwise_xor", "^")):
    elementwise(f"{_name}(input: Tensor, other: Tensor | Number)", f"input {_sign} other", dtypes=INTEGRAL | BOOL,
                inplace=True, doc=f"input {_sign} other, bit by bit.", grad="integers have no gradient")
for _name in ("left_shift", "right_shift"):
    elementwise(f"bitwise_{_name}(input: Tensor, other: Tensor | Number)", f"shift_{_name.split('_')[0]}(input, other)",
                dtypes=INTEGRAL, inplace=True, names=(f"torch.bitwise_{_name}", f"Tensor.bitwise_{_name}"),
                doc="input with its bits shifted by other.", grad="integers have no gradient")
for _name, _sign, _doc in (("logical_and", "&", "Are both elements nonzero?"), ("logical_or", "|", "Is either element nonzero?"),
                           ("logical_xor", "!=", "Is exactly one element nonzero?")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"(input != 0) {_sign} (other != 0)", result="bool", inplace=True,
                doc=_doc)

elementwise("floor_divide(input: Tensor | Number, other: Tensor | Number)", "floor_divide(input, other)", two_numbers=True, dtypes=REAL, inplace=True,
            guard='check_divisor("floor_divide", input, other)',
            doc="Quotient rounded down.", grad="floor_divide is constant almost everywhere; torch defines no gradient either")
elementwise("trunc_divide(input: Tensor, other: Tensor | Number)", "trunc_divide(input, other)", dtypes=REAL, names=(),
            guard='check_divisor("div", input, other)',
            inplace=True, doc="Quotient rounded towards zero.", grad={"input": "zeros_like(grad)", "other": "zeros_like(grad)"})
elementwise("floor_division(input: Tensor, other: Tensor | Number)", "floor_divide(input, other)", dtypes=REAL, names=(),
            guard='check_divisor("div", input, other)',
            inplace=True, doc="Quotient rounded down.", grad={"input": "zeros_like(grad)", "other": "zeros_like(grad)"})
composite("div__rounding(input: Tensor | Number, other: Tensor | Number, *, rounding_mode: str | None)", inplace=True, out="cast",
          names=("torch.div", "Tensor.div", "torch.divide", "Tensor.divide"),
          doc="input / other, rounded to a whole number by 'trunc' or 'floor'.")
composite("rsub(input: Tensor, other: Tensor | Number, *, alpha: Scalar = 1)", "sub(other, input, alpha)", names=("torch.rsub",),
          doc="other - alpha * input.")
elementwise("remainder(input: Tensor, other: Tensor | Number)", "remainder(input, other)", dtypes=REAL, inplace=True,
            guard='check_divisor("remainder", input, other)',
            doc="Remainder with the sign of other.", ref="numpy.remainder",
            grad={"input": "grad", "other": "neg(grad * floor_division(input, other))"})
composite("remainder__number(input: Scalar, other: Tensor)", "remainder(wrap_number(input), other)", doc="Remainder with the sign of other.",
          names=("torch.remainder",))
elementwise("fmod(input: Tensor, other: Tensor | Number)", "fmod(input, other)", dtypes=REAL, inplace=True,
            guard='check_divisor("fmod", input, other)',
            doc="Remainder with the sign of input.", ref="numpy.fmod",
            grad={"input": "grad", "other": "neg(grad * trunc_divide(input, other))"})

kernel("pow__scalar(input: Tensor, exponent: Scalar)", doc="input to a power.", inplace=True, out="cast", ref="numpy.power",
       names=("torch.pow", "Tensor.pow", "Tensor.__pow__"), grad={"input": "pow_backward(grad, input, exponent)"})
elementwise("pow(input: Tensor | Number, exponent: Tensor)", "pow(input, exponent)", dtypes=NUMERIC, inplace=True,
            doc="input to the power of exponent.",
            grad={"input": "where(exponent == 0, 0, grad * conj(exponent * pow(input, exponent - 1)))",
                  "exponent": "where(input == 0, 0, grad * conj(out * log(input)))"})
elementwise("atan2(input: Tensor, other: Tensor)", "atan2(input, other)", result="float", dtypes=FLOATING, inplace=True,
            names=("torch.atan2", "Tensor.atan2", "torch.arctan2", "Tensor.arctan2"), doc="Angle of the point (other, input).",
            grad={"input": "grad * other / (input * input + other * other)",
                  "other": "neg(grad * input / (input * input + other * other))"}, ref="numpy.arctan2")
for _name, _sign, _doc in (("maximum", ">", "larger"), ("minimum", "<", "smaller")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"{_name}(input, other)", dtypes=REAL | BOOL, ref=f"numpy.{_name}",
                doc=f"The {_doc} of two elements; NaN if either is.",
                grad={"input": f"where(input == other, grad / 2, where(input {_sign} other, grad, 0))",
                      "other": f"where(input == other, grad / 2, where(input {_sign} other, 0, grad))"})
for _name, _sign, _doc in (("fmax", ">=", "larger"), ("fmin", "<=", "smaller")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"{_name}(input, other)", dtypes=REAL | BOOL, ref=f"numpy.{_name}",
                doc=f"The {_doc} of two elements; the other one if one is NaN.",
                grad={"input": f"where((input {_sign} other) | isnan(other), grad, 0)",
                      "other": f"where((input {_sign} other) | isnan(other), 0, grad)"})

elementwise("clamp_min(input: Tensor, min: Tensor | Number)", "maximum(input, min)", dtypes=REAL | BOOL, inplace=True,
            guard='check_number("clamp_min", min, input)',
            doc="Elements below min become min.",
            grad={"input": "where(input >= min, grad, 0)", "min": "where(input < min, grad, 0)"})
elementwise("clamp_max(input: Tensor, max: Tensor | Number)", "minimum(input, max)", dtypes=REAL | BOOL, inplace=True,
            guard='check_number("clamp_max", max, input)',
            doc="Elements above max become max.",
            grad={"input": "where(input <= max, grad, 0)", "max": "where(input > max, grad, 0)"})
elementwise("clamp_range(input: Tensor, min: Tensor | Number, max: Tensor | Number)", "minimum(maximum(input, min), max)",
            dtypes=REAL, names=(), inplace=True, doc="Elements outside [min, max] become the nearer end.",
            guard='check_number("clamp", min, input), check_number("clamp", max, input)',
            grad={"input": "where((input >= min) & (input <= max), grad, 0)",
                  "min": "where((min < max) & (input < min), grad, 0)",
                  "max": "where((max < min) | (input > max), grad, 0)"})
elementwise("hypot(input: Tensor, other: Tensor)", "hypot(input, other)", dtypes=FLOATING, inplace=True, ref="numpy.hypot",
            doc="sqrt(input^2 + other^2).", grad={"input": "grad * input / out", "other": "grad * other / out"})
elementwise("copysign(input: Tensor, other: Tensor | Number)", "copysign(input, other)", result="float", dtypes=FLOATING, inplace=True,
            ref="numpy.copysign", doc="The size of input with the sign of other.",
            grad={"input": "where(input == 0, 0, grad * (out / input))", "other": "zeros_like(grad)"})
elementwise("nextafter_elements(input: Tensor, other: Tensor)", "nextafter(input, other)", dtypes=FLOATING, names=(),
            doc="nextafter of float32 and float64.", grad="nextafter has it")
kernel("nextafter(input: Tensor, other: Tensor)", inplace=True, out="cast", ref="numpy.nextafter",
       doc="The next number after input in the direction of other.",
       grad={"input": "where(input == other, 0, grad)", "other": "zeros_like(grad)"})
elementwise("heaviside(input: Tensor, values: Tensor)", "heaviside(input, values)", dtypes=REAL | BOOL, inplace=True, ref="numpy.heaviside",
            doc="0 below 0, 1 above, values at 0.", grad="a step has no gradient")
for _name, _doc in (("gcd", "Greatest common divisor."), ("lcm", "Least common multiple.")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"{_name}(input, other)", dtypes=INTEGRAL, inplace=True, ref=f"numpy.{_name}",
                doc=_doc, grad="integers have no gradient")
for _name, _power in (("logaddexp", "exp"), ("logaddexp2", "exp2")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"{_name}(input, other)", ref=f"numpy.{_name}",
                dtypes=FLOATING | COMPLEX if _power == "exp" else FLOATING, doc=f"log of {_power}(input) + {_power}(other), in that base.",
                grad={"input": f"grad / conj(1 + {_power}(other - input))", "other": f"grad / conj(1 + {_power}(input - other))"})
composite("ldexp(input: Tensor, other: Tensor)", inplace=True, out="cast", ref="numpy.ldexp",
          doc="input times 2 to the power of other.")
composite("float_power(input: Tensor | Number, exponent: Tensor | Number)", inplace=True, out=True, ref="numpy.float_power",
          doc="input to the power of exponent, in float64 or complex128.")

composite("clamp(input: Tensor, min: Scalar | None = None, max: Scalar | None = None)", inplace=True, out="cast",
          names=("torch.clamp", "Tensor.clamp", "torch.clip", "Tensor.clip"), doc="Elements outside [min, max] become the nearer end.")
composite("clamp__tensor(input: Tensor, min: Tensor | None = None, max: Tensor | None = None)", inplace=True, out="cast",
          names=("torch.clamp", "Tensor.clamp", "torch.clip", "Tensor.clip"), doc="Elements outside [min, max] become the nearer end.")

elementwise("where(condition: Tensor, input: Tensor | Number, other: Tensor | Number)", "where(condition != 0, input, other)",
            names=("torch.where",), doc="Where condition holds input, else other.",
            guard='check_number("where", input, other), check_number("where", other, input)',
            grad={"input": "where(condition, grad, 0)", "other": "where(condition, 0, grad)"})
elementwise("lerp(input: Tensor, end: Tensor, weight: Tensor | Number)", "lerp(input, end, weight)", dtypes=FLOATING | COMPLEX,
            inplace=True, doc="input + weight * (end - input).",
            grad={"input": "grad * conj(1 - weight)", "end": "grad * conj(weight)", "weight": "grad * conj(end - input)"})
elementwise("addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1)",
            "input + value * tensor1 * tensor2", dtypes=NUMERIC, inplace=True, doc="input + value * tensor1 * tensor2.",
            grad={"input": "grad", "tensor1": "grad * conj(tensor2 * value)", "tensor2": "grad * conj(tensor1 * value)"})
elementwise("addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1)",
            "input + value * (tensor1 / tensor2)", dtypes=FLOATING | COMPLEX, inplace=True,
            doc="input + value * tensor1 / tensor2.",
            grad={"input": "grad", "tensor1": "grad * conj(value / tensor2)",
                  "tensor2": "neg(grad * conj(value * tensor1 / (tensor2 * tensor2)))"})
# The order of arguments before alpha and value were keywords; old optimizers still write it.
for _name, _sign in (("add", "+"), ("sub", "-")):
    composite(f"{_name}__scaled(input: Tensor, alpha: Scalar, other: Tensor)", f"{_name}(input, other, alpha)",
              names=(f"torch.{_name}", f"Tensor.{_name}"), inplace=True, doc=f"input {_sign} alpha * other.")
for _name, _sign in (("addcmul", "*"), ("addcdiv", "/")):
    composite(f"{_name}__scaled(input: Tensor, value: Scalar, tensor1: Tensor, tensor2: Tensor)",
              f"{_name}(input, tensor1, tensor2, value)", names=(f"torch.{_name}", f"Tensor.{_name}"), inplace=True,
              doc=f"input + value * tensor1 {_sign} tensor2.")
