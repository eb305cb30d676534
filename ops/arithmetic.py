"""Arithmetic, comparison and logic of elements."""
from ops.schema import ALL, BOOL, COMPLEX, FLOATING, INTEGRAL, NUMERIC, REAL, composite, elementwise

elementwise("add(input: Tensor, other: Tensor | Number, *, alpha: Scalar = 1)", "input + alpha * other",
            doc="input + alpha * other, element by element.",
            grad={"input": "grad", "other": "scale(grad, conj(alpha))"}, inplace=True, ref="numpy.add")
elementwise("sub(input: Tensor, other: Tensor | Number, *, alpha: Scalar = 1)", "input - alpha * other", dtypes=NUMERIC,
            names=("torch.sub", "Tensor.sub", "torch.subtract", "Tensor.subtract"),
            doc="input - alpha * other, element by element.",
            grad={"input": "grad", "other": "scale(grad, -conj(alpha))"}, inplace=True, ref="numpy.subtract")
elementwise("mul(input: Tensor, other: Tensor | Number)", "input * other",
            names=("torch.mul", "Tensor.mul", "torch.multiply", "Tensor.multiply"),
            doc="input * other, element by element.",
            grad={"input": "grad * conj(other)", "other": "grad * conj(input)"}, inplace=True, ref="numpy.multiply")
elementwise("div(input: Tensor, other: Tensor | Number)", "input / other", result="float", dtypes=FLOATING | COMPLEX,
            names=("torch.div", "Tensor.div", "torch.divide", "Tensor.divide", "torch.true_divide", "Tensor.true_divide"),
            doc="input / other, element by element; integers become floats.",
            grad={"input": "grad / conj(other)", "other": "neg(grad * conj(input / other / other))"},
            inplace=True, ref="numpy.divide")
elementwise("neg(input: Tensor)", "-input", dtypes=NUMERIC,
            names=("torch.neg", "Tensor.neg", "torch.negative", "Tensor.negative"),
            doc="-input, element by element.", grad={"input": "neg(grad)"}, inplace=True, ref="numpy.negative")
elementwise("abs(input: Tensor)", "abs(input)", result="real", dtypes=NUMERIC,
            names=("torch.abs", "Tensor.abs", "torch.absolute", "Tensor.absolute"),
            doc="Absolute value of each element.", grad={"input": "grad * sgn(input)"}, inplace=True, ref="numpy.abs")
elementwise("sgn(input: Tensor)", "sgn(input)", dtypes=ALL - BOOL,
            doc="Sign of each element; z / |z| for complex numbers.",
            grad={"input": "sgn_backward(grad, input, out)"}, inplace=True)
elementwise("square(input: Tensor)", "input * input", dtypes=NUMERIC, doc="Square of each element.",
            grad={"input": "grad * conj(2 * input)"}, inplace=True, ref="numpy.square")

for _name, _sign in (("eq", "=="), ("ne", "!=")):
    elementwise(f"{_name}(input: Tensor, other: Tensor | Number)", f"input {_sign} other", result="bool", inplace=True,
                doc=f"input {_sign} other, element by element.")
for _name, _sign in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    elementwise(f"{_name}(input: Tensor, other: Tensor | Number)", f"input {_sign} other", result="bool",
                dtypes=REAL | BOOL, inplace=True, doc=f"input {_sign} other, element by element.")
for _name, _sign in (("bitwise_and", "&"), ("bitwise_or", "|"), ("bitwise_xor", "^")):
    elementwise(f"{_name}(input: Tensor, other: Tensor | Number)", f"input {_sign} other", dtypes=INTEGRAL | BOOL,
                inplace=True, doc=f"input {_sign} other, bit by bit.", grad="integers have no gradient")
elementwise("where(condition: Tensor, input: Tensor | Number, other: Tensor | Number)", "where(condition, input, other)",
            names=(), doc="Where condition holds input, else other.", grad={"input": "where(condition, grad, 0)", "other": "where(condition, 0, grad)"})
