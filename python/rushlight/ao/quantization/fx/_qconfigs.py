"""The qconfig of each node of a graph, and whether a backend takes it."""

from __future__ import annotations

import copy
import re

import rushlight
from rushlight._ignored import warn_program
from rushlight.ao.nn.intrinsic import _FusedModule
from rushlight.ao.quantization.observer import FixedQParamsObserver, PlaceholderObserver
from rushlight.ao.quantization.qconfig import (
    float16_dynamic_qconfig,
    float16_static_qconfig,
    qconfig_equals,
)
from rushlight.ao.quantization.qconfig_mapping import QConfigMapping
from rushlight.fx.node import Node
from rushlight.nn.utils import parametrize as _parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.ao.quantization.backend_config.backend_config import (
        BackendConfig,
        DTypeConfig,
        DTypeWithConstraints,
    )
    from rushlight.ao.quantization.fx._matching import Match
    from rushlight.fx.graph_module import GraphModule


def with_fused_and_trained(
    mapping: QConfigMapping, model: GraphModule, backend_config: BackendConfig, is_qat: bool
) -> QConfigMapping:
    """Return the mapping with rules for fused and trained classes, those of what they are made of.

    Raises:
        LookupError: the rules for the parts of a fused module differ.
    """
    mapping = copy.copy(mapping)
    types = mapping.object_type_qconfigs = mapping.object_type_qconfigs.copy()
    for module in model.modules():
        if isinstance(module, _FusedModule) and type(module) not in types:
            found = [
                types.get(_parametrize.type_before_parametrizations(layer))
                for layer in module.children()
            ]
            if found and found[0] is not None:
                if not all(qconfig_equals(found[0], other) for other in found):
                    raise LookupError(
                        f"prepare_fx: the parts of {type(module).__name__} have different qconfigs"
                    )
                types[type(module)] = found[0]
    if is_qat:
        for config in backend_config.configs:
            if config.qat_module and config.pattern in types:
                types[config.qat_module] = types[config.pattern]
    return mapping


class Chooser:
    """Looks up the qconfig of each node in a mapping."""

    def __init__(
        self, mapping: QConfigMapping, model: GraphModule, scopes: dict[str, tuple[str, Any]]
    ) -> None:
        self.mapping, self.scopes = mapping, scopes
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.counts: dict[tuple[str, Any], int] = {}

    def _of_type(self, kind, fallback):
        return self.mapping.object_type_qconfigs.get(kind, fallback)

    def _of_module(self, kind, path, fallback):
        qconfig = self._of_type(kind, fallback)
        for pattern, found in self.mapping.module_name_regex_qconfigs.items():
            if re.match(pattern, path):
                qconfig = found
                break
        names = self.mapping.module_name_qconfigs
        while path:
            if path in names:
                return names[path]
            path = path.rpartition(".")[0]
        return qconfig

    def _of_place(self, path, kind, fallback):
        index = self.counts.get((path, kind), 0)
        self.counts[path, kind] = index + 1
        places = self.mapping.module_name_object_type_order_qconfigs
        return places.get((path, kind, index), fallback)

    def of_node(self, node: Node) -> Any:
        """Return the qconfig of a node; nodes are asked about in order."""
        path, kind = self.scopes.get(node.name, ("", None))
        general = self.mapping.global_qconfig
        if node.op == "get_attr":
            return self._of_module(kind, path, general)
        if node.op == "call_function":
            qconfig = self._of_module(kind, path, self._of_type(node.target, general))
            return self._of_place(path, node.target, qconfig)
        if node.op == "call_method":
            return self._of_module(kind, path, self._of_type(node.target, general))
        if node.op == "call_module":
            module = self.modules[node.target]
            qconfig = self._of_module(
                _parametrize.type_before_parametrizations(module), node.target, general
            )
            qconfig = self._of_place(
                path.rpartition(".")[0], _parametrize.type_before_parametrizations(module), qconfig
            )
            module.qconfig = qconfig
            return qconfig
        return None


def is_supported(match: Match, qconfig: Any, indexes: dict[str, int]) -> bool:
    """Does the backend take the dtypes of a qconfig for what matches?"""
    if not match.config.dtype_configs:
        return False
    return any(
        _takes(config, match.root, qconfig, indexes) for config in match.config.dtype_configs
    )


def _takes(config: DTypeConfig, root, qconfig, indexes):
    activation, weight = qconfig.activation(), qconfig.weight()
    dynamic = bool(getattr(activation, "is_dynamic", False))
    dtype = getattr(activation, "dtype", None)
    for place, arg in [*enumerate(root.args), *root.kwargs.items()]:
        if not isinstance(arg, (Node, list, tuple)):
            continue
        if place in (indexes.get("weight"), "weight"):
            if weight.dtype != config.weight_dtype or not _satisfies(
                weight, config.weight_dtype_with_constraints, qconfig
            ):
                return False
        elif place in (indexes.get("bias"), "bias"):
            if config.bias_dtype not in (None, _bias_dtype(qconfig)):
                return False
        elif config.input_dtype is not None and not (
            config.input_dtype == dtype
            and bool(config.is_dynamic) == dynamic
            and _satisfies(activation, config.input_dtype_with_constraints, qconfig)
        ):
            return False
    output = rushlight.float32 if dynamic else dtype
    return config.output_dtype is None or (
        config.output_dtype == output
        and _satisfies(activation, config.output_dtype_with_constraints, qconfig)
    )


def _bias_dtype(qconfig):
    activation, weight = qconfig.activation(), qconfig.weight()
    half = rushlight.float16
    if activation.dtype is half and weight.dtype is half and not activation.is_dynamic:
        return half
    return rushlight.float32


def _satisfies(observer, bounds: DTypeWithConstraints, qconfig):
    """Do an observer's integers and scales lie within the bounds? A warning says what does not."""
    if bounds.dtype is None or observer.dtype != bounds.dtype:
        return True
    problem = None
    low, high = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
    least, most = bounds.quant_min_lower_bound, bounds.quant_max_upper_bound
    if least is not None and most is not None:
        if low is None or high is None or low < least or high > most:
            problem = f"integers from {low} to {high}, and the backend takes {least} to {most}"
    eps = getattr(observer, "eps", None)
    if bounds.scale_min_lower_bound is not None:
        eps = getattr(getattr(observer, "activation_post_process", observer), "eps", eps)
        if eps is None or float(eps) < bounds.scale_min_lower_bound:
            problem = f"scales from {eps} on, and the backend takes {bounds.scale_min_lower_bound}"
    exact = bounds.scale_exact_match, bounds.zero_point_exact_match
    if None not in exact:
        if any(
            qconfig_equals(qconfig, q) for q in (float16_static_qconfig, float16_dynamic_qconfig)
        ):
            return True
        inner = getattr(observer, "activation_post_process", observer)
        if not isinstance(inner, FixedQParamsObserver):
            problem = (
                "an observer of ranges, and the backend takes a FixedQParamsObserver or a "
                "FixedQParamsFakeQuantize, as get_default_qconfig_mapping has them"
            )
        elif (float(inner.scale), int(inner.zero_point)) != exact:
            problem = f"another scale and zero point than {exact}"
    if problem:
        warn_program(f"QConfig {qconfig} is ignored: it has {problem}")
    return problem is None


def placeholder(dtype: Any) -> Any:
    """Return a constructor of an observer that only says a dtype."""
    return PlaceholderObserver.with_args(dtype=dtype)
