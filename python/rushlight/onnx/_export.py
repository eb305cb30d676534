"""From a program to an ONNX model: each operation of the table as operators of opset 18.

The library `onnx` makes the file (`pip install rushlight[onnx]`).
"""

from __future__ import annotations

import operator

import rushlight
from rushlight import Tensor
from rushlight.export import _record, passes
from rushlight.export._table import MISSING, is_operation
from rushlight.fx import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OPSET = 18


class OnnxExporterError(RuntimeError):
    """A model cannot be exported."""


_DTYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "complex64": 14, "complex128": 15, "bfloat16": 16,
}  # fmt: skip


def _code(dtype):
    return _DTYPES[str(dtype).rpartition(".")[2]]


class Writer:
    """An ONNX graph in the making."""

    def __init__(self, program: Any, opset: Any) -> None:
        import onnx

        self.onnx, self.program, self.opset = onnx, program, opset
        self.nodes, self.initializers, self.names = [], [], {}
        self.constants, self.count = {}, 0

    # ---- values

    def fresh(self, hint: str = "v") -> str:
        """A new name."""
        self.count += 1
        return f"{hint}_{self.count}"

    def op(self, kind: Any, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """A node; its output's name, or their names."""
        inputs = ["" if i is None else self.value(i) for i in inputs]
        while inputs and not inputs[-1]:
            inputs.pop()
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def value(self, v: Any) -> Any:
        """The name of a value: a name already, a node, a tensor or a number."""
        if isinstance(v, str):
            return v
        if isinstance(v, Node):
            return self.names[v]
        if isinstance(v, Tensor):
            return self.initializer(v)
        if isinstance(v, (list, tuple)):
            return self.ints(v)
        return self.scalar(v)

    def initializer(self, t: Any, name: str | None = None) -> Any:
        """A constant."""
        t = t.detach().contiguous().cpu()
        key = (
            (t.dtype, tuple(t.shape), bytes(t.clone().untyped_storage()))
            if t.numel() < 64
            else None
        )
        if name is None and key in self.constants:
            return self.constants[key]
        name = name or self.fresh("constant")
        self.initializers.append(self.onnx.helper.make_tensor(
            name, _code(t.dtype), list(t.shape), bytes(t.clone().untyped_storage()), raw=True
        ))  # fmt: skip
        if key is not None:
            self.constants[key] = name
        return name

    def scalar(self, v: Any, dtype: rushlight.dtype | None = None) -> Any:
        """A number, or a node of one, as a tensor of a dtype."""
        if isinstance(v, (Node, str)):
            return self.cast(v, dtype) if dtype is not None else self.value(v)
        return self.initializer(rushlight.tensor(v, dtype=dtype))

    def ints(self, values: Any) -> Any:
        """A list of ints, of which some may be computed, as a tensor."""
        if not any(isinstance(v, (Node, str)) for v in values):
            return self.initializer(rushlight.tensor(list(values), dtype=rushlight.int64))
        parts = [self.op("Reshape", v, [1]) if isinstance(v, (Node, str)) else self.ints([v])
                 for v in values]  # fmt: skip
        return self.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def cast(self, v: Any, dtype: rushlight.dtype) -> Any:
        """The value in a dtype."""
        if isinstance(v, Node) and isinstance(v.meta.get("val"), Tensor) and (
            v.meta["val"].dtype is dtype
        ):  # fmt: skip
            return self.value(v)
        return self.op("Cast", v, to=_code(dtype))

    def operand(self, v: Any, dtype: rushlight.dtype) -> Any:
        """An operand of an operator whose operands have one dtype."""
        return self.cast(v, dtype) if isinstance(v, (Node, str)) else self.scalar(v, dtype)

    # ---- the graph

    def write(self, input_names: Any, output_names: Any) -> Any:
        """The ModelProto."""
        helper, inputs, given = self.onnx.helper, [], iter(input_names or ())
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self.placeholder(node, inputs, given)
            elif node.op == "call_function":
                self.call(node)
        leaves, outputs = self.program.graph.output_node().args[0], []
        for i, leaf in enumerate(leaves):
            name = output_names[i] if output_names and i < len(output_names) else f"output_{i}"
            self.nodes.append(helper.make_node("Identity", [self.value(leaf)], [name]))
            value = leaf.meta.get("val") if isinstance(leaf, Node) else rushlight.tensor(leaf)
            value = value if isinstance(value, Tensor) else rushlight.tensor(value)
            shape = list(value.shape)
            if self.program.range_constraints:  # what may change is not known
                shape = [f"{name}_dim_{d}" for d in range(len(shape))]
            outputs.append(helper.make_tensor_value_info(name, _code(value.dtype), shape))
        graph = helper.make_graph(self.nodes, "main", inputs, outputs, self.initializers)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8,
            producer_name="rushlight", producer_version=rushlight.__version__,
        )  # fmt: skip
        self.onnx.checker.check_model(model)
        return model

    def placeholder(self, node: Any, inputs: Any, given: Any) -> None:
        value = node.meta.get("val")
        if node.meta["kind"] != "input":
            name = node.meta["target"]
            self.names[node] = self.initializer(self.program._lifted_value(node), name)
            return
        if not isinstance(value, Tensor):
            if node.users:
                raise OnnxExporterError(f"onnx.export: the input {node.name} is no tensor")
            return
        name = next(given, node.name)
        self.names[node] = name
        sizes = node.meta.get("sizes") or [None] * value.dim()
        shape = [n if s is None else s.text for n, s in zip(value.shape, sizes)]
        inputs.append(self.onnx.helper.make_tensor_value_info(name, _code(value.dtype), shape))

    def call(self, node: Any) -> None:
        target = node.target
        if is_operation(target):
            key = target.key
            row = target.row
            if row.is_inplace:
                self.check_in_place(node)
                key = key.replace("_.", ".") if "_." in key else key.removesuffix("_")
            handler = HANDLERS.get(key)
            if handler is None:
                raise OnnxExporterError(
                    f"onnx.export: the operation {row.key} has no operator here "
                    f"({node.meta.get('stack_trace', '?')})"
                )
            result = handler(self, node, **_arguments(node))
        else:
            handler = _PRIMITIVES.get(target)
            if handler is None:
                raise OnnxExporterError(f"onnx.export: {target} has no operator here")
            result = handler(self, node, *node.args)
        self.names[node] = result

    def check_in_place(self, node: Any) -> None:
        """A change in place is an operator if nothing else looks at the memory afterwards."""
        changed = node.args[0]
        pointer = _memory(changed)
        later = node.next
        while later.op != "root" and later is not node:
            for used in later.all_input_nodes:
                if used is not node and _memory(used) == pointer and not _follows(used, node):
                    raise OnnxExporterError(
                        f"onnx.export: {node.target} changes {changed.name} in place, which "
                        f"{later.name} sees in another way ({node.meta.get('stack_trace', '?')})"
                    )
            later = later.next
            if later.op == "placeholder":
                break
        if changed.op == "placeholder":
            raise OnnxExporterError(
                f"onnx.export: {node.target} changes the input or buffer {changed.name} in place"
            )


def _memory(node):
    value = node.meta.get("val")
    return value.untyped_storage().data_ptr() if isinstance(value, Tensor) else node


def _follows(node, first):
    """Is the node computed from `first`?"""
    seen, left = set(), [node]
    while left:
        n = left.pop()
        if n is first:
            return True
        if n not in seen:
            seen.add(n)
            left += n.all_input_nodes
    return False


def _arguments(node):
    row = node.target.row
    found = dict(zip((p.name for p in row.parameters), node.args))
    found.update(node.kwargs)
    for p in row.parameters:
        if p.name not in found and p.default is not MISSING:
            found[p.name] = p.default
    return found


def dtype_of(v: Any) -> Any:
    """The dtype of an operand."""
    value = v.meta["val"] if isinstance(v, Node) else v
    return value.dtype if isinstance(value, Tensor) else rushlight.tensor(value).dtype


HANDLERS = {}


def handles(*keys: Any) -> Any:
    """Enter a function for operations of the table."""

    def enter(function):
        for key in keys:
            HANDLERS[key] = function
        return function

    return enter


def _unary(kind, **attributes):
    def write(w, node, input, **rest):
        return w.op(kind, w.operand(input, dtype_of(node)), **attributes)

    return write


for _key, _kind in {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf",
    "exp": "Exp", "floor": "Floor", "log": "Log", "neg": "Neg", "reciprocal": "Reciprocal",
    "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin",
    "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "functional_mish": "Mish",
    "functional_hardswish": "HardSwish", "selu": "Selu", "negative": "Neg", "logical_not": "Not",
    "bitwise_not": "Not",
}.items():  # fmt: skip
    HANDLERS[_key] = _unary(_kind)
HANDLERS["functional_hardsigmoid"] = _unary("HardSigmoid", alpha=1 / 6, beta=0.5)


@handles("clone", "detach", "contiguous", "dropout", "functional_dropout", "view_as", "positive",
         "alias_copy")  # fmt: skip
def _identity(w, node, input, training=False, train=False, **rest):
    if (training or train) and node.target.key.endswith("dropout"):
        raise OnnxExporterError("onnx.export: dropout of training; call eval() first")
    if node.target.key == "view_as":
        return w.op("Reshape", input, w.op("Shape", rest["other"]))
    return w.op("Identity", input)


@handles("rsqrt")
def _rsqrt(w, node, input):
    return w.op("Reciprocal", w.op("Sqrt", w.operand(input, dtype_of(node))))


@handles("square")
def _square(w, node, input):
    return w.op("Mul", input, input)


@handles("gelu")
def _gelu(w, node, input, approximate):
    x, dtype = input, dtype_of(node)

    def number(v):
        return w.scalar(v, dtype)

    if approximate == "tanh":
        cube = w.op("Mul", w.op("Mul", x, x), x)
        inner = w.op("Add", x, w.op("Mul", cube, number(0.044715)))
        half = w.op("Tanh", w.op("Mul", inner, number(0.7978845608028654)))
    else:
        half = w.op("Erf", w.op("Mul", x, number(0.7071067811865476)))
    return w.op("Mul", w.op("Mul", x, number(0.5)), w.op("Add", half, number(1.0)))


@handles("functional_silu")
def _silu(w, node, input, inplace):
    return w.op("Mul", input, w.op("Sigmoid", input))


@handles("functional_leaky_relu")
def _leaky_relu(w, node, input, negative_slope, inplace):
    return w.op("LeakyRelu", input, alpha=float(negative_slope))


@handles("functional_elu")
def _elu(w, node, input, alpha, inplace):
    return w.op("Elu", input, alpha=float(alpha))


@handles("functional_hardtanh", "clamp")
def _clamp(w, node, input, min=None, max=None, min_val=None, max_val=None, inplace=False):
    dtype = dtype_of(node)
    low, high = (min if min_val is None else min_val), (max if max_val is None else max_val)
    return w.op("Clip", w.operand(input, dtype), *(
        None if v is None else w.scalar(v, dtype) for v in (low, high)))  # fmt: skip


@handles("softplus")
def _softplus(w, node, input, beta=1, threshold=20, **rest):
    if beta != 1:
        raise OnnxExporterError("onnx.export: softplus with another beta than 1")
    return w.op("Softplus", input)


def _binary(kind, common=True):
    def write(w, node, input, other, **rest):
        if rest.get("alpha", 1) != 1:
            factor = w.scalar(rest["alpha"], dtype_of(node))
            other = w.op("Mul", w.operand(other, dtype_of(node)), factor)
        if rest.get("rounding_mode") is not None:
            raise OnnxExporterError("onnx.export: div with a rounding mode")
        dtype = dtype_of(node)
        if not common:  # a comparison
            values = [v.meta["val"] if isinstance(v, Node) else v for v in (input, other)]
            dtype = rushlight.result_type(*values)
        return w.op(kind, w.operand(input, dtype), w.operand(other, dtype))

    return write


for _key, _kind in {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max",
                    "minimum": "Min"}.items():  # fmt: skip
    HANDLERS[_key] = _binary(_kind)
for _key, _kind in {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
                    "ge": "GreaterOrEqual"}.items():  # fmt: skip
    HANDLERS[_key] = _binary(_kind, common=False)


@handles("ne")
def _ne(w, node, input, other):
    return w.op("Not", HANDLERS["eq"](w, node, input, other))


@handles("logical_and", "bitwise_and", "logical_or", "bitwise_or")
def _logical(w, node, input, other):
    if dtype_of(node) is not rushlight.bool:
        raise OnnxExporterError("onnx.export: bits of integers")
    kind = "And" if node.target.key.endswith("and") else "Or"
    return w.op(kind, w.operand(input, rushlight.bool), w.operand(other, rushlight.bool))


@handles("pow", "pow.scalar")
def _pow(w, node, input=None, exponent=None, **rest):
    base = rest.get("self", input)
    dtype = dtype_of(node)
    return w.op("Pow", w.operand(base, dtype), w.operand(exponent, dtype))


@handles("rsub")
def _rsub(w, node, input, other, alpha=1):
    return HANDLERS["sub"](w, node, other, input, alpha=alpha)


@handles("floor_divide")
def _floor_divide(w, node, input, other):
    dtype = dtype_of(node)
    exact = w.op("Div", *(w.cast(w.operand(v, dtype), rushlight.float64) for v in (input, other)))
    return w.cast(w.op("Floor", exact), dtype)


@handles("where")
def _where(w, node, condition, input, other):
    dtype = dtype_of(node)
    return w.op("Where", condition, w.operand(input, dtype), w.operand(other, dtype))


@handles("masked_fill", "masked_fill.value", "masked_fill.tensor")
def _masked_fill(w, node, input, mask, value):
    return w.op("Where", mask, w.operand(value, dtype_of(node)), input)


# ---- products


@handles("matmul", "bmm", "mm")
def _matmul(w, node, input, other=None, mat2=None):
    return w.op("MatMul", input, mat2 if other is None else other)


@handles("linear", "linear.rectified")
def _linear(w, node, input, weight, bias=None, rectified=False):
    y = w.op("MatMul", input, w.op("Transpose", weight, perm=[1, 0]))
    y = y if bias is None else w.op("Add", y, bias)
    return w.op("Relu", y) if rectified else y


@handles("addmm")
def _addmm(w, node, input, mat1, mat2, beta=1, alpha=1):
    return w.op("Gemm", mat1, mat2, input, alpha=float(alpha), beta=float(beta))


@handles("conv1d", "conv2d", "conv3d", "conv1d.named", "conv2d.named", "conv3d.named")
def _conv(w, node, input, weight, bias, stride, padding, dilation, groups):
    n = weight.meta["val"].dim() - 2

    def listed(v):
        return [v] * n if isinstance(v, int) else list(v) if len(v) == n else list(v) * n

    options = {}
    if padding == "same":
        options["auto_pad"] = "SAME_UPPER"
    elif padding != "valid":
        options["pads"] = listed(padding) * 2
    return w.op("Conv", input, weight, bias, strides=listed(stride), dilations=listed(dilation),
                group=groups, **options)  # fmt: skip


@handles("scaled_dot_product_attention")
def _attention(w, node, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    if dropout_p or enable_gqa:
        raise OnnxExporterError("onnx.export: attention with dropout or grouped queries")
    dtype, dims = dtype_of(node), query.meta["val"].dim()
    perm = [*range(dims - 2), dims - 1, dims - 2]
    width = query.meta["val"].size(-1)
    scores = w.op("MatMul", query, w.op("Transpose", key, perm=perm))
    scores = w.op("Mul", scores, w.scalar(width**-0.5 if scale is None else scale, dtype))
    minus_infinity = w.scalar(float("-inf"), dtype)
    if is_causal:
        sizes = w.op("Slice", w.op("Shape", scores), [-2], [2**31], [0])
        one = w.op("ConstantOfShape", sizes, value=w.onnx.helper.make_tensor(
            "one", _code(rushlight.int64), [1], [1]))  # fmt: skip
        mask = w.cast(w.op("Trilu", one, upper=0), rushlight.bool)
        scores = w.op("Where", mask, scores, minus_infinity)
    if attn_mask is not None:
        if dtype_of(attn_mask) is rushlight.bool:
            scores = w.op("Where", attn_mask, scores, minus_infinity)
        else:
            scores = w.op("Add", scores, attn_mask)
    return w.op("MatMul", w.op("Softmax", scores, axis=-1), value)


# ---- norms, softmax, pooling


@handles("batch_norm")
def _batch_norm(w, node, input, running_mean, running_var, weight, bias, training, momentum, eps):
    if training:
        raise OnnxExporterError("onnx.export: batch norm of training; call eval() first")
    mean = running_mean.meta["val"]
    weight = rushlight.ones_like(mean) if weight is None else weight
    bias = rushlight.zeros_like(mean) if bias is None else bias
    return w.op("BatchNormalization", input, weight, bias, running_mean, running_var, epsilon=eps)


@handles("layer_norm")
def _layer_norm(w, node, input, normalized_shape, weight, bias, eps):
    if weight is None:
        weight = rushlight.ones(list(normalized_shape), dtype=dtype_of(node))
    return w.op("LayerNormalization", input, weight, bias, axis=-len(normalized_shape),
                epsilon=eps)  # fmt: skip


@handles("softmax", "log_softmax")
def _softmax(w, node, input, dim, dtype=None):
    kind = "Softmax" if node.target.key == "softmax" else "LogSoftmax"
    return w.op(kind, w.operand(input, dtype_of(node)), axis=dim)


@handles("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def _pool(w, node, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
          count_include_pad=True, divisor_override=None):  # fmt: skip
    if divisor_override is not None:
        raise OnnxExporterError("onnx.export: avg_pool with divisor_override")
    n = int(node.target.key[8])

    def listed(v):
        return [v] * n if isinstance(v, int) else list(v) * (1 if len(v) == n else n)

    kernel = listed(kernel_size)
    options = {"kernel_shape": kernel, "strides": listed(stride) if stride else kernel,
               "pads": listed(padding) * 2, "ceil_mode": int(ceil_mode)}  # fmt: skip
    if node.target.key.startswith("max"):
        return w.op("MaxPool", input, dilations=listed(dilation), **options)
    return w.op("AveragePool", input, count_include_pad=int(count_include_pad), **options)


@handles("adaptive_avg_pool_kernel")
def _adaptive_avg_pool(w, node, input, output_size):
    sizes = list(output_size)
    n = len(sizes)
    given = input.meta["val"].shape[-n:]
    if all(s == 1 for s in sizes):
        return w.op("GlobalAveragePool", input)
    if any(g % s for g, s in zip(given, sizes)):
        raise OnnxExporterError("onnx.export: adaptive pooling to sizes that do not divide")
    kernel = [g // s for g, s in zip(given, sizes)]
    return w.op("AveragePool", input, kernel_shape=kernel, strides=kernel)


# ---- shapes


@handles("view", "reshape")
def _reshape(w, node, input, shape=None, size=None):
    return w.op("Reshape", input, w.ints(size if shape is None else shape), allowzero=1)


@handles("flatten")
def _flatten(w, node, input, start_dim=0, end_dim=-1):
    dims = input.meta["val"].dim()
    start, end = start_dim % dims, end_dim % dims
    size = w.op("Shape", input)
    parts = [w.op("Slice", size, [0], [start], [0])] * (start > 0) + [[-1]]
    parts += [w.op("Slice", size, [end + 1], [dims], [0])] * (end + 1 < dims)
    return w.op("Reshape", input, w.op("Concat", *parts, axis=0))


@handles("permute")
def _permute(w, node, input, dims):
    n = len(dims)
    return w.op("Transpose", input, perm=[d % n for d in dims])


@handles("transpose", "t", "swapaxes", "swapdims", "adjoint")
def _transpose(w, node, input, dim0=0, dim1=1, **rest):
    perm = list(range(input.meta["val"].dim()))
    if node.target.key == "adjoint":
        dim0, dim1 = -2, -1
    if len(perm) > 1:
        perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return w.op("Transpose", input, perm=perm)


@handles("unsqueeze")
def _unsqueeze(w, node, input, dim):
    return w.op("Unsqueeze", input, [dim])


@handles("squeeze", "squeeze.dim")
def _squeeze(w, node, input, dim=None):
    value = input.meta["val"]
    dims = range(value.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [d for d in dims if value.shape[d] == 1]
    return w.op("Squeeze", input, list(dims)) if dims else w.op("Identity", input)


@handles("cat", "concat")
def _cat(w, node, tensors, dim):
    return w.op("Concat", *(w.operand(t, dtype_of(node)) for t in tensors), axis=dim)


@handles("stack")
def _stack(w, node, tensors, dim):
    parts = [w.op("Unsqueeze", w.operand(t, dtype_of(node)), [dim]) for t in tensors]
    return w.op("Concat", *parts, axis=dim)


@handles("slice")
def _slice(w, node, input, dim, start, end, step):
    start = 0 if start is None else start
    end = 2**62 if end is None else end
    return w.op("Slice", input, w.ints([start]), w.ints([end]), [dim], w.ints([step]))


@handles("narrow")
def _narrow(w, node, input, dim, start, length):
    end = w.op("Add", w.ints([start]), w.ints([length]))
    return w.op("Slice", input, w.ints([start]), end, [dim])


@handles("select")
def _select(w, node, input, dim, index):
    return w.op("Gather", input, w.scalar(index, rushlight.int64), axis=dim)


@handles("split", "split.sizes", "split_with_sizes", "chunk", "unbind")
def _split(w, node, input, dim=0, **rest):
    sizes = [part.shape[dim] if node.target.key != "unbind" else 1 for part in node.meta["val"]]
    at, parts = 0, []
    for size in sizes:
        part = w.op("Slice", input, [at], [at + size], [dim])
        if node.target.key == "unbind":
            part = w.op("Squeeze", part, [dim])
        parts.append(part)
        at += size
    return parts


@handles("expand", "broadcast_to")
def _expand(w, node, input, size, **rest):
    return w.op("Expand", input, w.ints([1 if type(n) is int and n == -1 else n for n in size]))


@handles("expand_as")
def _expand_as(w, node, input, other):
    return w.op("Expand", input, w.op("Shape", other))


@handles("tril", "triu")
def _triangle(w, node, input, diagonal=0):
    return w.op("Trilu", input, w.scalar(diagonal, rushlight.int64),
                upper=int(node.target.key == "triu"))  # fmt: skip


@handles("functional_embedding")
def _embedding(w, node, input, weight, **rest):
    return w.op("Gather", weight, input, axis=0)


@handles("index_select")
def _index_select(w, node, input, dim, index):
    return w.op("Gather", input, index, axis=dim)


@handles("index")
def _index(w, node, input, indices):
    given = [i for i, t in enumerate(indices) if t is not None]
    if len(given) != 1 or dtype_of(indices[given[0]]) is rushlight.bool:
        raise OnnxExporterError("onnx.export: an index of masks or of several tensors")
    return w.op("Gather", input, indices[given[0]], axis=given[0])


@handles("gather")
def _gather(w, node, input, dim, index, **rest):
    return w.op("GatherElements", input, index, axis=dim)


@handles("pad")
def _pad(w, node, input, pad, mode="constant", value=None):
    if mode not in ("constant", "reflect"):
        raise OnnxExporterError(f"onnx.export: pad of mode {mode}")
    n, pairs = input.meta["val"].dim(), len(pad) // 2
    begin = [0] * (n - pairs) + [pad[2 * i] for i in reversed(range(pairs))]
    end = [0] * (n - pairs) + [pad[2 * i + 1] for i in reversed(range(pairs))]
    fill = w.scalar(0 if value is None else value, dtype_of(node)) if mode == "constant" else None
    return w.op("Pad", input, w.ints(begin + end), fill, mode=mode)


# ---- reductions


def _reduction(kind):
    def write(w, node, input, dim=None, keepdim=False, dtype=None, **rest):
        dims = [dim] if isinstance(dim, int) else dim
        axes = None if not dims else w.ints(dims)
        return w.op(kind, w.operand(input, dtype_of(node)), axes, keepdims=int(keepdim))

    return write


for _key, _kind in {"sum": "Sum", "sum.dim": "Sum", "mean": "Mean", "mean.dim": "Mean",
                    "prod": "Prod"}.items():  # fmt: skip
    HANDLERS[_key] = _reduction(f"Reduce{_kind}")


@handles("amax", "amin")
def _extreme(w, node, input, dim, keepdim):
    dims = [dim] if isinstance(dim, int) else dim
    kind = "ReduceMax" if node.target.key == "amax" else "ReduceMin"
    if w.opset < 18:
        raise OnnxExporterError("onnx.export: amax needs opset 18")
    return w.op(kind, input, w.ints(dims) if dims else None, keepdims=int(keepdim))


@handles("argmax", "argmin")
def _arg_extreme(w, node, input, dim=None, keepdim=False):
    kind = "ArgMax" if node.target.key == "argmax" else "ArgMin"
    if dim is None:
        input, dim, keepdim = w.op("Reshape", input, [-1]), 0, False
    return w.op(kind, input, axis=dim, keepdims=int(keepdim))


@handles("cumsum")
def _cumsum(w, node, input, dim, dtype=None):
    return w.op("CumSum", w.operand(input, dtype_of(node)), w.scalar(dim, rushlight.int64))


@handles("topk")
def _topk(w, node, input, k, dim=-1, largest=True, sorted=True):
    return w.op("TopK", input, w.ints([k]), outputs=2, axis=dim, largest=int(largest),
                sorted=int(sorted))  # fmt: skip


# ---- new tensors, and dtypes


def _of_shape(w, node, size, fill):
    dtype = node.meta["val"].dtype
    return (
        w.op("Expand", w.scalar(fill, dtype), w.ints(size)) if len(size) else w.scalar(fill, dtype)
    )


@handles("zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "empty")
def _filled(w, node, size, fill_value=None, **rest):
    if fill_value is None:
        fill_value = 1 if "ones" in node.target.key else 0
    return _of_shape(w, node, size, fill_value)


@handles("zeros_like", "ones_like", "full_like")
def _filled_like(w, node, input, fill_value=None, **rest):
    if fill_value is None:
        fill_value = 1 if "ones" in node.target.key else 0
    return w.op("Expand", w.scalar(fill_value, node.meta["val"].dtype), w.op("Shape", input))


@handles("arange", "arange.start")
def _arange(w, node, end, start=0, step=1, **rest):
    dtype = node.meta["val"].dtype
    return w.op("Range", *(w.scalar(v, dtype) for v in (start, end, step)))


@handles("to", "to.device", "to.other", "type_as", *(
    f"cast_{n}" for n in ("float", "double", "half", "int", "long", "bool")))  # fmt: skip
def _to(w, node, input, **rest):
    return (
        w.cast(input, dtype_of(node))
        if dtype_of(input) is not dtype_of(node)
        else w.op("Identity", input)
    )


# ---- numbers


def _getitem(w, node, source, index):
    made = w.names[source]
    return made[index]


def _size(w, node, x, dim):
    return w.op("Gather", w.op("Shape", x), w.scalar(dim, rushlight.int64), axis=0)


def _of_numbers(kind):
    def write(w, node, *operands):
        dtype = rushlight.float64 if isinstance(node.meta["val"], float) else rushlight.int64
        if kind in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
            dtype = rushlight.float64
        return w.op(kind, *(w.operand(v, dtype) for v in operands))

    return write


def _assertion(w, node, holds, message):
    return ""  # ONNX has none: what the program assumes is in its shapes


_PRIMITIVES = {
    operator.getitem: _getitem, operator.add: _of_numbers("Add"), operator.sub: _of_numbers("Sub"),
    operator.mul: _of_numbers("Mul"), operator.neg: _of_numbers("Neg"),
    operator.truediv: _of_numbers("Div"), operator.floordiv: _of_numbers("Div"),
    operator.le: _of_numbers("LessOrEqual"), operator.lt: _of_numbers("Less"),
    operator.ge: _of_numbers("GreaterOrEqual"), operator.gt: _of_numbers("Greater"),
    operator.eq: _of_numbers("Equal"), operator.ne: lambda w, node, a, b: w.op(
        "Not", _of_numbers("Equal")(w, node, a, b)),
    _record.sym_size(): _size, _record.assertion(): _assertion,
    _record.literal(): lambda w, node, data: w.initializer(node.meta["val"]),
    _record.item(): lambda w, node, x: w.op("Reshape", x, w.initializer(
        rushlight.zeros(0, dtype=rushlight.int64))),
}  # fmt: skip


def to_model(program: Any, input_names: Any, output_names: Any, opset: Any) -> Any:
    """The ModelProto of a program."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise OnnxExporterError(
            "onnx.export: needs the library onnx: pip install rushlight[onnx]"
        ) from None
    if opset < OPSET:
        raise OnnxExporterError(f"onnx.export: writes opset {OPSET} and later, not {opset}")
    return Writer(passes.copied(program), opset).write(input_names, output_names)
