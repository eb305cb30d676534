"""Questions about qconfigs, observers and patterns that quantization asks in several places."""

from __future__ import annotations

import functools
import inspect
from types import SimpleNamespace
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import qint8, qint32, quint2x4, quint4x2, quint8
from rushlight._quantized._tensor import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme as _qscheme,
)
from rushlight.ao.quantization.quant_type import QuantType
from rushlight.nn.modules.module import Module

NodePattern = Any
Pattern = Any
DEPRECATION_WARNING = (
    "torch.ao.quantization is deprecated in torch 2.13, which points to torchao; here it stays"
)


class MatchAllNode:
    """In a pattern, stands for any node."""


def check_node(node: Any, modules: dict[str, Module]) -> tuple[bool, bool, bool]:
    """Tell whether a node calls a function, a method, or a module of `modules`."""
    return (
        node.op == "call_function",
        node.op == "call_method",
        node.op == "call_module" and str(node.target) in modules,
    )


def get_combined_dict(default_dict: dict[Any, Any], additional_dict: dict[Any, Any]) -> Any:
    """Return both, the second going before the first."""
    return {**default_dict, **additional_dict}


def is_per_tensor(qscheme: _qscheme) -> bool:
    """Does the scheme have one scale?"""
    return qscheme in (per_tensor_affine, per_tensor_symmetric)


def is_per_channel(qscheme: _qscheme) -> bool:
    """Does the scheme have a scale per channel?"""
    return qscheme in (per_channel_affine, per_channel_affine_float_qparams, per_channel_symmetric)


def getattr_from_fqn(obj: Any, fqn: str) -> Any:
    """Return what a dotted name means in an object."""
    return functools.reduce(getattr, fqn.split("."), obj)


_UNDERLYING = {
    quint8: rushlight.uint8, qint8: rushlight.int8, qint32: rushlight.int32,
    quint4x2: rushlight.uint8, quint2x4: rushlight.uint8, rushlight.uint8: rushlight.uint8,
    rushlight.int8: rushlight.int8, rushlight.int16: rushlight.int16,
    rushlight.int32: rushlight.int32,
}  # fmt: skip


def to_underlying_dtype(qdtype: Any) -> Any:
    """Return the dtype of the integers of a quantized dtype."""
    if qdtype not in _UNDERLYING:
        raise AssertionError(f"to_underlying_dtype: unsupported dtype {qdtype}")
    return _UNDERLYING[qdtype]


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """Return qscheme, dtype, scale and zero point that an observer chooses.

    Symmetric schemes are told as affine ones, which they are once the zero point is known.
    """
    observer = observer_or_fake_quant
    scheme = getattr(observer, "qscheme", None)
    found: dict[str, Any] = {"qscheme": scheme, "dtype": observer.dtype}
    if not scheme or type(observer).__name__ in ("PlaceholderObserver", "NoopObserver"):
        return {"qscheme": None, "dtype": observer.dtype}
    if is_per_tensor(scheme):
        found["qscheme"] = per_tensor_affine
    elif is_per_channel(scheme):
        if scheme is per_channel_symmetric:
            found["qscheme"] = per_channel_affine
        found["axis"] = observer.ch_axis
    else:
        raise RuntimeError(f"get_qparam_dict: unrecognized qscheme {scheme}")
    found["scale"], found["zero_point"] = observer.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(observer, name):
            found[name] = getattr(observer, name)
    return found


def get_swapped_custom_module_class(
    custom_module: Module, custom_module_class_mapping: dict[Any, Any], qconfig: Any
) -> Any:
    """Return the class that a mapping by QuantType has for the class of a module."""
    kind = type(custom_module)
    classes = custom_module_class_mapping.get(get_quant_type(qconfig), {})
    if kind not in classes:
        raise AssertionError(f"found no class for {kind.__name__} in {classes}")
    return classes[kind]


def activation_dtype(qconfig: Any) -> Any:
    """Return the dtype of results in a qconfig."""
    return qconfig.activation().dtype


def weight_dtype(qconfig: Any) -> Any:
    """Return the dtype of weights in a qconfig."""
    return qconfig.weight().dtype


def _is_dynamic(qconfig):
    _, _, dynamic = get_qconfig_dtypes(qconfig)
    return dynamic


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Does a qconfig quantize results by steps chosen before?"""
    known = (quint8, qint8, qint32, rushlight.float16, rushlight.uint8, rushlight.int8,
             rushlight.int16, rushlight.int32)  # fmt: skip
    return activation_dtype(qconfig) in known and not _is_dynamic(qconfig)


def activation_is_dynamically_quantized(qconfig: Any) -> bool:
    """Does a qconfig quantize results as they come?"""
    return _is_dynamic(qconfig)


def activation_is_int8_quantized(qconfig: Any) -> bool:
    """Does a qconfig quantize results to 8 bits?"""
    return activation_dtype(qconfig) in (quint8, qint8, rushlight.uint8, rushlight.int8)


def activation_is_int32_quantized(qconfig: Any) -> bool:
    """Does a qconfig quantize results to 32 bits?"""
    return activation_dtype(qconfig) in (qint32, rushlight.int32)


def weight_is_quantized(qconfig: Any) -> bool:
    """Does a qconfig quantize weights?"""
    return weight_dtype(qconfig) in (
        quint8, qint8, rushlight.float16, quint4x2, rushlight.uint8, rushlight.int8,
        rushlight.int16, rushlight.int32,
    )  # fmt: skip


def weight_is_statically_quantized(qconfig: Any) -> bool:
    """Does a qconfig quantize weights to 8 bits?"""
    return weight_dtype(qconfig) in (quint8, qint8, rushlight.uint8, rushlight.int8)


def op_is_int8_dynamically_quantized(qconfig: Any) -> bool:
    """Does a qconfig quantize inputs to bytes as they come, and weights to int8?"""
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    return (
        activation in (quint8, rushlight.uint8)
        and weight in (qint8, rushlight.int8)
        and bool(dynamic)
    )


def get_qconfig_dtypes(qconfig: Any) -> tuple[Any, Any, bool]:
    """Return the dtypes of results and weights, and whether inputs are quantized as they come."""
    if qconfig is None:
        raise AssertionError("get_qconfig_dtypes: qconfig must be given")
    activation, weight = qconfig.activation(), qconfig.weight()
    return activation.dtype, weight.dtype, getattr(activation, "is_dynamic", False)


def get_quant_type(qconfig: Any) -> QuantType:
    """Return when inputs are quantized by a qconfig."""
    if qconfig is None:
        raise AssertionError("get_quant_type: qconfig must be given")
    activation, weight = qconfig.activation(), qconfig.weight()
    static = (quint8, qint8, quint4x2, qint32, rushlight.uint8, rushlight.int8, rushlight.int16,
              rushlight.int32)  # fmt: skip
    if weight.dtype in static:
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        return QuantType.STATIC if activation.dtype in static else QuantType.WEIGHT_ONLY
    if weight.dtype is rushlight.float16:
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        if activation.dtype is rushlight.float16:
            return QuantType.STATIC
    raise RuntimeError(
        f"get_quant_type: no type for results of {activation.dtype}, weights of {weight.dtype}"
    )


def check_min_max_valid(min_val: Tensor, max_val: Tensor) -> bool:
    """Tell whether an observer has seen a range: False, with a warning, where it has not."""
    from rushlight.ao.quantization.observer import _check_range

    return _check_range(min_val, max_val)


def calculate_qmin_qmax(
    quant_min: int, quant_max: int, has_customized_qrange: bool, dtype: Any, reduce_range: bool
) -> tuple[int, int]:
    """Return the integers to use.

    Args:
        has_customized_qrange: quant_min and quant_max are to be used.
        reduce_range: use one bit less.
    """
    from rushlight.ao.quantization.observer import _range_of

    limits = (quant_min, quant_max) if has_customized_qrange else (None, None)
    return _range_of(*limits, dtype, reduce_range)


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """Raise an error where a range of integers does not contain 0."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError(f"the range of integers must include 0, got {quant_min}, {quant_max}")
    if quant_min >= quant_max:
        raise AssertionError(f"quant_min {quant_min} must be less than quant_max {quant_max}")


def determine_qparams(
    min_val: Tensor,
    max_val: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    eps: Tensor,
    has_customized_qrange: bool,
    qscheme: _qscheme = per_tensor_affine,
) -> tuple[Tensor, Tensor]:
    """Return scale (float64) and zero point (int64) with which integers cover a range.

    Args:
        eps: the least scale.
        has_customized_qrange: quant_min and quant_max were chosen by the program.
    """
    from rushlight.ao.quantization.observer import UniformQuantizationObserverBase as _Observer

    if not check_min_max_valid(min_val, max_val):
        return rushlight.tensor([1.0]), rushlight.tensor([0])
    chooser = SimpleNamespace(
        # With uint16, observers alone put the zero in the middle.
        dtype=None if dtype is rushlight.uint16 else dtype,
        qscheme=qscheme, quant_min=quant_min, quant_max=quant_max, eps=eps,
        has_customized_qrange=has_customized_qrange,
    )  # fmt: skip
    scale, zero_point = _Observer._calculate_qparams(chooser, min_val, max_val)
    shape = min_val.shape if min_val.dim() else (1,)
    return scale.reshape(shape).double(), zero_point.reshape(shape).to(rushlight.int64)


def has_no_children_ignoring_parametrizations(module: Module) -> bool:
    """Tell whether a module has no modules but its parametrizations."""
    return not module._modules or list(module._modules) == ["parametrizations"]


def get_fqn_to_example_inputs(
    model: Module, example_inputs: tuple[Any, ...]
) -> dict[str, tuple[Any, ...]]:
    """Return what each module of a model gets in a call, in order, with its defaults."""
    found: dict[str, tuple[Any, ...]] = {}
    handles = []
    for name, module in model.named_modules():

        def note(_, inputs, keywords, name=name, forward=module.forward):
            bound = inspect.signature(forward).bind(*inputs, **keywords)
            bound.apply_defaults()
            found[name] = (*bound.args, *bound.kwargs.values())

        handles.append(module.register_forward_pre_hook(note, with_kwargs=True))
    try:
        model(*example_inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _assert_and_get_unique_device(module: Module) -> Any:
    devices = {p.device for p in module.parameters()} | {p.device for p in module.buffers()}
    if len(devices) > 1:
        raise AssertionError(f"quantization needs a model on one device, got {devices}")
    return next(iter(devices), None)


def _normalize_kwargs(func: Any, loc: dict[str, Any]) -> dict[str, Any]:
    names = inspect.signature(func).parameters
    return {name: value for name, value in loc.items() if name in names}


__all__ = [
    "DEPRECATION_WARNING", "MatchAllNode", "NodePattern", "Pattern", "activation_dtype",
    "activation_is_dynamically_quantized", "activation_is_int32_quantized",
    "activation_is_int8_quantized", "activation_is_statically_quantized", "calculate_qmin_qmax",
    "check_min_max_valid", "check_node", "determine_qparams", "get_combined_dict",
    "get_fqn_to_example_inputs", "get_qconfig_dtypes", "get_qparam_dict", "get_quant_type",
    "get_swapped_custom_module_class", "getattr_from_fqn",
    "has_no_children_ignoring_parametrizations", "is_per_channel", "is_per_tensor",
    "op_is_int8_dynamically_quantized", "to_underlying_dtype", "validate_qmin_qmax",
    "weight_dtype", "weight_is_quantized", "weight_is_statically_quantized",
]  # fmt: skip
