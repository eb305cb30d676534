"""Quantization of traced models: trace, fuse, observe, convert.

model = prepare_fx(model.eval(), get_default_qconfig_mapping("x86"), example_inputs)
model(typical_inputs)
model = convert_fx(model)
"""

from __future__ import annotations

from rushlight.ao.nn.quantized import FloatFunctional, FXFloatFunctional
from rushlight.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from rushlight.ao.quantization.fx import _fusion
from rushlight.ao.quantization.fx.convert import convert
from rushlight.ao.quantization.fx.custom_config import (
    ConvertCustomConfig,
    FuseCustomConfig,
    PrepareCustomConfig,
    _as_config,
)
from rushlight.ao.quantization.fx.graph_module import FusedGraphModule
from rushlight.ao.quantization.fx.prepare import prepare
from rushlight.ao.quantization.fx.tracer import QuantizationTracer
from rushlight.ao.quantization.qconfig_mapping import QConfigMapping
from rushlight.ao.quantization.utils import DEPRECATION_WARNING as DEPRECATION_WARNING
from rushlight.fx.graph_module import GraphModule
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _with_traceable_arithmetic(module):
    """Replace each `FloatFunctional` by one whose calls are recorded as plain arithmetic."""
    for name, child in module.named_children():
        if isinstance(child, FloatFunctional):
            module._modules[name] = FXFloatFunctional()
        else:
            _with_traceable_arithmetic(child)


def _traced(name, model, custom):
    """The graph module of a model, and the scopes of its nodes."""
    if not isinstance(model, Module):
        raise ValueError(f"{name}: expected a Module, got {type(model).__name__}")
    _with_traceable_arithmetic(model)
    names = [*custom.non_traceable_module_names, *custom.standalone_module_names]
    classes = [*custom.non_traceable_module_classes, *custom.standalone_module_classes]
    for of_type in custom.float_to_observed_mapping.values():
        classes += of_type
    tracer = QuantizationTracer(names, classes)
    graph = tracer.trace(model)
    return GraphModule(model, graph), tracer.node_name_to_scope


def _keep(source, target, names):
    for name in names:
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))


def attach_preserved_attrs_to_model(model: GraphModule, preserved_attrs: dict[str, Any]) -> None:
    """Give a graph module attributes, which copies of it keep."""
    model.meta["preserved_attrs"] = dict(preserved_attrs)
    for name, value in preserved_attrs.items():
        setattr(model, name, value)


def fuse_fx(
    model: Module,
    fuse_custom_config: FuseCustomConfig | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
) -> GraphModule:
    """Return a traced model with layers fused; batch norms disappear.

    Args:
        model: in evaluation mode.
        fuse_custom_config: names of attributes to keep.
        backend_config: which patterns are fused.

    Example:
        >>> from rushlight.ao.quantization.quantize_fx import fuse_fx
        >>> nn = rushlight.nn
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
        >>> type(fuse_fx(model).get_submodule("0")).__name__
        'ConvReLU2d'
    """
    custom = _as_config(fuse_custom_config, FuseCustomConfig)
    backend = backend_config
    backend = get_native_backend_config() if backend is None else _as_config(backend, BackendConfig)
    traced, _ = _traced("fuse_fx", model, PrepareCustomConfig())
    _fusion.fuse_graph(traced, False, backend)
    _keep(model, traced, custom.preserved_attributes)
    return FusedGraphModule(traced, traced.graph, set(custom.preserved_attributes))


def _prepare(name, model, mapping, is_qat, example_inputs, custom, equalization, backend):
    custom = _as_config(custom, PrepareCustomConfig)
    backend = get_native_backend_config() if backend is None else _as_config(backend, BackendConfig)
    traced, scopes = _traced(name, model, custom)
    _fusion.fuse_graph(traced, is_qat, backend)
    _keep(model, traced, custom.preserved_attributes)
    return prepare(traced, mapping, is_qat, scopes, example_inputs, custom, equalization, backend)


def prepare_fx(
    model: Module,
    qconfig_mapping: QConfigMapping | dict[str, Any],
    example_inputs: tuple[Any, ...],
    prepare_custom_config: PrepareCustomConfig | dict[str, Any] | None = None,
    _equalization_config: Any = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
) -> GraphModule:
    """Return a traced model with observers; then run it on typical inputs.

    Args:
        model: in evaluation mode.
        qconfig_mapping: the observers of each part, as of `get_default_qconfig_mapping`.
        example_inputs: inputs of the model.
        prepare_custom_config: modules that are not traced, inputs that come quantized, and so on.
        backend_config: what is quantized, and how; `get_native_backend_config` by default.

    Example:
        >>> from rushlight.ao.quantization import get_default_qconfig_mapping
        >>> from rushlight.ao.quantization.quantize_fx import convert_fx, prepare_fx
        >>> model = rushlight.nn.Sequential(rushlight.nn.Linear(4, 2), rushlight.nn.ReLU()).eval()
        >>> x = rushlight.linspace(-1, 1, 8).reshape(2, 4)
        >>> prepared = prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,))
        >>> _ = prepared(x)
        >>> type(convert_fx(prepared).get_submodule("0")).__name__
        'LinearReLU'
    """
    return _prepare(
        "prepare_fx", model, qconfig_mapping, False, example_inputs, prepare_custom_config,
        _equalization_config, backend_config,
    )  # fmt: skip


def prepare_qat_fx(
    model: Module,
    qconfig_mapping: QConfigMapping | dict[str, Any],
    example_inputs: tuple[Any, ...],
    prepare_custom_config: PrepareCustomConfig | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
) -> GraphModule:
    """Return a traced model with fake quantization of weights and results; then train it.

    Args:
        model: in training mode.
        qconfig_mapping: as of `get_default_qat_qconfig_mapping`.
        example_inputs, prepare_custom_config, backend_config: as of `prepare_fx`.
    """
    return _prepare(
        "prepare_qat_fx", model, qconfig_mapping, True, example_inputs, prepare_custom_config,
        None, backend_config,
    )  # fmt: skip


def _convert(name, model, is_reference, custom, remove, mapping, backend):
    if not isinstance(model, GraphModule) or "_observed_graph_module_attrs" not in model.meta:
        raise ValueError(f"{name}: expected what prepare_fx returned, got {type(model).__name__}")
    custom = _as_config(custom, ConvertCustomConfig)
    return convert(model, is_reference, custom, False, remove, mapping, backend)


def convert_fx(
    graph_module: GraphModule,
    convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: QConfigMapping | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
    keep_original_weights: bool = False,
) -> GraphModule:
    """Return the quantized model of one that `prepare_fx` or `prepare_qat_fx` made.

    Args:
        graph_module: it has seen typical inputs, or was trained; it is changed.
        convert_custom_config: classes whose `from_observed` is used, attributes to keep.
        backend_config: that of preparation.
    """
    if keep_original_weights:
        raise NotImplementedError("convert_fx: keep_original_weights is not supported")
    return _convert(
        "convert_fx", graph_module, False, convert_custom_config, _remove_qconfig, qconfig_mapping,
        backend_config,
    )  # fmt: skip


def convert_to_reference_fx(
    graph_module: GraphModule,
    convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: QConfigMapping | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
) -> GraphModule:
    """As `convert_fx`, in float32 between steps: what another backend would lower."""
    return _convert(
        "convert_to_reference_fx", graph_module, True, convert_custom_config, _remove_qconfig,
        qconfig_mapping, backend_config,
    )  # fmt: skip


__all__ = [
    "convert_fx", "convert_to_reference_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"
]  # fmt: skip
