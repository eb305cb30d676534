"""Arithmetic, comparison and elementary functions: the rows whose ops src/dispatch itself calls.

A row here is compiled again with most of src/dispatch: what no C++ calls has its place in
arithmetic.py or unary.py.
"""
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
    function,
    kernel,
)

# d(z/|z|): the part of grad across the direction of z, over |z|; 0 at z = 0, where out is 0.
function("sgn_backward(grad: Tensor, input: Tensor, out: Tensor)", """
    if not is_complex(input):
        return zeros_like(grad)
    lengths = abs(input)
    across = (grad - out * real(grad * conj_now(out))) / lengths
    return where(eq(lengths, 0), zeros_like(across), across)
         """)
function("pow_backward(grad: Tensor, input: Tensor, exponent: Scalar)", """
    if equals(exponent, 0):
        return zeros_like(grad)
    if equals(exponent, 2):
        return grad * conj_now(input * exponent)
    return grad * conj_now(pow(input, exponent - 1) * exponent)
         """)
elementwise("add(input: Tensor | Number, other: Tensor | Number, *, alpha: Scalar = 1)",
            "input + alpha * other", two_numbers=True, constant_operands=True,
            guard='check_factor("add", "alpha", alpha, input, other)',
            doc="input + alpha * other, element by element.",
            grad={"input": "grad", "other": "scale(grad, conj(alpha))"}, inplace=True,
            ref="numpy.add",
            slot=("nb_add", "add", "add", "add_"))
elementwise("sub(input: Tensor | Number, other: Tensor | Number, *, alpha: Scalar = 1)",
            "input - alpha * other", two_numbers=True, constant_operands=True, dtypes=NUMERIC,
            guard='check_subtraction(input, other), '
                  'check_factor("sub", "alpha", alpha, input, other)',
            names=("torch.sub", "Tensor.sub", "torch.subtract", "Tensor.subtract"),
            doc="input - alpha * other, element by element.",
            grad={"input": "grad", "other": "scale(grad, -conj(alpha))"}, inplace=True,
            ref="numpy.subtract",
            node={None: "SubBackward0", "input": "RsubBackward1"},
            slot=("nb_subtract", "sub", "__rsub__", "sub_"))
elementwise("mul(input: Tensor | Number, other: Tensor | Number)", "input * other",
            two_numbers=True, constant_operands=True,
            names=("torch.mul", "Tensor.mul", "torch.multiply", "Tensor.multiply"),
            doc="input * other, element by element.",
            grad={"input": "grad * conj(other)", "other": "grad * conj(input)"}, inplace=True,
            ref="numpy.multiply",
            slot=("nb_multiply", "mul", "mul", "mul_"))
elementwise("div(input: Tensor | Number, other: Tensor | Number)", "input / other",
            two_numbers=True, constant_operands=True, result="float", dtypes=FLOATING | COMPLEX,
            names=("torch.div", "Tensor.div", "torch.divide", "Tensor.divide", "torch.true_divide",
                   "Tensor.true_divide"),
            doc="input / other, element by element; integers become floats.",
            grad={"input": "grad / conj(other)",
                  "other": "neg(grad * conj(input / other / other))"},
            inplace=True, ref="numpy.divide",
            slot=("nb_true_divide", "div", "__rtruediv__", "div_"))
elementwise("neg(input: Tensor)", "-input", dtypes=NUMERIC, guard="check_negation(input)",
            out=True,
            names=("torch.neg", "Tensor.neg", "torch.negative", "Tensor.negative"),
            doc="-input, element by element.", grad={"input": "neg(grad)"}, inplace=True,
            ref="numpy.negative",
            slot=("nb_negative", "neg"))
elementwise("abs(input: Tensor)", "abs(input)", result="real", dtypes=NUMERIC,
            names=("torch.abs", "Tensor.abs", "torch.absolute", "Tensor.absolute"),
            doc="Absolute value of each element.", grad={"input": "grad * sgn(input)"},
            inplace=True, ref="numpy.abs",
            slot=("nb_absolute", "abs"))
elementwise("sgn(input: Tensor)", "sgn(input)", out=True,
            doc="Sign of each element; z / |z| for complex numbers.",
            grad={"input": "sgn_backward(grad, input, out)"}, inplace=True)
elementwise("square_elements(input: Tensor)", "input * input", dtypes=NUMERIC, node="PowBackward0",
            doc="Square of each element.", names=(), inplace=True, reduced_in_registers=True,
            grad={"input": "grad * conj(2 * input)"})
elementwise("cube_elements(input: Tensor)", "input * input * input", dtypes=NUMERIC,
            node="PowBackward0", doc="Cube of each element.", names=(), inplace=True,
            grad={"input": "grad * conj(3 * input * input)"})
composite("square(input: Tensor)", "pow(input, 2)", inplace=True,
          out="cast", ref="numpy.square",
          doc="Square of each element; truth values count as numbers.")

for _name, _sign, _alias, _slot in (
        ("eq", "==", "eq", ("Py_EQ", "__eq__", "__eq__")),
                                    ("ne", "!=", "not_equal", ("Py_NE", "__ne__", "__ne__")),
        ("lt", "<", "less", ("Py_LT", "lt", "gt")),
                                    ("le", "<=", "less_equal", ("Py_LE", "le", "ge")),
        ("gt", ">", "greater", ("Py_GT", "gt", "lt")),
                                    ("ge", ">=", "greater_equal", ("Py_GE", "ge", "le"))):
    elementwise(f"{_name}(input: Tensor, other: Tensor | Number)", f"input {_sign} other",
                result="bool", inplace=True,
                dtypes=ALL if _sign in ("==", "!=") else REAL | BOOL,
                doc=f"input {_sign} other, element by element.",
                names=tuple(f"{_place}.{_n}" for _n in dict.fromkeys((_name, _alias))
                            for _place in ("torch", "Tensor")),
                slot=_slot)
for _name, _sign in (("and", "&"), ("or", "|"), ("xor", "^")):
    elementwise(f"bitwise_{_name}(input: Tensor, other: Tensor | Number)", f"input {_sign} other",
                constant_operands=True, dtypes=INTEGRAL | BOOL,
                inplace=True, doc=f"input {_sign} other, bit by bit.",
                grad="integers have no gradient",
                slot=(f"nb_{_name}", f"__{_name}__", f"__r{_name}__", f"__i{_name}__"))
for _name, _slot in (("left_shift", "lshift"), ("right_shift", "rshift")):
    elementwise(f"bitwise_{_name}(input: Tensor, other: Tensor | Number)",
                f"shift_{_name.split('_')[0]}(input, other)",
                dtypes=INTEGRAL, inplace=True,
                names=(f"torch.bitwise_{_name}", f"Tensor.bitwise_{_name}"),
                doc="input with its bits shifted by other.", grad="integers have no gradient",
                slot=(f"nb_{_slot}", f"__{_slot}__", f"__r{_slot}__", f"__i{_slot}__"))
for _name, _sign, _doc in (("logical_and", "&", "Are both elements nonzero?"),
                           ("logical_or", "|", "Is either element nonzero?"),
                           ("logical_xor", "!=", "Is exactly one element nonzero?")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"(input != 0) {_sign} (other != 0)",
                result="bool", inplace=True,
                doc=_doc)

elementwise("floor_divide(input: Tensor | Number, other: Tensor | Number)",
            "floor_divide(input, other)", two_numbers=True, dtypes=REAL, inplace=True,
            guard='check_divisor("floor_divide", input, other)',
            doc="Quotient rounded down.",
            grad="floor_divide is constant almost everywhere; torch defines no gradient either",
            slot=("nb_floor_divide", "__floordiv__", "__rfloordiv__", "floor_divide_"))
elementwise("trunc_divide(input: Tensor, other: Tensor | Number)", "trunc_divide(input, other)",
            node="DivBackward2", dtypes=REAL, names=(),
            guard='check_divisor("div", input, other)',
            inplace=True, doc="Quotient rounded towards zero.",
            grad={"input": "zeros_like(grad)", "other": "zeros_like(grad)"})
elementwise("floor_division(input: Tensor, other: Tensor | Number)", "floor_divide(input, other)",
            node="DivBackward2",
            dtypes=REAL, names=(),
            guard='check_divisor("div", input, other)',
            inplace=True, doc="Quotient rounded down.",
            grad={"input": "zeros_like(grad)", "other": "zeros_like(grad)"})
composite("div__rounding(input: Tensor | Number, other: Tensor | Number, *, rounding_mode: str | "
          "None)", """
    if rounding_mode is None:
        return div(input, other)
    if given(rounding_mode) == "trunc":
        return trunc_divide(input, other)
    check(given(rounding_mode) == "floor",
          "div: expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
          given(rounding_mode), "'")
    return floor_division(input, other)
          """, node="DivBackward2", inplace=True, out="cast", two_numbers=True,
          names=("torch.div", "Tensor.div", "torch.divide", "Tensor.divide"),
          doc="input / other, rounded to a whole number by 'trunc' or 'floor'.",
          batch="elementwise")
elementwise("remainder(input: Tensor, other: Tensor | Number)", "remainder(input, other)",
            node={None: "RemainderBackward1", "other": "RemainderBackward0"},
            dtypes=REAL, inplace=True,
            guard='check_divisor("remainder", input, other)',
            doc="Remainder with the sign of other.", ref="numpy.remainder",
            grad={"input": "grad", "other": "neg(grad * floor_division(input, other))"},
            slot=("nb_remainder", "remainder", "__rmod__", "remainder_"))
composite("remainder__number(input: Scalar, other: Tensor)", "remainder(wrap_number(input), other)",
          doc="Remainder with the sign of other.",
          names=("torch.remainder",))
# Squares of 16 bits overflow where the result does not.
function("small_power(input: Tensor, p: float)", """
    if p == 2:
        return square_elements(input)
    if p == 3:
        return cube_elements(input)
    if p == 0.5:
        return sqrt(input)
    if p == -0.5:
        return rsqrt(input)
    if p == -1:
        return reciprocal(input)
    if p == 1:
        return clone(input)
    if p == 0:
        return ones_like(input)
    if p == -2 and not is_reduced(dtype(input)):
        return reciprocal(square_elements(input))
    return pow(input, wrap_number(p))
         """)
kernel("pow__scalar(input: Tensor, exponent: Scalar)", body="""
    whole = is_integral_or_bool(dtype(input))
    check(not (whole and is_whole(exponent) and whole_number(exponent) < 0),
          "pow: Integers to negative integer powers are not allowed, got exponent ", exponent)
    if dtype(input) == bool and is_bool(exponent):
        return clone(input) if whole_number(exponent) != 0 else ones_like(input)
    if whole and kind_of(exponent) == float64:
        return pow(to(input, default_dtype()), exponent)
    if is_integral(dtype(input)) and is_whole(exponent):
        check_fits("pow", exponent, dtype(input))
    if is_differentiable(dtype(input)) and not is_complex(exponent):
        return small_power(input, real_part(exponent))
    return pow(input, wrap_number(exponent))
       """, doc="input to a power.", inplace=True,
       out="cast", ref="numpy.power",
       names=("torch.pow", "Tensor.pow"), grad={"input": "pow_backward(grad, input, exponent)"},
       batch="elementwise")
_OF_ZERO = "(input == 0) & ((out == 0) | (out == 1))"
elementwise("pow(input: Tensor | Number, exponent: Tensor)", "pow(input, exponent)",
            node={None: "PowBackward1", "exponent": "PowBackward0", "input": "PowBackward2"},
            dtypes=NUMERIC,
            inplace=True,
            # Of 0 to the power of 0 or more, which is 1 or 0, the exponent's gradient is taken as
            # 0. What is masked is finite: its derivatives would be NaN otherwise.
            doc="input to the power of exponent.",
            grad={"input": "where(exponent == 0, 0, grad * conj(exponent * "
                           "pow(input, where(exponent == 0, 1, exponent) - 1)))",
                  "exponent": f"grad * conj(where({_OF_ZERO}, 0, out * "
                              f"log(where({_OF_ZERO}, 1, input))))"},
            slot=("nb_power", "pow", "__rpow__", "pow_"))
for _name, _sign, _other, _doc in (("maximum", ">", "<", "larger"),
                                   ("minimum", "<", ">", "smaller")):
    elementwise(f"{_name}(input: Tensor, other: Tensor)", f"{_name}(input, other)",
                dtypes=REAL | BOOL, constant_operands=True, reduced_in_registers=True,
                ref=f"numpy.{_name}",
                doc=f"The {_doc} of two elements; NaN if either is.",
                grad={"input": f"where(input == other, grad / 2, where(input {_other} other, 0, "
                               f"grad))",
                      "other": f"where(input == other, grad / 2, where(input {_sign} other, 0, "
                               f"grad))"})

elementwise("clamp_min(input: Tensor, min: Tensor | Number)", "maximum(input, min)",
            node={None: "ClampMinBackward1", "min": "ClampMinBackward0"},
            dtypes=REAL | BOOL, inplace=True, out=True,
            guard='check_number("clamp_min", min, input)',
            doc="Elements below min become min.",
            grad={"input": "where(input >= min, grad, 0)", "min": "where(input < min, grad, 0)"})
elementwise("clamp_max(input: Tensor, max: Tensor | Number)", "minimum(input, max)",
            node={None: "ClampMaxBackward1", "max": "ClampMaxBackward0"},
            dtypes=REAL | BOOL, inplace=True, out=True,
            guard='check_number("clamp_max", max, input)',
            doc="Elements above max become max.",
            grad={"input": "where(input <= max, grad, 0)", "max": "where(input > max, grad, 0)"})
elementwise("clamp_range(input: Tensor, min: Tensor | Number, max: Tensor | Number)",
            "minimum(maximum(input, min), max)",
            node={None: "ClampBackward0", "min": "ClampBackward1", "max": "ClampBackward1"},
            dtypes=REAL, names=(), called="clamp", inplace=True,
            doc="Elements outside [min, max] become the nearer end.",
            guard='check_number("clamp", min, input), check_number("clamp", max, input)',
            grad={"input": "where((input >= min) & (input <= max), grad, 0)",
                  "min": "where((min < max) & (input < min), grad, 0)",
                  "max": "where((max < min) | (input > max), grad, 0)"})
elementwise("clamp_numbers(input: Tensor, min: Scalar, max: Scalar)",
            "minimum(maximum(input, min), max)",
            node="ClampBackward1", dtypes=REAL, names=(), called="clamp", inplace=True,
            doc="Elements outside [min, max] become the nearer end.",
            grad={"input": "where((input >= min) & (input <= max), grad, 0)"})
composite("clamp(input: Tensor, min: Scalar | None = None, max: Scalar | None = None)", """
    check(min is not None or max is not None,
          "clamp: At least one of 'min' or 'max' must not be None")
    if min is not None and max is not None:
        low = given(min)
        high = given(max)
        whole = is_integral(dtype(input)) and is_whole(low) and is_whole(high)
        if whole or (is_floating(input) and not is_complex(low) and not is_complex(high)):
            check_fits("clamp", low, dtype(input))
            check_fits("clamp", high, dtype(input))
            return clamp_numbers(input, low, high)
    return clamp(input, as_tensor(min), as_tensor(max))
          """,
          node="ClampBackward1", inplace=True, out=True,
          names=("torch.clamp", "Tensor.clamp", "torch.clip", "Tensor.clip"),
          doc="Elements outside [min, max] become the nearer end.",
          batch="elementwise")
composite("clamp__tensor(input: Tensor, min: Tensor | None = None, max: Tensor | None = None)", """
    check(min is not None or max is not None,
          "clamp: At least one of 'min' or 'max' must not be None")
    if max is None:
        return clamp_min(input, min)
    return clamp_max(input, max) if min is None else clamp_range(input, min, max)
          """,
          node="ClampBackward0", inplace=True, out=True,
          names=("torch.clamp", "Tensor.clamp", "torch.clip", "Tensor.clip"),
          doc="Elements outside [min, max] become the nearer end.",
          batch="elementwise")

elementwise("where(condition: Tensor, input: Tensor | Number, other: Tensor | Number)",
            "where(condition != 0, input, other)",
            names=("torch.where",), out=True, doc="Where condition holds input, else other.",
            guard='check_condition(condition), check_number("where", input, other), '
                  'check_number("where", other, input)',
            grad={"input": "where(condition, grad, 0)", "other": "where(condition, 0, grad)"},
            batch="where")
# The order of arguments before alpha was a keyword; old optimizers still write it.
for _name, _sign in (("add", "+"), ("sub", "-")):
    composite(f"{_name}__scaled(input: Tensor, alpha: Scalar, other: Tensor)",
              f"{_name}(input, other, in_old_order(alpha, '{_name}'))",
              names=(f"torch.{_name}", f"Tensor.{_name}"), inplace=True,
              doc=f"input {_sign} alpha * other.")

for _name, _grad, _doc in (
        ("exp", "grad * conj(out)", "e to the power of each element."),
        ("log", "grad / conj(input)", "Natural logarithm."),
        ("log2", "grad / conj(input * 0.69314718055994530942)", "Logarithm of base 2."),
        ("sqrt", "grad / conj(2 * out)", "Square root."),
        ("rsqrt", "-0.5 * grad * conj(out * out * out)", "1 / sqrt(input)."),
        ("reciprocal", "neg(grad * conj(out * out))", "1 / input."),
        ("sin", "grad * conj(cos(input))", "Sine, of radians."),
        ("cos", "neg(grad * conj(sin(input)))", "Cosine, of radians.")):
    elementwise(f"{_name}(input: Tensor)", f"{_name}(input)", result="float",
                dtypes=FLOATING | COMPLEX, doc=_doc, grad={"input": _grad}, inplace=True,
                reduced_in_registers=_name in ("sqrt", "rsqrt", "reciprocal"),
                ref="1 / numpy.sqrt" if _name == "rsqrt" else f"numpy.{_name}")
elementwise("exp2(input: Tensor)", "exp2(input)", result="float", dtypes=FLOATING | COMPLEX,
            names=("torch.exp2", "Tensor.exp2", "special.exp2"), inplace=True, ref="numpy.exp2",
            doc="2 to the power of each element.",
            grad={"input": "grad * conj(out * 0.69314718055994530942)"})
for _name, _doc in (("floor", "Largest integer not above each element."),
                    ("ceil", "Smallest integer not below each element.")):
    elementwise(f"{_name}(input: Tensor)", f"{_name}(input)", dtypes=REAL, doc=_doc,
                reduced_in_registers=True, out=True,
                grad={"input": "zeros_like(grad)"}, inplace=True, ref=f"numpy.{_name}")
elementwise("round(input: Tensor)", "round(input)", dtypes=REAL, inplace=True, ref="numpy.round",
            reduced_in_registers=True, out=True,
            names=("torch.round", "Tensor.round", "special.round"),
            doc="The nearest integer; halves go to the even one.",
            grad={"input": "zeros_like(grad)"})
elementwise("round__decimals(input: Tensor, *, decimals: int)", "round_decimals(input, decimals)",
            dtypes=REAL, out=True,
            node="RoundBackward1", names=("torch.round", "Tensor.round", "special.round"),
            doc="Rounds to a number of decimals.", grad={"input": "zeros_like(grad)"}, inplace=True)
for _name, _dtypes, _doc in (("isnan", REAL | COMPLEX | BOOL, "Is the element NaN?"),
                             ("isinf", REAL | COMPLEX | BOOL, "Is the element infinite?"),
                             ("isfinite", REAL | COMPLEX | BOOL,
                              "Is the element neither infinite nor NaN?"),
                             ("isposinf", REAL | BOOL, "Is the element +inf?"),
                             ("isneginf", REAL | BOOL, "Is the element -inf?")):
    elementwise(f"{_name}(input: Tensor)", f"{_name}(input)", result="bool", dtypes=_dtypes,
                doc=_doc,
                out=_name in ("isposinf", "isneginf"))
elementwise("logical_not(input: Tensor)", "logical_not(input)", result="bool", inplace=True,
            doc="Is the element zero?")
elementwise("bitwise_not(input: Tensor)", "bitwise_not(input)", dtypes=INTEGRAL | BOOL,
            inplace=True, out=True,
            doc="Each bit flipped; of a bool, its negation.", grad="integers have no gradient",
            slot=("nb_invert", "__invert__"))
