"""Products of matrices and vectors."""
from ops.schema import FIXED_DIMS, composite, function, kernel

# May `input` be added to a product of these sizes?
function("check_addable(op: name, input: Tensor, factor: Tensor, wanted: list[int]) -> None", """
    check(dtype(input) == dtype(factor), op,
          ": expected input and the product to have the same dtype, but got ", dtype(input),
          " and ", dtype(factor))
    check(broadcast_sizes(wanted, sizes(input), op) == wanted, op,
          ": The expanded size of the tensor ", wanted, " must match the existing size ",
          sizes(input))
         """)
# The sizes of products, for what can be multiplied.
function("product_of_batches(op: name, a: Tensor, b: Tensor) -> list[int]", """
    check(dim_of(a) == 3 and dim_of(b) == 3, op, ": batch1 and batch2 must be 3D tensors, got ",
          sizes(a), " and ", sizes(b))
    check_same_factors(op, a, b)
    check(sizes(a)[0] == sizes(b)[0] and sizes(a)[2] == sizes(b)[1], op,
          ": Expected size for first two dimensions of batch2 tensor to be: [", sizes(a)[0], ", ",
          sizes(a)[2], "] but got: [", sizes(b)[0], ", ", sizes(b)[1], "].")
    return [sizes(a)[0], sizes(a)[1], sizes(b)[2]]
         """)

kernel("mm(input: Tensor, mat2: Tensor)", out=True,
       doc="Product of two matrices, (n, k) by (k, m).", ref="numpy.matmul",
       grad={"input": "mm(grad, conj(t(mat2)))", "mat2": "mm(conj(t(input)), grad)"},
       batch="matmul", autocast="lower_precision")
function("check_bytes_product(input: Tensor, mat2: Tensor) -> None", """
    check(dim_of(input) == 2, "_int_mm: Expected self to be of dimension 2 but got ",
          dim_of(input))
    check(dim_of(mat2) == 2, "_int_mm: Expected mat2 to be of dimension 2 but got ", dim_of(mat2))
    check(dtype(input) == int8 or dtype(input) == uint8,
          "_int_mm: Expected self dtype to be int8 or uint8 but got ", dtype(input))
    check(dtype(mat2) == int8, "_int_mm: Expected mat2 dtype to be int8 but got ", dtype(mat2))
    check(sizes(input)[1] == sizes(mat2)[0],
          "_int_mm: self.size(1) needs to match mat2.size(0) but got ", sizes(input)[1], " and ",
          sizes(mat2)[0])
         """)
kernel("int_mm(input: Tensor, mat2: Tensor)", names=("torch._int_mm",), out=True,
       guard="grad::check_bytes_product(input, mat2)",
       shape="OutputSpec{Dims{input.sizes()[0], mat2.sizes()[1]}, DType::Int32}",
       launch="gemm_bytes(input, mat2, out)",
       grad="integers have no gradient",
       doc="Product of a matrix of int8 or uint8 and one of int8, as int32.")
function("check_groups(input: Tensor, integers: Tensor, scales: Tensor) -> None", """
    check(dim_of(input) == 2, "_group_mm: Expected input to be of dimension 2 but got ",
          dim_of(input))
    check(dim_of(integers) == 2, "_group_mm: Expected integers to be of dimension 2 but got ",
          dim_of(integers))
    check(dim_of(scales) == 2, "_group_mm: Expected scales to be of dimension 2 but got ",
          dim_of(scales))
    check(dtype(input) == float32 and dtype(scales) == float32,
          "_group_mm: Expected input and scales of dtype float32 but got ", dtype(input), " and ",
          dtype(scales))
    four_bits = dtype(integers) == uint8
    check(four_bits or dtype(integers) == int8,
          "_group_mm: Expected integers of dtype int8, or of uint8 (two of 4 bits each), but got ",
          dtype(integers))
    terms = size(input, 1)
    groups = size(scales, 1)
    check(size(integers, 1) * (2 if four_bits else 1) == terms
          and size(scales, 0) == size(integers, 0),
          "_group_mm: integers of shape ", sizes(integers), " and scales of shape ",
          sizes(scales), " do not go with an input of shape ", sizes(input))
    check(groups > 0 and terms % groups == 0 and terms // groups % 32 == 0,
          "_group_mm: Expected groups of a multiple of 32 columns but got ", groups,
          " groups of ", terms, " columns")
         """)
kernel("group_mm(input: Tensor, integers: Tensor, scales: Tensor)", names=("torch._group_mm",),
       guard="grad::check_groups(input, integers, scales)",
       shape="OutputSpec{Dims{input.size(0), integers.size(0)}, input.dtype()}",
       launch="gemm_groups(input, ops::contiguous(integers), ops::contiguous(scales), out)",
       grad="it is for inference; WeightOnlyLinear multiplies otherwise where gradients are wanted",
       doc="Product of a float32 matrix and the transpose of one in 8 or 4 bits with a scale per "
           "group of columns.")
kernel("bmm(input: Tensor, mat2: Tensor)", out=True,
       shape='OutputSpec{grad::product_of_batches("bmm", input, mat2), input.dtype()}',
       launch="gemm(input, mat2, out, {}, nullptr)",
       doc="Products of two batches of matrices, (b, n, k) by (b, k, m).",
       ref="numpy.matmul", grad={"input": "bmm(grad, conj(transpose(mat2, 1, 2)))",
                                 "mat2": "bmm(conj(transpose(input, 1, 2)), grad)"},
       batch="matmul", autocast="lower_precision")
function("check_vector_product(input: Tensor, vec: Tensor) -> None", """
    check(dim_of(input) == 2 and dim_of(vec) == 1,
          "mv: vector + matrix @ vector expected, got ", sizes(input), " and ", sizes(vec))
    check_same_factors("mv", input, vec)
    check(sizes(input)[1] == sizes(vec)[0], "mv: size mismatch, got input (", sizes(input)[0], "x",
          sizes(input)[1], "), vec (", sizes(vec)[0], ")")
         """)
kernel("mv(input: Tensor, vec: Tensor)", out=True,
       guard="grad::check_vector_product(input, vec)",
       shape="OutputSpec{Dims{input.sizes()[0]}, input.dtype()}",
       launch="matvec(input, vec, out, {})",
       doc="Product of a matrix (n, k) and a vector (k).", ref="numpy.matmul",
       grad={"input": "outer(grad, conj(vec))", "vec": "mv(conj(t(input)), grad)"}, batch="matmul")
function("check_dot(input: Tensor, tensor: Tensor) -> None", """
    check(dim_of(input) == 1 and dim_of(tensor) == 1, "dot: 1D tensors expected, but got ",
          dim_of(input), "D and ", dim_of(tensor), "D tensors")
    check_same_factors("dot", input, tensor)
    check(numel(input) == numel(tensor), "dot: inconsistent tensor size, expected tensor [",
          numel(input), "] and src [", numel(tensor), "] to have the same number of elements")
         """)
kernel("dot(input: Tensor, tensor: Tensor)", out=True, doc="Sum of the products of two vectors.",
       guard="grad::check_dot(input, tensor)", shape="OutputSpec{Dims(), input.dtype()}",
       launch="dot(input, tensor, out)",
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
    rows = product(without_last(sizes(input)))
    columns = product(without_last(sizes(other)))
    depth = size(input, -1)
    product = matmul(reshape(input, [rows, depth]), t(reshape(other, [columns, depth])))
    return reshape(product, inner_sizes(input, other))
          """, out=True,
          doc="Products summed over the last dims.", ref="numpy.inner",
          batch="inner", autocast="lower_precision")
composite("outer(input: Tensor, vec2: Tensor)", """
    check(dim_of(input) == 1, "outer: Expected 1-D argument self, but got ", dim_of(input), "-D")
    check(dim_of(vec2) == 1, "outer: Expected 1-D argument vec2, but got ", dim_of(vec2), "-D")
    return reshape(input, [numel(input), 1]) * vec2
          """, out="cast",
          doc="All products of the elements of two vectors.",
          names=("torch.outer", "Tensor.outer", "torch.ger", "Tensor.ger"), ref="numpy.outer",
          batch="outer")
# (*, n, k) by (*, k, m) with leading dims broadcast.
function("batched_matmul(a: Tensor, b: Tensor)", """
    check(size(a, -1) == size(b, -2), "matmul: mat1 and mat2 shapes cannot be multiplied, got ",
          sizes(a), " and ", sizes(b))
    batch = broadcast_sizes(batch_of(a), batch_of(b), "matmul")
    left = with_matrix(batch, size(a, -2), size(a, -1))
    right = with_matrix(batch, size(b, -2), size(b, -1))
    # All sizes are said: -1 could not be told where there are no elements.
    count = product(batch)
    x = reshape(a if sizes(a) == left else expand(a, left), [count, size(a, -2), size(a, -1)])
    y = reshape(b if sizes(b) == right else expand(b, right), [count, size(b, -2), size(b, -1)])
    return without_base(unsafe_view(bmm(x, y), with_matrix(batch, size(a, -2), size(b, -1))))
         """)
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
_SCALES = "beta: Scalar = 1, alpha: Scalar = 1"
composite(f"addmv(input: Tensor, mat: Tensor, vec: Tensor, *, {_SCALES})", """
    check(dim_of(mat) == 2 and dim_of(vec) == 1,
          "addmv: vector + matrix @ vector expected, got ", sizes(mat), " and ", sizes(vec))
    check(sizes(mat)[1] == sizes(vec)[0], "addmv: size mismatch, got mat ", sizes(mat), ", vec ",
          sizes(vec))
    check_same_factors("addmv", mat, vec)
    check_addable("addmv", input, mat, [sizes(mat)[0]])
    column = addmm(unsqueeze(input, -1), mat, unsqueeze(vec, 1), beta, alpha)
    return without_base(squeeze(column, [1]))
          """, inplace=True, out=True,
          doc="beta * input + alpha * mat @ vec.", batch="add_product",
          grad={"input": "scale(grad, conj(beta))",
                "mat": "scale(outer(grad, conj(vec)), conj(alpha))",
                "vec": "scale(mv(conj(t(mat)), grad), conj(alpha))"})
function("addr_backward(grad: Tensor, other: Tensor, alpha: Scalar)",
         "scale(mv(grad, conj(converted(other, dtype(grad)))), conj(alpha))")
kernel(f"addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, {_SCALES})", body="""
    check(dim_of(vec1) == 1 and dim_of(vec2) == 1, "addr: Expected 1-D vec1 and vec2, but got ",
          sizes(vec1), " and ", sizes(vec2))
    kind = promote(common_dtype(input, vec1), common_dtype(input, vec2))
    a = to(vec1, kind)
    b = to(vec2, kind)
    added = to(input, kind)
    check_factor("addr", "beta", beta, a, a)
    check_factor("addr", "alpha", alpha, a, a)
    check_addable("addr", added, a, [sizes(a)[0], sizes(b)[0]])
    if kind == bool:
        # In place, the first result takes the memory of what is added.
        first = clone(scale(added, whole_for(bool, beta)))
        return add(first, scale(outer(a, b), whole_for(bool, alpha)))
    return addmm(added, unsqueeze(a, 1), unsqueeze(b, 0), beta, alpha)
          """, inplace=True, out="cast",
          doc="beta * input + alpha * the outer product of vec1 and vec2.",
          batch="add_outer_product",
          grad={"input": "scale(grad, conj(beta))",
                "vec1": "addr_backward(grad, vec2, alpha)",
                "vec2": "addr_backward(t(grad), vec1, alpha)"})
# The batch is part of what is summed over.
composite(f"addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, {_SCALES})", """
    batch = product_of_batches("addbmm", batch1, batch2)
    rows = batch[1]
    columns = batch[2]
    depth = batch[0] * sizes(batch1)[2]
    check_addable("addbmm", input, batch1, [rows, columns])
    return addmm(input, reshape(transpose(batch1, 0, 1), [rows, depth]),
                 reshape(batch2, [depth, columns]), beta, alpha)
          """, inplace=True, out=True,
          doc="beta * input + alpha * the sum of batch1 @ batch2 over the batch.",
          batch=FIXED_DIMS, autocast="lower_precision",
          grad={"input": "scale(grad, conj(beta))",
                "batch1": "scale(matmul(unsqueeze(grad, 0), conj(transpose(batch2, 1, 2))), "
                          "conj(alpha))",
                "batch2": "scale(matmul(conj(transpose(batch1, 1, 2)), unsqueeze(grad, 0)), "
                          "conj(alpha))"})
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
composite("trilinear_of_rows(a: Tensor, weight: Tensor, b: Tensor)", """
    pairs = matmul(unsqueeze(a, 0), weight) * unsqueeze(b, 0)  # (out, n, in2)
    return in_order(t(sum(pairs, [-1], False, dtype(a))))
          """, names=(), node="TrilinearBackward0",
          doc="x1^T A x2 of each row and output; weight (out, in1, in2).")
composite("bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None)",
          """
    check(dim_of(weight) == 3 and dim_of(input1) > 0 and dim_of(input1) == dim_of(input2),
          "bilinear: expected weight (out, in1, in2) and inputs of equal rank, got ",
          sizes(weight), ", ", sizes(input1), ", ", sizes(input2))
    check(size(input1, -1) == sizes(weight)[1] and size(input2, -1) == sizes(weight)[2],
          "bilinear: inputs ", sizes(input1), " and ", sizes(input2), " do not fit weight ",
          sizes(weight))
    leading = without_last(sizes(input1))
    check(leading == without_last(sizes(input2)),
          "bilinear: input batch dimensions do not match: ", sizes(input1), " and ",
          sizes(input2))
    a = reshape(input1, [-1, size(input1, -1)])
    b = reshape(input2, [-1, size(input2, -1)])
    result = reshape(trilinear_of_rows(a, weight, b), with_last(leading, sizes(weight)[0]))
    return result if bias is None else result + bias
          """,
          names=("nn.functional.bilinear", "torch.bilinear"),
          doc="x1^T A x2 + b for each output; weight (out, in1, in2).",
          batch="bilinear")
composite("adjoint(input: Tensor)", """
    check(dim_of(input) != 1,
          "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return conj(transpose(input, -2, -1) if dim_of(input) > 0 else input)
          """,
          doc="Conjugate transpose of the last two dims.",
          names=("torch.adjoint", "Tensor.adjoint"), batch="leading")
