"""Products of matrices and vectors."""
from ops.schema import FIXED_DIMS, composite, kernel

kernel("mm(input: Tensor, mat2: Tensor)", out=True,
       doc="Product of two matrices, (n, k) by (k, m).", ref="numpy.matmul",
       grad={"input": "mm(grad, conj(t(mat2)))", "mat2": "mm(conj(t(input)), grad)"},
       batch="matmul", autocast="lower_precision")
kernel("int_mm(input: Tensor, mat2: Tensor)", names=("torch._int_mm",), out=True,
       grad="integers have no gradient",
       doc="Product of a matrix of int8 or uint8 and one of int8, as int32.")
kernel("group_mm(input: Tensor, integers: Tensor, scales: Tensor)", names=("torch._group_mm",),
       grad="it is for inference; WeightOnlyLinear multiplies otherwise where gradients are wanted",
       doc="Product of a float32 matrix and the transpose of one in 8 or 4 bits with a scale per "
           "group of columns.")
kernel("bmm(input: Tensor, mat2: Tensor)", out=True,
       doc="Products of two batches of matrices, (b, n, k) by (b, k, m).",
       ref="numpy.matmul", grad={"input": "bmm(grad, conj(transpose(mat2, 1, 2)))",
                                 "mat2": "bmm(conj(transpose(input, 1, 2)), grad)"},
       batch="matmul", autocast="lower_precision")
kernel("mv(input: Tensor, vec: Tensor)", out=True,
       doc="Product of a matrix (n, k) and a vector (k).", ref="numpy.matmul",
       grad={"input": "outer(grad, conj(vec))", "vec": "mv(conj(t(input)), grad)"}, batch="matmul")
kernel("dot(input: Tensor, tensor: Tensor)", out=True, doc="Sum of the products of two vectors.",
       ref="numpy.dot",
       grad={"input": "grad * conj(tensor)", "tensor": "grad * conj(input)"}, batch="matmul")
composite("vdot(input: Tensor, other: Tensor)", "dot(conj(input), other)", out=True,
          ref="numpy.vdot", grad={"input": "conj(grad) * other", "other": "grad * input"},
          doc="Sum of the products of two vectors, the first conjugated.")
composite("inner(input: Tensor, other: Tensor)", """
    if dim_of(input) == 0 or dim_of(other) == 0:
        return input * other
    check(size(input, -1) == size(other, -1),
          "inner: the last dimension must match on both input tensors but got shapes ",
          sizes(input),
          " and ", sizes(other))
    product = matmul(reshape(input, [-1, size(input, -1)]), t(reshape(other, [-1, size(other,
                                                                                       -1)])))
    return reshape(product, inner_sizes(input, other))
          """, out="cast",
          doc="Products summed over the last dims.", ref="numpy.inner",
          batch="inner", autocast="lower_precision")
composite("outer(input: Tensor, vec2: Tensor)", """
    check(dim_of(input) == 1, "outer: Expected 1-D argument self, but got ", dim_of(input), "-D")
    check(dim_of(vec2) == 1, "outer: Expected 1-D argument vec2, but got ", dim_of(vec2), "-D")
    return unsqueeze(input, 1) * vec2
          """, out="cast",
          doc="All products of the elements of two vectors.",
          names=("torch.outer", "Tensor.outer", "torch.ger", "Tensor.ger"), ref="numpy.outer",
          batch="outer")
composite("matmul(input: Tensor, other: Tensor)", out=True, ref="numpy.matmul",
          names=("torch.matmul", "Tensor.matmul", "linalg.matmul"),
          doc="Matrix product over the last two dims; leading dims broadcast, vectors stand for "
              "matrices.",
          batch="matmul", autocast="lower_precision",
          slot=("nb_matrix_multiply", "matmul", "__rmatmul__"))
for _name, _product, _a, _b, _transposed in (("addmm", "mm", "mat1", "mat2", "t({})"),
                                            ("baddbmm", "bmm", "batch1", "batch2",
                                             "transpose({}, 1, 2)")):
    kernel(f"{_name}(input: Tensor, {_a}: Tensor, {_b}: Tensor, *, beta: Scalar = 1, alpha: Scalar "
           f"= 1)", inplace=True, out=True,
           doc=f"beta * input + alpha * {_product} of the others.",
           grad={"input": "scale(grad, conj(beta))",
                 _a: f"scale({_product}(grad, conj({_transposed.format(_b)})), conj(alpha))",
                 _b: f"scale({_product}(conj({_transposed.format(_a)}), grad), conj(alpha))"},
           batch="add_product", autocast="lower_precision")
for _name, _operands, _doc, _rules in (
        ("addmv", "mat: Tensor, vec: Tensor", "mat @ vec", {"batch": "add_product", "grad": {
            "mat": "scale(outer(grad, conj(vec)), conj(alpha))",
            "vec": "scale(mv(conj(t(mat)), grad), conj(alpha))"}}),
        ("addr", "vec1: Tensor, vec2: Tensor", "the outer product of vec1 and vec2",
         {"batch": FIXED_DIMS, "grad": {
             "vec1": "scale(mv(grad, conj(vec2)), conj(alpha))",
             "vec2": "scale(mv(t(grad), conj(vec1)), conj(alpha))"}}),
        ("addbmm", "batch1: Tensor, batch2: Tensor", "the sum of batch1 @ batch2 over the batch",
         {"batch": FIXED_DIMS, "autocast": "lower_precision", "grad": {
             "batch1": "scale(matmul(unsqueeze(grad, 0), conj(transpose(batch2, 1, 2))), "
                       "conj(alpha))",
             "batch2": "scale(matmul(conj(transpose(batch1, 1, 2)), unsqueeze(grad, 0)), "
                       "conj(alpha))"}})):
    _rules["grad"] = {"input": "scale(grad, conj(beta))", **_rules["grad"]}
    composite(f"{_name}(input: Tensor, {_operands}, *, beta: Scalar = 1, alpha: Scalar = 1)",
              inplace=True, out=True,
              doc=f"beta * input + alpha * {_doc}.", **_rules)
# The order of arguments before alpha and beta were keywords: of functions, then of methods.
for _name, _a, _b, _x, _of in (
        ("addmm", "mat1", "mat2", "x(2, 3)", "x(2, 4), x(4, 3)"),
        ("addmv", "mat", "vec", "x(2)", "x(2, 4), x(4)"),
        ("addr", "vec1", "vec2", "x(2, 3)", "x(2), x(3)"),
        ("addbmm", "batch1", "batch2", "x(2, 3)", "x(5, 2, 4), x(5, 4, 3)"),
        ("baddbmm", "batch1", "batch2", "x(5, 2, 3)", "x(5, 2, 4), x(5, 4, 3)")):
    _rule = FIXED_DIMS if _name in ("addr", "addbmm") else "add_product"
    for _alpha, _passed in (("alpha: Scalar, ", "alpha"), ("", "1")):
        _end = "" if _alpha else "_unscaled"
        _body = f"{_name}(input, {_a}, {_b}, in_old_order(beta, '{_name}'), {_passed})"
        _doc = f"{_name} with beta first."
        _of = "number, " * bool(_alpha) + _of.removeprefix("number, ")
        composite(f"{_name}__first{_end}(beta: Scalar, input: Tensor, {_alpha}{_a}: Tensor, "
                  f"{_b}: Tensor)", _body, names=(f"torch.{_name}",), doc=_doc, batch=_rule,
                  samples=(f"number, {_x}, {_of}",))
        composite(f"{_name}__second{_end}(input: Tensor, beta: Scalar, {_alpha}{_a}: Tensor, "
                  f"{_b}: Tensor)", _body, names=(f"Tensor.{_name}",), inplace=True, doc=_doc,
                  batch=_rule, samples=(f"{_x}, number, {_of}",))
composite("addmm_activation(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Scalar = 1, alpha: "
          "Scalar = 1, use_gelu: bool = False)",
          names=("torch._addmm_activation", "Tensor._addmm_activation"), out=True,
          doc="relu, or exact gelu, of beta * input + alpha * mm of the others.")
# In the order of addmm's arguments, which torch makes of it.
_LINEAR = {"bias": "grad",
           "input": "add_linear_input(accumulated, grad, weight)",
           "weight": "add_linear_weight(accumulated, grad, input, dim_of(weight))"}
_LINEAR_NODE = ('{outputs[0].sizes.size() != 2 ? "Linear" : edges[0].node ? "Addmm" : "Mm"}'
                "Backward0")
kernel("linear(input: Tensor, weight: Tensor, bias: Tensor | None = None)",
       names=("nn.functional.linear",), out=True,
       doc="input @ weight.T + bias; input (*, in), weight (out, in) or (in), bias (out) or ().",
       grad=_LINEAR, node=_LINEAR_NODE,
       batch="linear", autocast="lower_precision")
# One pass forward, and two nodes: these of linear and of relu.
kernel("linear__rectified(input: Tensor, weight: Tensor, bias: Tensor | None, rectified: bool)",
       names=(), grad=_LINEAR, node=_LINEAR_NODE,
       doc="The values of relu(linear) with the gradient of linear.")
kernel("relu__known(input: Tensor, known: bool)", names=(),
       doc="relu of what has no negative elements.",
       grad={"input": "relu_backward(grad, out)"})
composite("linear_activation(input: Tensor, weight: Tensor, bias: Tensor | None, activation: str)",
          names=("nn.functional._linear_activation",),
          doc="'relu', 'gelu' or 'gelu_tanh' of linear, in one pass but where gelu is recorded for "
              "backward.")
composite("bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None)",
          names=("nn.functional.bilinear", "torch.bilinear"),
          doc="x1^T A x2 + b for each output; weight (out, in1, in2).",
          batch=FIXED_DIMS)
composite("adjoint(input: Tensor)", "conj(transpose(input, -2, -1))",
          doc="Conjugate transpose of the last two dims.",
          names=("torch.adjoint", "Tensor.adjoint"))
