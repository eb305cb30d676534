"""Observers in the graph of a model: `prepare` of what `prepare_fx` traced."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from rushlight._set_module import set_module as _set_module
from rushlight.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from rushlight.ao.quantization.backend_config.backend_config import BackendPatternConfig
from rushlight.ao.quantization.backend_config.utils import get_module_to_qat_module
from rushlight.ao.quantization.fx import _matching, _observation, _qconfigs, _refusal
from rushlight.ao.quantization.fx.custom_config import PrepareCustomConfig, _as_config
from rushlight.ao.quantization.fx.graph_module import ObservedGraphModule
from rushlight.ao.quantization.qconfig_mapping import QConfigMapping
from rushlight.ao.quantization.quant_type import QuantType
from rushlight.ao.quantization.quantize import convert, propagate_qconfig_

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.graph_module import GraphModule


@dataclass
class ObservedGraphModuleAttrs:
    """What `convert` must know of how a model was prepared."""

    node_name_to_qconfig: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, Any]]
    prepare_custom_config: PrepareCustomConfig
    equalization_node_name_to_qconfig: dict[str, Any]
    qconfig_mapping: QConfigMapping
    is_qat: bool
    observed_node_names: set[str]
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: list[int] | None = None
    standalone_module_output_quantized_idxs: list[int] | None = field(default=None)


def prepare(
    model: GraphModule,
    qconfig_mapping: QConfigMapping | dict[str, Any],
    is_qat: bool,
    node_name_to_scope: dict[str, tuple[str, Any]],
    example_inputs: tuple[Any, ...],
    prepare_custom_config: PrepareCustomConfig | dict[str, Any] | None = None,
    _equalization_config: Any = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
    is_standalone_module: bool = False,
) -> ObservedGraphModule:
    """Return a traced and fused model with observers.

    Args:
        model: it is changed.
        is_qat: replace layers by those that are trained with rounded weights.
        node_name_to_scope: the path and class of the module that each node was recorded in.
        example_inputs: not needed, as dtypes follow from the patterns.
    """
    del example_inputs
    custom = _as_config(prepare_custom_config, PrepareCustomConfig)
    if is_standalone_module or custom.standalone_module_names or custom.standalone_module_classes:
        raise NotImplementedError(
            "prepare_fx: modules that are quantized by themselves are not supported; prepare and "
            "convert them first, and name them as not traceable"
        )
    if _equalization_config is not None and vars(
        _as_config(_equalization_config, QConfigMapping)
    ) != (vars(QConfigMapping())):
        raise NotImplementedError("prepare_fx: equalization of channels is not supported")
    backend = backend_config
    backend = get_native_backend_config() if backend is None else _as_config(backend, BackendConfig)
    mapping = _as_config(qconfig_mapping, QConfigMapping)
    given = copy.deepcopy(mapping)
    mapping = _qconfigs.with_fused_and_trained(mapping, model, backend, is_qat)
    if is_qat:
        propagate_qconfig_(model, _flattened(mapping))
        convert(model, get_module_to_qat_module(backend), inplace=True, remove_qconfig=False,
                convert_custom_config_dict={})  # fmt: skip
    chooser = _qconfigs.Chooser(mapping, model, node_name_to_scope)
    nodes = list(model.graph.nodes)
    qconfigs = {node: chooser.of_node(node) for node in nodes}
    observed_classes = custom.float_to_observed_mapping.get(QuantType.STATIC, {})
    found = _matching.matches(nodes, chooser.modules, backend, lambda config: True)
    found = {**found, **_custom_matches(nodes, chooser.modules, observed_classes)}
    indexes = {
        config.pattern: config._input_type_to_index
        for config in backend.configs
        if config._input_type_to_index
    }
    placer = _observation.ObserverPlacer(
        model, found, qconfigs, indexes, custom.input_quantized_indexes, observed_classes
    )
    placer.place()
    prepared = ObservedGraphModule(model, model.graph, set(custom.preserved_attributes))
    prepared.meta["_observed_graph_module_attrs"] = ObservedGraphModuleAttrs(
        node_name_to_qconfig={node.name: qconfig for node, qconfig in qconfigs.items()},
        node_name_to_scope=node_name_to_scope,
        prepare_custom_config=custom,
        equalization_node_name_to_qconfig={},
        qconfig_mapping=given,
        is_qat=is_qat,
        observed_node_names=placer.observed,
    )
    return prepared


def _flattened(mapping):
    return {
        "": mapping.global_qconfig, **mapping.object_type_qconfigs, **mapping.module_name_qconfigs
    }  # fmt: skip


def _custom_matches(nodes, modules, classes):
    """The matches of modules that stand for others while they are observed."""
    found = {}
    for node in nodes:
        kind = type(modules.get(node.target)) if node.op == "call_module" else None
        if kind in classes:
            if kind.__name__ in ("LSTM", "MultiheadAttention"):
                raise NotImplementedError(
                    f"prepare_fx: {kind.__name__} with observers inside is not supported, as it has"
                    " several results; prepare and convert quantize it in eager mode"
                )
            config = BackendPatternConfig(kind)
            config.observation_type = None  # its observers are its own
            found[node] = _matching.Match(config, kind, [node])
    return found


_set_module("rushlight.ao.quantization.fx.utils", ObservedGraphModuleAttrs)
insert_observers_for_model: Any = _refusal.refused(
    __name__, "insert_observers_for_model", "prepare"
)
propagate_dtypes_for_known_nodes: Any = _refusal.refused(
    __name__, "propagate_dtypes_for_known_nodes", "prepare"
)

__all__ = ["insert_observers_for_model", "prepare", "propagate_dtypes_for_known_nodes"]
