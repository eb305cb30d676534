"""ONNX models as modules: each operator by the operations that it is made of."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.nn import Module, Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

F = rushlight.nn.functional


class OnnxModule(Module):
    """A module that runs an ONNX graph; its floating-point initializers are parameters.

    It takes the inputs in the order of the graph, and returns its output, or a tuple of them.
    """

    def __init__(self, model: Module) -> None:
        super().__init__()
        from onnx import helper, numpy_helper

        graph = model.graph
        self.input_names, self.output_names = [], [o.name for o in graph.output]
        self._places = {}  # name in the graph -> name of the parameter or buffer
        for i, initializer in enumerate(graph.initializer):
            value = rushlight.from_numpy(numpy_helper.to_array(initializer).copy())
            name = f"{initializer.name.replace('.', '_')}_{i}"
            if value.is_floating_point():
                self.register_parameter(name, Parameter(value))
            else:
                self.register_buffer(name, value)
            self._places[initializer.name] = name
        self.input_names = [i.name for i in graph.input if i.name not in self._places]
        self._steps = []
        for node in graph.node:
            if node.domain not in ("", "ai.onnx"):
                raise NotImplementedError(f"onnx.load: the operator {node.domain}::{node.op_type}")
            function = _OPERATORS.get(node.op_type)
            if function is None:
                raise NotImplementedError(
                    f"onnx.load: the operator {node.op_type} is not supported"
                )
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            self._steps.append((function, list(node.input), list(node.output), attributes))

    def forward(self, *inputs: Any) -> Any:
        if len(inputs) != len(self.input_names):
            raise TypeError(
                f"OnnxModule: expected {len(self.input_names)} inputs {self.input_names}, got "
                f"{len(inputs)}"
            )
        values = dict(zip(self.input_names, inputs))
        values.update((name, getattr(self, place)) for name, place in self._places.items())
        for function, names, outputs, attributes in self._steps:
            result = function([values[n] if n else None for n in names], attributes)
            values.update(zip(outputs, result if isinstance(result, (tuple, list)) else (result,)))
        found = tuple(values[name] for name in self.output_names)
        return found[0] if len(found) == 1 else found


def load(f: Any) -> Any:
    """Read an ONNX model as a module.

    Args:
        f: path, or a ModelProto.

    Raises:
        NotImplementedError: an operator is not supported, by name.
    """
    import onnx

    model = f if isinstance(f, onnx.ModelProto) else onnx.load(f)
    onnx.checker.check_model(model)
    return OnnxModule(model)


def _ints(t):
    return [int(v) for v in t.reshape(-1).tolist()]


def _dtype(code):
    from rushlight.onnx._export import _DTYPES

    name = next((n for n, c in _DTYPES.items() if c == code), None)
    if name is None:
        raise NotImplementedError(f"onnx.load: the data type {code}")
    return getattr(rushlight, name)


def _plain(function):
    return lambda x, a: function(*x)


def _pads(x, attributes, n):
    """(x, padding that both sides have): uneven padding is done first."""
    auto = attributes.get("auto_pad", b"NOTSET")
    if auto not in (b"NOTSET", b"VALID"):
        raise NotImplementedError(f"onnx.load: auto_pad {auto.decode()}")
    pads = list(attributes.get("pads", [0] * (2 * n)))
    if pads[:n] == pads[n:]:
        return x, pads[:n]
    return F.pad(x, [p for d in reversed(range(n)) for p in (pads[d], pads[n + d])]), [0] * n


def _conv(x, a):
    x, weight, *bias = x
    n = weight.dim() - 2
    x, padding = _pads(x, a, n)
    function = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    return function(x, weight, *bias, stride=a.get("strides", [1] * n), padding=padding,
                    dilation=a.get("dilations", [1] * n), groups=a.get("group", 1))  # fmt: skip


def _max_pool(x, a):
    (x,) = x
    kernel = a["kernel_shape"]
    n = len(kernel)
    pads = a.get("pads", [0] * (2 * n))
    if pads[:n] != pads[n:]:
        raise NotImplementedError("onnx.load: MaxPool with uneven padding")
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    return function(x, kernel, a.get("strides", [1] * n), pads[:n], a.get("dilations", [1] * n),
                    bool(a.get("ceil_mode", 0)))  # fmt: skip


def _average_pool(x, a):
    (x,) = x
    kernel = a["kernel_shape"]
    n = len(kernel)
    pads = a.get("pads", [0] * (2 * n))
    if pads[:n] != pads[n:]:
        raise NotImplementedError("onnx.load: AveragePool with uneven padding")
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    return function(x, kernel, a.get("strides", [1] * n), pads[:n], bool(a.get("ceil_mode", 0)),
                    bool(a.get("count_include_pad", 0)))  # fmt: skip


def _global_average_pool(x, a):
    return x[0].mean(list(range(2, x[0].dim())), keepdim=True)


def _batch_norm(x, a):
    if a.get("training_mode", 0):
        raise NotImplementedError("onnx.load: BatchNormalization of training")
    x, weight, bias, mean, variance = x
    return F.batch_norm(x, mean, variance, weight, bias, eps=a.get("epsilon", 1e-5))


def _layer_norm(x, a):
    x, weight, *bias = x
    shape = x.shape[a.get("axis", -1) :] if a.get("axis", -1) < 0 else x.shape[a["axis"] :]
    return F.layer_norm(x, shape, weight, *bias, eps=a.get("epsilon", 1e-5))


def _gemm(x, a):
    x, y, *c = x
    x = x.t() if a.get("transA") else x
    y = y.t() if a.get("transB") else y
    out = (x @ y) * a.get("alpha", 1.0)
    return out + c[0] * a.get("beta", 1.0) if c else out


def _reshape(x, a):
    x, shape = x
    shape = _ints(shape)
    if not a.get("allowzero", 0):
        shape = [x.size(i) if n == 0 else n for i, n in enumerate(shape)]
    return x.reshape(shape)


def _slice(x, a):
    x, starts, ends, *rest = x
    starts, ends = _ints(starts), _ints(ends)
    dims = _ints(rest[0]) if rest and rest[0] is not None else list(range(len(starts)))
    steps = _ints(rest[1]) if len(rest) > 1 else [1] * len(starts)
    for d, start, end, step in zip(dims, starts, ends, steps):
        if step < 0:
            raise NotImplementedError("onnx.load: Slice with a negative step")
        x = x[(*(slice(None),) * (d % x.dim()), slice(start, end, step))]
    return x


def _gather(x, a):
    x, index = x
    axis = a.get("axis", 0) % x.dim()
    index = rushlight.where(index < 0, index + x.size(axis), index)
    flat = x.index_select(axis, index.reshape(-1))
    return flat.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


def _axes(x, a):
    if len(x) > 1 and x[1] is not None:
        return _ints(x[1])
    return a.get("axes")


def _squeeze(x, a):
    axes = _axes(x, a)
    return x[0].squeeze() if axes is None else x[0].squeeze(tuple(axes))


def _unsqueeze(x, a):
    axes, x = _axes(x, a), x[0]
    for axis in sorted(d % (x.dim() + len(axes)) for d in axes):
        x = x.unsqueeze(axis)
    return x


def _expand(x, a):
    x, shape = x
    return x.expand(rushlight.broadcast_shapes(x.shape, tuple(_ints(shape))))


def _reduction(function):
    def reduce(x, a):
        axes = _axes(x, a)
        if axes is None:
            if len(x) > 1 and a.get("noop_with_empty_axes"):
                return x[0]
            axes = list(range(x[0].dim()))
        return function(x[0], axes, bool(a.get("keepdims", 1)))

    return reduce


def _prod(x, dims, keepdim):
    for d in sorted((d % x.dim() for d in dims), reverse=True):
        x = x.prod(d, keepdim=keepdim)
    return x


def _pad(x, a):
    x, pads, *rest = x
    pads, n = _ints(pads), x.dim()
    value = rest[0].item() if rest and rest[0] is not None else 0
    listed = [p for d in reversed(range(n)) for p in (pads[d], pads[n + d])]
    mode = a.get("mode", b"constant").decode()
    if mode == "constant":
        return F.pad(x, listed, value=value)
    while len(listed) > 2 and listed[-2:] == [0, 0]:
        listed = listed[:-2]
    return F.pad(x, listed, mode=mode)


def _clip(x, a):
    x, *limits = x
    low, high = (*limits, None, None)[:2]
    x = x if low is None else rushlight.maximum(x, low)
    return x if high is None else rushlight.minimum(x, high)


def _cast(x, a):
    return x[0].to(_dtype(a["to"]))


def _constant_of_shape(x, a):
    from onnx import numpy_helper

    value = rushlight.zeros(1)
    if "value" in a:
        value = rushlight.from_numpy(numpy_helper.to_array(a["value"]).copy())
    return value.reshape(()).expand(_ints(x[0])).clone()


def _constant(x, a):
    from onnx import numpy_helper

    if "value" in a:
        return rushlight.from_numpy(numpy_helper.to_array(a["value"]).copy())
    for name in ("value_int", "value_ints", "value_float", "value_floats"):
        if name in a:
            return rushlight.tensor(a[name])
    raise NotImplementedError(f"onnx.load: Constant with {', '.join(a)}")


def _div(x, a):
    if x[0].is_floating_point():
        return x[0] / x[1]
    return rushlight.div(x[0], x[1], rounding_mode="trunc")


def _split(x, a):
    x, *sizes = x
    axis = a.get("axis", 0)
    if sizes:
        return x.split(_ints(sizes[0]), axis)
    return x.split(-(-x.size(axis) // a["num_outputs"]), axis)


def _topk(x, a):
    return tuple(x[0].topk(_ints(x[1])[0], a.get("axis", -1), bool(a.get("largest", 1)),
                           bool(a.get("sorted", 1))))  # fmt: skip


def _arg(function):
    return lambda x, a: function(x[0], a.get("axis", 0), bool(a.get("keepdims", 1)))


def _trilu(x, a):
    k = _ints(x[1])[0] if len(x) > 1 else 0
    return x[0].triu(k) if a.get("upper", 1) else x[0].tril(k)


def _gelu(x, a):
    return F.gelu(x[0], approximate=a.get("approximate", b"none").decode())


def _each(function):
    """Of any number of operands, two by two."""

    def reduce(x, a):
        result = x[0]
        for more in x[1:]:
            result = function(result, more)
        return result

    return reduce


def _range(x, a):
    start, limit, step = x
    return rushlight.arange(start.item(), limit.item(), step.item(), dtype=start.dtype)


_OPERATORS = {
    **{name: _plain(function) for name, function in {
        "Abs": rushlight.abs, "Acos": rushlight.acos, "Acosh": rushlight.acosh,
        "Add": Tensor.add, "And": rushlight.logical_and, "Asin": rushlight.asin,
        "Asinh": rushlight.asinh, "Atan": rushlight.atan, "Atanh": rushlight.atanh,
        "Ceil": rushlight.ceil, "Cos": rushlight.cos, "Cosh": rushlight.cosh,
        "Equal": rushlight.eq, "Erf": rushlight.erf, "Exp": rushlight.exp,
        "Floor": rushlight.floor, "Greater": rushlight.gt, "GreaterOrEqual": rushlight.ge,
        "HardSwish": F.hardswish, "Identity": lambda x: x, "Less": rushlight.lt,
        "LessOrEqual": rushlight.le, "Log": rushlight.log, "MatMul": rushlight.matmul,
        "Mish": F.mish, "Mul": Tensor.mul, "Neg": rushlight.neg, "Not": rushlight.logical_not,
        "Or": rushlight.logical_or, "Pow": rushlight.pow, "Reciprocal": rushlight.reciprocal,
        "Relu": rushlight.relu, "Round": rushlight.round, "Sigmoid": rushlight.sigmoid,
        "Sign": rushlight.sign, "Sin": rushlight.sin, "Sinh": rushlight.sinh,
        "Softplus": F.softplus, "Sqrt": rushlight.sqrt, "Sub": Tensor.sub, "Tan": rushlight.tan,
        "Tanh": rushlight.tanh, "Where": rushlight.where,
    }.items()},
    "ArgMax": _arg(rushlight.argmax), "ArgMin": _arg(rushlight.argmin),
    "AveragePool": _average_pool, "BatchNormalization": _batch_norm, "Cast": _cast, "Clip": _clip,
    "Concat": lambda x, a: rushlight.cat(x, a["axis"]), "Constant": _constant,
    "ConstantOfShape": _constant_of_shape, "Conv": _conv,
    "CumSum": lambda x, a: x[0].cumsum(_ints(x[1])[0]), "Div": _div,
    "Elu": lambda x, a: F.elu(x[0], a.get("alpha", 1.0)), "Expand": _expand,
    "Flatten": lambda x, a: x[0].flatten(1) if a.get("axis", 1) == 1 else _not("Flatten"),
    "Gather": _gather,
    "GatherElements": lambda x, a: x[0].gather(a.get("axis", 0), x[1]), "Gelu": _gelu,
    "Gemm": _gemm, "GlobalAveragePool": _global_average_pool,
    "HardSigmoid": lambda x, a: (x[0] * a.get("alpha", 0.2) + a.get("beta", 0.5)).clamp(0, 1),
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda x, a: F.leaky_relu(x[0], a.get("alpha", 0.01)),
    "LogSoftmax": lambda x, a: F.log_softmax(x[0], a.get("axis", -1)),
    "Max": _each(rushlight.maximum),
    "MaxPool": _max_pool, "Min": _each(rushlight.minimum), "Pad": _pad, "Range": _range,
    "ReduceMax": _reduction(Tensor.amax), "ReduceMean": _reduction(Tensor.mean),
    "ReduceMin": _reduction(Tensor.amin), "ReduceProd": _reduction(_prod),
    "ReduceSum": _reduction(Tensor.sum), "Reshape": _reshape,
    "Selu": lambda x, a: F.selu(x[0]), "Shape": lambda x, a: rushlight.tensor(list(x[0].shape)),
    "Slice": _slice, "Softmax": lambda x, a: F.softmax(x[0], a.get("axis", -1)), "Split": _split,
    "Squeeze": _squeeze, "TopK": _topk,
    "Transpose": lambda x, a: x[0].permute(a.get("perm", list(range(x[0].dim()))[::-1])),
    "Trilu": _trilu, "Unsqueeze": _unsqueeze,
}  # fmt: skip


def _not(name):
    raise NotImplementedError(f"onnx.load: {name} along another axis than 1")
