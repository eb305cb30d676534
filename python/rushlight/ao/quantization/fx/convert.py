"""Quantized graphs of observed ones: `convert` of what `prepare` made."""

from __future__ import annotations

import rushlight
from rushlight._absent_dtypes import qint8, qint32, quint8
from rushlight.ao.nn.intrinsic import _FusedModule
from rushlight.ao.nn.quantized import dynamic as _dynamic
from rushlight.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from rushlight.ao.quantization.backend_config.utils import (
    get_root_module_to_quantized_reference_module,
)
from rushlight.ao.quantization.fx import _fusion, _lowering, _refusal
from rushlight.ao.quantization.fx.custom_config import ConvertCustomConfig, _as_config
from rushlight.ao.quantization.fx.graph_module import QuantizedGraphModule
from rushlight.ao.quantization.observer import _is_activation_post_process
from rushlight.ao.quantization.qconfig import qconfig_equals
from rushlight.ao.quantization.qconfig_mapping import QConfigMapping
from rushlight.ao.quantization.quant_type import QuantType
from rushlight.ao.quantization.utils import get_qparam_dict, is_per_channel
from rushlight.fx.node import Node
from rushlight.nn.utils import parametrize as _parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.graph_module import GraphModule

_QUANTIZED = (quint8, qint8, qint32)


class _Converter:
    """Replaces observers by quantization, and layers with weights by quantized ones."""

    def __init__(self, model, attributes, backend, custom, is_reference):
        self.model, self.attributes, self.backend = model, attributes, backend
        self.is_reference = is_reference
        self.graph = model.graph
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.qconfigs, self.scopes = attributes.node_name_to_qconfig, attributes.node_name_to_scope
        self.custom = custom
        self.custom_nodes = set()

    def run(self):
        prepared = self.attributes.prepare_custom_config
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        for place in prepared.input_quantized_indexes:
            self._dequantize_input(inputs[place])
        for node in list(self.graph.nodes):
            if node.op == "output":
                self._keep_quantized(node, prepared.output_quantized_indexes)
            elif node.op == "call_module":
                module = self.modules[node.target]
                if _is_activation_post_process(module):
                    self._replace_observer(node, module)
                elif _parametrize.type_before_parametrizations(module) in self.custom:
                    self._replace_custom(node, module)
                elif node.name in self.attributes.observed_node_names:
                    self._replace_weighted(node, module)

    def _dequantize_input(self, node):
        with self.graph.inserting_after(node):
            new = self.graph.call_method("dequantize", (node,))
        for user in list(node.users):
            if user is not new:
                user.replace_input_with(node, new)

    def _keep_quantized(self, node, places):
        """Let results of these places stay quantized."""
        results = node.args[0]
        is_one = isinstance(results, Node)
        parts = [results] if is_one else results
        if isinstance(parts, dict) and places:
            raise NotImplementedError("convert_fx: output_quantized_indexes of a dict of results")
        if not places:
            return
        kept = [
            part.args[0]
            if place in places and isinstance(part, Node) and part.target == "dequantize"
            else part
            for place, part in enumerate(parts)
        ]
        node.args = (kept[0] if is_one else type(results)(kept),)

    # -- observers -------------------------------------------------------------------------------

    def _replace_observer(self, node, observer):
        source = node.args[0]
        if not self._is_quantized(node, source):
            node.replace_all_uses_with(source)
            self.graph.erase_node(node)
            return
        dtype, dynamic = observer.dtype, getattr(observer, "is_dynamic", False)
        if source in self.custom_nodes:
            with self.graph.inserting_before(node):
                new = self.graph.call_method("dequantize", (source,))
        elif dynamic and dtype in (quint8, qint8):
            new = self._quantize_dynamically(node, observer)
        elif dtype is rushlight.float16 and not dynamic:
            with self.graph.inserting_before(node):
                half = self.graph.call_method("to", (source, rushlight.float16))
                new = self.graph.call_method("to", (half, rushlight.float32))
        elif dtype in _QUANTIZED:
            new = self._quantize(node, observer)
        elif dtype is rushlight.float16 or not getattr(observer, "qscheme", None):
            new = source  # weights have the dtype, or nothing is wanted
        else:
            raise NotImplementedError(f"convert_fx: no quantization to {dtype}")
        node.replace_all_uses_with(new)
        self.graph.erase_node(node)

    def _is_quantized(self, node, source):
        """Does the conversion's own mapping still want this observer?"""
        if source.op != "placeholder" and source.op != "get_attr":
            if self.qconfigs.get(source.name, True) is not None:
                return True
        users = [user for user in node.users if user.op != "output"]
        return not users or any(self.qconfigs.get(user.name, True) is not None for user in users)

    def _prefix(self, node):
        """What attributes of a quantization are named after: the module that it is of."""
        source = node.args[0]
        if self.qconfigs.get(source.name) is None:
            users = [user for user in node.users if user.op != "output"]
            path, suffix = self._path_of(users[0]) if users else "", "_input"
        else:
            path, suffix = self._path_of(source), ""
        return f"{path.replace('.', '_')}{suffix}"

    def _path_of(self, node):
        return self.scopes.get(node.name, ("", None))[0]

    def _attribute(self, prefix, name, value):
        count = 0
        while hasattr(self.model, f"{prefix}_{name}_{count}"):
            count += 1
        path = f"{prefix}_{name}_{count}"
        self.model.register_buffer(path, rushlight.as_tensor(value).clone().detach())
        return self.graph.get_attr(path)

    def _quantize(self, node, observer):
        found, prefix = get_qparam_dict(observer), self._prefix(node)
        source = node.args[0]
        with self.graph.inserting_before(node):
            if is_per_channel(found["qscheme"]):
                scale = self._attribute(prefix, "scale", found["scale"].float())
                zero = self._attribute(prefix, "zero_point", found["zero_point"])
                args = (source, scale, zero, int(found["axis"]), found["dtype"])
                quantized = self.graph.call_function(rushlight.quantize_per_channel, args)
            else:
                scale = self._attribute(prefix, "scale", float(found["scale"]))
                zero = self._attribute(prefix, "zero_point", int(found["zero_point"]))
                args = (source, scale, zero, found["dtype"])
                quantized = self.graph.call_function(rushlight.quantize_per_tensor, args)
            return self.graph.call_method("dequantize", (quantized,))

    def _quantize_dynamically(self, node, observer):
        # torch's own kernels use 7 bits of inputs that are quantized as they come.
        reduce = observer.quant_max is not None and observer.quant_max - observer.quant_min < 255
        args = (node.args[0], observer.dtype, bool(reduce))
        with self.graph.inserting_before(node):
            quantized = self.graph.call_function(rushlight.quantize_per_tensor_dynamic, args)
            return self.graph.call_method("dequantize", (quantized,))

    # -- modules ---------------------------------------------------------------------------------

    def _replace_custom(self, node, module):
        source = node.args[0]
        if isinstance(source, Node) and source.target == "dequantize":
            node.replace_input_with(source, source.args[0])
        _fusion.set_submodule(
            self.model,
            node.target,
            self.custom[_parametrize.type_before_parametrizations(module)].from_observed(module),
        )
        self.custom_nodes.add(node)

    def _replace_weighted(self, node, module):
        qconfig = self.qconfigs.get(node.name) or getattr(module, "qconfig", None)
        if qconfig is None:
            return
        trained, fused = getattr(module, "weight_fake_quant", None), None
        plain = module.to_float() if trained is not None else module
        if isinstance(plain, _FusedModule):
            fused, plain = plain, plain[0]
        references = get_root_module_to_quantized_reference_module(self.backend)
        if _parametrize.type_before_parametrizations(plain) not in references:
            if trained is not None:
                _fusion.set_submodule(self.model, node.target, fused or plain)
            return
        if not self._takes_weight(qconfig):
            return
        if _parametrize.type_before_parametrizations(plain).__name__ in _lowering.DYNAMIC_RECURRENT:
            self._replace_recurrent(node, plain, qconfig, references)
            return
        observer = trained if trained is not None else qconfig.weight()
        observer(plain.weight)
        new = references[_parametrize.type_before_parametrizations(plain)].from_float(
            plain, get_qparam_dict(observer)
        )
        if fused is not None:
            fused[0] = new
            new = fused
        _fusion.set_submodule(self.model, node.target, new.train(module.training))

    def _takes_weight(self, qconfig):
        """Is the weight of a dtype that some pattern has with results of this one?"""
        return qconfig.weight().dtype in (qint8, quint8, rushlight.float16)

    def _replace_recurrent(self, node, plain, qconfig, references):
        plain.qconfig = qconfig
        if self.is_reference:
            found = {}
            for name, value in plain.named_parameters():
                if name.startswith("weight"):
                    observer = qconfig.weight()
                    observer(value)
                    found[name] = get_qparam_dict(observer)
            new = references[_parametrize.type_before_parametrizations(plain)].from_float(
                plain, found
            )
        else:
            new = getattr(
                _dynamic, _parametrize.type_before_parametrizations(plain).__name__
            ).from_float(plain)
            source = node.args[0]
            if isinstance(source, Node) and source.target == "dequantize":
                node.replace_input_with(source, source.args[0].args[0])
        _fusion.set_submodule(self.model, node.target, new)


def _checked_mapping(given, attributes):
    """The qconfigs of nodes: those of preparation, without what `given` sets to None."""
    if given is None:
        return attributes.node_name_to_qconfig
    given, before = _as_config(given, QConfigMapping), attributes.qconfig_mapping
    rules = [name for name in vars(given) if name.endswith("qconfigs")]
    for name in rules:
        for key, qconfig in getattr(given, name).items():
            old = getattr(before, name).get(key, before.global_qconfig)
            if qconfig is not None and not qconfig_equals(qconfig, old):
                raise AssertionError(
                    f"convert_fx: the qconfig of {key} must be None or that of preparation"
                )
    raise NotImplementedError(
        "convert_fx: qconfig_mapping: set qconfigs to None for prepare_fx, so that nothing is "
        "observed that is not quantized"
    )


def convert(
    model: GraphModule,
    is_reference: bool = False,
    convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None,
    is_standalone_module: bool = False,
    _remove_qconfig_flag: bool = True,
    qconfig_mapping: QConfigMapping | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
    is_decomposed: bool = False,
    keep_original_weights: bool = False,
) -> GraphModule:
    """Return a quantized model of an observed one, which it changes.

    Args:
        is_reference: keep the graph in float32 between steps, with rounded weights.
        convert_custom_config: classes whose `from_observed` is used, attributes to keep.
        backend_config: that of preparation.
    """
    if is_standalone_module or is_decomposed or keep_original_weights:
        raise NotImplementedError(
            "convert_fx: standalone modules, decomposed quantization and kept weights are not there"
        )
    custom = _as_config(convert_custom_config, ConvertCustomConfig)
    attributes = model.meta["_observed_graph_module_attrs"]
    _checked_mapping(qconfig_mapping, attributes)
    backend = backend_config
    backend = get_native_backend_config() if backend is None else _as_config(backend, BackendConfig)
    classes = custom.observed_to_quantized_mapping.get(QuantType.STATIC, {})
    with rushlight.no_grad():
        _Converter(model, attributes, backend, classes, is_reference).run()
        kept = set(custom.preserved_attributes)
        model.graph.eliminate_dead_code()
        if not is_reference:
            _lowering.Lowering(model, attributes.node_name_to_qconfig).run()
    model.graph.eliminate_dead_code()
    model.graph.lint()
    converted = QuantizedGraphModule(model, model.graph, kept)
    if _remove_qconfig_flag:
        for module in converted.modules():
            if "qconfig" in vars(module):
                del module.qconfig
    return converted


convert_custom_module: Any = _refusal.refused(__name__, "convert_custom_module", "convert")
convert_standalone_module: Any = _refusal.refused(__name__, "convert_standalone_module", "convert")
convert_weighted_module: Any = _refusal.refused(__name__, "convert_weighted_module", "convert")

__all__ = [
    "convert", "convert_custom_module", "convert_standalone_module", "convert_weighted_module"
]  # fmt: skip
