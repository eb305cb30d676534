"""Quantized kernels in place of float32 ones between `dequantize` and `quantize_per_tensor`."""

from __future__ import annotations

import operator

import rushlight
from rushlight import nn
from rushlight._quantized import _arithmetic
from rushlight.ao.nn import intrinsic as _intrinsic, quantized as _quantized
from rushlight.ao.nn.intrinsic import quantized as _fused
from rushlight.ao.nn.intrinsic.quantized import dynamic as _fused_dynamic
from rushlight.ao.nn.quantized import dynamic as _dynamic, reference as _reference
from rushlight.ao.quantization.fx._fusion import set_submodule
from rushlight.fx.node import Node
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.graph_module import GraphModule

DYNAMIC_RECURRENT = ("GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU")
_DIMS = ("1d", "2d", "3d")
_WEIGHTED = {_reference.Linear: _quantized.Linear}
for _dim in _DIMS:
    for _kind in ("Conv", "ConvTranspose"):
        _WEIGHTED[getattr(_reference, _kind + _dim)] = getattr(_quantized, _kind + _dim)
_FUSED = {
    _intrinsic.LinearReLU: _fused.LinearReLU, _intrinsic.LinearTanh: _fused.LinearTanh,
    _intrinsic.LinearLeakyReLU: _fused.LinearLeakyReLU,
    **{getattr(_intrinsic, f"ConvReLU{d}"): getattr(_fused, f"ConvReLU{d}") for d in _DIMS},
}  # fmt: skip
_UNWEIGHTED = {
    getattr(nn, name): getattr(_quantized, name)
    for name in ("BatchNorm2d", "BatchNorm3d", "LayerNorm", "Dropout", "ELU", "Softmax",
                 "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LeakyReLU", "Hardswish",
                 "PReLU")
}  # fmt: skip
_UNWEIGHTED |= {getattr(_intrinsic, f"BNReLU{d}"): getattr(_fused, f"BNReLU{d}") for d in _DIMS[1:]}
# What takes quantized tensors as it takes others, with the input's steps or those of its own.
_SAME_MODULES = (
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d,
    nn.AvgPool3d, nn.Hardtanh, nn.Identity, nn.MaxPool1d, nn.MaxPool2d, nn.ReLU, nn.ReLU6,
    nn.Sigmoid, nn.Hardsigmoid, nn.Tanh,
)  # fmt: skip
_SAME_FUNCTIONS = (
    rushlight.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.hardtanh,
    F.interpolate, F.max_pool1d, F.max_pool2d, F.relu, F.relu6, rushlight.avg_pool1d, F.avg_pool2d,
    F.avg_pool3d, rushlight.clamp, rushlight.flatten, rushlight.mean, rushlight.narrow,
    rushlight.transpose, rushlight.squeeze, rushlight.stack, rushlight.unsqueeze, rushlight.cat,
    rushlight.sigmoid, rushlight.tanh, F.hardsigmoid, F.sigmoid, F.tanh,
)  # fmt: skip
_SAME_METHODS = (
    "contiguous", "clamp", "detach", "mean", "permute", "repeat", "reshape", "relu", "squeeze",
    "transpose", "unsqueeze", "view", "sigmoid", "tanh",
)  # fmt: skip
# Function -> the quantized one of its arguments, a scale and a zero point.
_OWN_STEPS = {
    F.elu: _arithmetic.elu, F.hardswish: _arithmetic.hardswish,
    F.leaky_relu: _arithmetic.leaky_relu, F.layer_norm: _arithmetic.layer_norm,
    F.instance_norm: _arithmetic.instance_norm, F.group_norm: _arithmetic.group_norm,
    F.dropout: _arithmetic.dropout, rushlight.matmul: _arithmetic.matmul,
}  # fmt: skip
_BINARY = {
    operator.add: "add", rushlight.add: "add", operator.mul: "mul", rushlight.mul: "mul",
}  # fmt: skip
_MULTIPLYING = {F.linear: "linear"}
for _dim in _DIMS:
    _MULTIPLYING[getattr(F, f"conv{_dim}")] = f"conv{_dim}"
    _MULTIPLYING[getattr(F, f"conv_transpose{_dim}")] = f"conv_transpose{_dim}"
_RELUS = (F.relu, rushlight.relu)


def _is_dequantize(node: Any) -> bool:
    return isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize"


class Lowering:
    """Rewrites a graph in float32 between steps to one of quantized tensors, in place."""

    def __init__(self, model: GraphModule, qconfigs: dict[str, Any]) -> None:
        self.model, self.graph = model, model.graph
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.qconfigs = qconfigs

    def run(self) -> None:
        """Lower what has a quantized kernel; the rest stays as it is."""
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node.target is rushlight.quantize_per_tensor:
                self._lower(node)
        for node in list(self.graph.nodes):
            if node.op == "call_module":
                self._lower_alone(node)
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node.target in _MULTIPLYING:
                self._lower_dynamic_function(node)
        for node in list(self.graph.nodes):
            if node.op == "get_attr":
                self._fold(node)
        for node in list(self.graph.nodes):
            if node.op == "call_method" and node.target == "size" and _is_dequantize(node.args[0]):
                node.replace_input_with(node.args[0], node.args[0].args[0])

    def _value(self, node):
        value = self.model
        for part in node.target.split("."):
            value = getattr(value, part)
        return value.item()

    def _quantized_inputs(self, node, places=None):
        """The quantized tensors of a node's arguments, or None where one is in float32."""
        args = node.args if places is None else [node.args[place] for place in places]
        parts = [p for arg in args for p in (arg if isinstance(arg, (list, tuple)) else [arg])]
        tensors = [part for part in parts if isinstance(part, Node)]
        if not tensors or not all(map(_is_dequantize, tensors)):
            return None
        return {tensor: tensor.args[0] for tensor in tensors}

    def _finish(self, last, quantize, new):
        quantize.replace_all_uses_with(new)
        self.graph.erase_node(quantize)
        if last is not new:
            last.replace_all_uses_with(new)
            self.graph.erase_node(last)

    # -- what stands between dequantize and quantize_per_tensor ----------------------------------

    def _lower(self, quantize):
        last, scale, zero = quantize.args[0], quantize.args[1], quantize.args[2]
        if not isinstance(last, Node) or self._is_used_as_float(last, quantize):
            return
        if self.qconfigs.get(last.name, True) is None:  # to be computed in float32
            return
        steps = (self._value(scale), self._value(zero))
        if last.op == "call_module" and self._lower_module(last, quantize, steps):
            return
        root, relu = last, False
        if self._is_relu(last) and isinstance(last.args[0], Node):
            inner = last.args[0]
            if inner.op == "call_function" and len(inner.users) == 1 and (
                inner.target in _BINARY or inner.target in _MULTIPLYING
            ):  # fmt: skip
                root, relu = inner, True
        if self.qconfigs.get(root.name, True) is None:
            return
        if root.op == "call_function" and root.target in _MULTIPLYING:
            self._lower_product(root, last, quantize, relu)
        elif root.op == "call_function" and root.target in _BINARY:
            self._lower_binary(root, last, quantize, relu)
        elif root.op == "call_function" and root.target in _OWN_STEPS:
            self._lower_own_steps(root, quantize)
        elif self._is_same(root):
            self._lower_same(root, quantize)

    def _is_used_as_float(self, node, quantize):
        """Does anything but sizes need the result before it is quantized?"""
        return any(
            user is not quantize
            and not (user.op == "call_method" and user.target in ("size", "dim"))
            and not (user.target is getattr and user.args[1] in ("shape", "ndim"))
            for user in node.users
        )

    def _is_relu(self, node):
        if node.op == "call_module":
            return type(self.modules[node.target]) is nn.ReLU
        return node.op == "call_function" and node.target in _RELUS

    def _is_same(self, node):
        if node.op == "call_module":
            return type(self.modules[node.target]) in _SAME_MODULES
        if node.op == "call_function":
            return node.target in _SAME_FUNCTIONS
        return node.op == "call_method" and node.target in _SAME_METHODS

    def _lower_module(self, node, quantize, steps):
        module, inputs = self.modules[node.target], self._quantized_inputs(node)
        kind, inner = type(module), module
        if kind in _FUSED:
            inner, target = module[0], _FUSED[kind]
            if type(inner) not in _WEIGHTED:
                return False
        else:
            target = _WEIGHTED.get(kind) or _UNWEIGHTED.get(kind)
        if target is None or inputs is None:
            return False
        if kind is nn.PReLU and getattr(module, "qconfig", None) is None:
            return False
        source = module if target is _fused.LinearLeakyReLU else inner
        source = module[0] if kind in _UNWEIGHTED and "BNReLU" in kind.__name__ else source
        self._replace(node, target.from_reference(source, *steps))
        for dequantized, quantized in inputs.items():
            node.replace_input_with(dequantized, quantized)
        self._finish(node, quantize, node)
        return True

    def _replace(self, node, module):
        set_submodule(self.model, node.target, module)
        self.modules[node.target] = module

    def _lower_same(self, node, quantize):
        inputs = self._quantized_inputs(node, places=[0])
        if inputs is None:
            return
        for dequantized, quantized in inputs.items():
            node.replace_input_with(dequantized, quantized)
        self._finish(node, quantize, node)

    def _lower_own_steps(self, node, quantize):
        inputs = self._quantized_inputs(node, [0, 1] if node.target is rushlight.matmul else [0])
        if inputs is None:
            return
        args = tuple(inputs.get(arg, arg) if isinstance(arg, Node) else arg for arg in node.args)
        with self.graph.inserting_before(quantize):
            steps = {"output_scale": quantize.args[1], "output_zero_point": quantize.args[2]}
            new = self.graph.call_function(_OWN_STEPS[node.target], args, {**node.kwargs, **steps})
        self._finish(node, quantize, new)

    def _lower_binary(self, root, last, quantize, relu):
        inputs = self._quantized_inputs(root)
        if inputs is None or len(root.args) != 2 or root.kwargs:
            return
        name = _BINARY[root.target] + ("_relu" if relu else "")
        args = [inputs.get(arg, arg) if isinstance(arg, Node) else arg for arg in root.args]
        if sum(isinstance(arg, Node) for arg in args) == 1:
            if not isinstance(args[0], Node):
                args.reverse()
        else:
            args += quantize.args[1:3]
        with self.graph.inserting_before(quantize):
            new = self.graph.call_function(getattr(_arithmetic, name), tuple(args))
        self._finish(last, quantize, new)
        if last is not root:
            self.graph.erase_node(root)

    def _lower_product(self, root, last, quantize, relu):
        """A function of a quantized tensor, a quantized constant weight and a bias."""
        inputs = self._quantized_inputs(root, places=[0])
        arguments = self._arguments(root)
        if inputs is None or arguments is None:
            return
        (quantized,) = inputs.values()
        weight, options = arguments
        name = _MULTIPLYING[root.target] + ("_relu" if relu else "")
        with self.graph.inserting_before(quantize):
            new = self.graph.call_function(
                getattr(_arithmetic, name), (quantized, weight, *quantize.args[1:3]), options
            )
        self._finish(last, quantize, new)
        if last is not root:
            self.graph.erase_node(root)

    def _arguments(self, root):
        """The quantized weight of a product, and its other arguments by name."""
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        if "transpose" in _MULTIPLYING[root.target]:
            names = (*names[:5], "output_padding", "groups", "dilation")
        given = {**dict(zip(names, root.args)), **root.kwargs}
        weight = given.pop("weight", None)
        if not _is_dequantize(weight) or not _is_constant(weight.args[0]):
            return None
        given.pop("input", None)
        return weight.args[0], given

    # -- layers with weights that stand alone ----------------------------------------------------

    def _lower_alone(self, node):
        module = self.modules[node.target]
        kind = type(module)
        if kind is _reference.Embedding or kind is _reference.EmbeddingBag:
            self._replace(node, _quantized_embedding(module))
            return
        inner = module[0] if kind is _intrinsic.LinearReLU else module
        if type(inner) is not _reference.Linear:
            return
        source = node.args[0]
        dynamic = _is_dequantize(source) and (
            source.args[0].target is rushlight.quantize_per_tensor_dynamic
        )
        if inner.weight_dtype is rushlight.float16 or dynamic:
            home = _fused_dynamic.LinearReLU if inner is not module else _dynamic.Linear
            self._replace(node, home.from_reference(inner))
            if dynamic:
                node.replace_input_with(source, source.args[0].args[0])

    def _lower_dynamic_function(self, node):
        source, arguments = node.args[0], self._arguments(node)
        if arguments is None or _MULTIPLYING[node.target] != "linear":
            return
        if not _is_dequantize(source) or (
            source.args[0].target is not rushlight.quantize_per_tensor_dynamic
        ):
            return
        weight, options = arguments
        with self.graph.inserting_before(node):
            new = self.graph.call_function(
                _arithmetic.linear_dynamic, (source.args[0].args[0], weight), options
            )
        node.replace_all_uses_with(new)
        self.graph.erase_node(node)

    # -- constant weights ------------------------------------------------------------------------

    def _fold(self, node):
        """Compute a quantized constant weight once."""
        for user in list(node.users):
            if user.target not in (rushlight.quantize_per_channel, rushlight.quantize_per_tensor):
                continue
            if user.args[0] is not node or not _is_constant(user):
                continue
            args = [
                self.model.get_parameter(a.target) if i == 0 and self._is_parameter(a)
                else self._tensor(a) if isinstance(a, Node) else a
                for i, a in enumerate(user.args)
            ]  # fmt: skip
            count = 0
            while hasattr(self.model, f"_packed_weight_{count}"):
                count += 1
            name = f"_packed_weight_{count}"
            self.model.register_buffer(name, user.target(args[0].detach(), *args[1:]))
            with self.graph.inserting_before(user):
                new = self.graph.get_attr(name)
            user.replace_all_uses_with(new)
            self.graph.erase_node(user)

    def _is_parameter(self, node):
        return isinstance(self._tensor(node), nn.Parameter)

    def _tensor(self, node):
        value = self.model
        for part in node.target.split("."):
            value = getattr(value, part)
        return value


def _is_constant(node: Any) -> bool:
    """Is a quantized tensor made of attributes alone?"""
    return isinstance(node, Node) and all(arg.op == "get_attr" for arg in node.all_input_nodes)


def _quantized_embedding(module):
    kind = getattr(_quantized, type(module).__name__)
    options = {}
    if type(module) is _reference.EmbeddingBag:
        options = {"mode": module.mode, "include_last_offset": module.include_last_offset}
    layer = kind(module.num_embeddings, module.embedding_dim, **options, dtype=module.weight_dtype)
    layer.set_weight(module.get_quantized_weight())
    return layer
