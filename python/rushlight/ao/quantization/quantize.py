"""Makes quantized models: observe, then convert; or weights alone, inputs as they come."""

from __future__ import annotations

import copy
import warnings

from rushlight import nn
from rushlight._absent_dtypes import qint8, quint8
from rushlight.ao.nn import intrinsic as _intrinsic, qat as _qat, quantized as _quantized
from rushlight.ao.nn.intrinsic import qat as _fused_qat, quantized as _fused
from rushlight.ao.nn.quantized import dynamic as _dynamic
from rushlight.ao.quantization.fake_quantize import (
    FakeQuantizeBase,
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from rushlight.ao.quantization.observer import ObserverBase
from rushlight.ao.quantization.qconfig import (
    default_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
)
from rushlight.ao.quantization.stubs import DeQuantStub, QuantStub, QuantWrapper
from rushlight.nn.modules.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_STATIC = {
    QuantStub: _quantized.Quantize,
    DeQuantStub: _quantized.DeQuantize,
    _quantized.FloatFunctional: _quantized.QFunctional,
    nn.Embedding: _quantized.Embedding,
    nn.Linear: _quantized.Linear,
    NonDynamicallyQuantizableLinear: _quantized.Linear,
    _qat.Linear: _quantized.Linear,
    _intrinsic.LinearReLU: _fused.LinearReLU,
    _fused_qat.LinearReLU: _fused.LinearReLU,
}
_QAT = {
    nn.Linear: _qat.Linear,
    NonDynamicallyQuantizableLinear: _qat.Linear,
    _intrinsic.LinearReLU: _fused_qat.LinearReLU,
}
for _n in ("1d", "2d", "3d"):
    _conv, _relu = getattr(_quantized, f"Conv{_n}"), getattr(_fused, f"ConvReLU{_n}")
    _STATIC |= {
        getattr(nn, f"Conv{_n}"): _conv,
        getattr(_qat, f"Conv{_n}"): _conv,
        getattr(_fused_qat, f"ConvBn{_n}"): _conv,
        getattr(_intrinsic, f"ConvReLU{_n}"): _relu,
        getattr(_fused_qat, f"ConvReLU{_n}"): _relu,
        getattr(_fused_qat, f"ConvBnReLU{_n}"): _relu,
    }
    _QAT |= {
        getattr(nn, f"Conv{_n}"): getattr(_qat, f"Conv{_n}"),
        **{
            getattr(_intrinsic, f"{_kind}{_n}"): getattr(_fused_qat, f"{_kind}{_n}")
            for _kind in ("ConvBn", "ConvBnReLU", "ConvReLU")
        },
    }
_DYNAMIC = {
    nn.Linear: _dynamic.Linear,
    NonDynamicallyQuantizableLinear: _dynamic.Linear,
    nn.Embedding: _quantized.Embedding,
}
_RECURRENT = (nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell)
# Layers that quantized tensors pass, and those that they do not.
_NO_QUANTIZED_FORM = (
    nn.BatchNorm2d, nn.BatchNorm3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
    nn.EmbeddingBag, nn.GroupNorm, nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d,
    nn.InstanceNorm3d, nn.LayerNorm, nn.PReLU, nn.LSTM, nn.MultiheadAttention,
)  # fmt: skip
_KNOWN_RANGE = {
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """Return the quantized class of each class of layers."""
    return dict(_STATIC)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """Return the fake-quantized class of each class of layers."""
    return dict(_QAT)


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """Return the dynamically quantized class of each class of layers."""
    return dict(_DYNAMIC)


def get_default_qconfig_propagation_list() -> set[Any]:
    """Return the classes of layers whose results `prepare` observes."""
    return {*_STATIC, *_QAT, *_DYNAMIC, *_NO_QUANTIZED_FORM, nn.Sequential}


def propagate_qconfig_(
    module: Module, qconfig_dict: dict[Any, Any] | None = None,
    prepare_custom_config_dict: Any = None,
) -> None:  # fmt: skip
    """Give each layer of a model the qconfig that names it, its class, or the module around it.

    Args:
        qconfig_dict: qconfigs by a layer's class or name; a layer's own goes first.
    """
    if prepare_custom_config_dict:
        raise NotImplementedError("propagate_qconfig_: prepare_custom_config_dict")
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module, configs, inherited, prefix):
    chosen = configs.get(prefix, configs.get(type(module), inherited))
    module.qconfig = chosen = getattr(module, "qconfig", chosen)
    for name, child in module.named_children():
        _propagate(child, configs, chosen, f"{prefix}.{name}" if prefix else name)


def _observe(self, input, output):
    return self.activation_post_process(output)


def _observe_input(self, input):
    return self.activation_post_process(input[0])


def _memoryless(qconfig):
    observer = qconfig.activation()
    observer = getattr(observer, "activation_post_process", observer)
    return getattr(observer, "averaging_constant", None) == 1


def _add_observer(layer, constructor=None):
    if getattr(layer, "qconfig", None) is None or isinstance(layer, DeQuantStub):
        return
    layer.add_module("activation_post_process", (constructor or layer.qconfig.activation)())
    if _memoryless(layer.qconfig):
        layer.register_forward_pre_hook(_observe_input, prepend=True)
    else:
        layer.register_forward_hook(_observe, prepend=True)


def _add_observers(module, observed, whole):
    for child in module.children():
        kind = type(child)
        if kind is nn.Dropout:
            continue
        if kind is _quantized.FloatFunctional:
            if getattr(child, "qconfig", None) is not None:
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, _intrinsic._FusedModule) or kind in whole:
            _add_observer(child)
        elif child.training and kind in _KNOWN_RANGE:
            _add_observer(child, _KNOWN_RANGE[kind])
        else:
            _add_observers(child, observed, whole)
    if (
        type(module) in observed
        and not isinstance(module, nn.Sequential)
        and (not module._modules or hasattr(module, "weight_fake_quant"))
    ):
        if not hasattr(module, "activation_post_process"):
            _add_observer(module)


def prepare(
    model: Module,
    inplace: bool = False,
    allow_list: Iterable[Any] | None = None,
    observer_non_leaf_module_list: Iterable[Any] | None = None,
    prepare_custom_config_dict: Any = None,
) -> Module:
    """Return the model with an observer of each layer's result; then run it on typical inputs.

    Args:
        model: with a `qconfig`, which layers inherit; None leaves a layer as it is.
        inplace: change the model itself.
        allow_list: classes of layers to observe.
        observer_non_leaf_module_list: classes of modules to observe as a whole.
    """
    if prepare_custom_config_dict:
        raise NotImplementedError("prepare: prepare_custom_config_dict")
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(layer, "qconfig", None) for layer in model.modules()):
        warnings.warn("prepare: no module has a qconfig: none is observed", stacklevel=2)
    observed = set(allow_list or get_default_qconfig_propagation_list())
    _add_observers(model, observed, set(observer_non_leaf_module_list or ()))
    return model


def swap_module(
    mod: Module, mapping: dict[Any, Any], custom_module_class_mapping: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:  # fmt: skip
    """Return what a mapping makes of one layer, or the layer."""
    if custom_module_class_mapping:
        raise NotImplementedError("swap_module: custom_module_class_mapping")
    if getattr(mod, "qconfig", None) is None or type(mod) not in mapping:
        return mod
    new = mapping[type(mod)].from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
    for hook in mod._forward_pre_hooks.values():
        if hook is not _observe_input:
            new.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observe:
            new.register_forward_hook(hook)
    return new.train(mod.training)


def _convert(module, mapping, precomputed):
    for name, child in list(module.named_children()):
        if not isinstance(child, _intrinsic._FusedModule) and not isinstance(
            child, (ObserverBase, FakeQuantizeBase)
        ):
            _convert(child, mapping, precomputed)
        swapped = swap_module(child, mapping, None, precomputed)
        if swapped is not child:
            module._modules[name] = swapped


def _refuse_unknown(module, prefix):
    """Name a layer that would get quantized tensors and does not take them."""
    kind = type(module)
    if kind in _NO_QUANTIZED_FORM and getattr(module, "qconfig", None) is not None:
        raise NotImplementedError(
            f"convert: {prefix or 'the model'} is a {kind.__name__}, of which there is no quantized"
            " form; set its qconfig to None before prepare"
        )
    if kind not in _STATIC:
        for name, child in module.named_children():
            _refuse_unknown(child, f"{prefix}.{name}" if prefix else name)


def _remove_qconfig(module):
    for layer in module.modules():
        if hasattr(layer, "qconfig"):
            del layer.qconfig
        observer = getattr(layer, "activation_post_process", None)
        if isinstance(observer, (ObserverBase, FakeQuantizeBase)):
            del layer.activation_post_process
        for hooks in (layer._forward_pre_hooks, layer._forward_hooks):
            for key in [k for k, hook in hooks.items() if hook in (_observe, _observe_input)]:
                del hooks[key]


def convert(
    module: Module,
    mapping: dict[Any, Any] | None = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:
    """Return the model with its observed layers replaced by quantized ones.

    Args:
        module: a model that `prepare` or `prepare_qat` made and that has seen tensors.
        mapping: the quantized class of each class of layers.
        inplace: change the model itself.
        remove_qconfig: remove qconfigs and observers.
        use_precomputed_fake_quant: keep the weights' scales as training left them.

    Raises:
        NotImplementedError: a layer with a qconfig has no quantized class here though torch has
            one; set its `qconfig` to None before `prepare`, and put stubs around it.
    """
    if is_reference or convert_custom_config_dict:
        raise NotImplementedError("convert: is_reference and convert_custom_config_dict")
    module = module if inplace else copy.deepcopy(module)
    if mapping is None:
        mapping = _STATIC
        _refuse_unknown(module, "")
    _convert(module, mapping, use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def quantize(
    model: Module, run_fn: Callable[..., Any], run_args: Any,
    mapping: dict[Any, Any] | None = None, inplace: bool = False,
) -> Module:  # fmt: skip
    """Return the quantized model: `prepare`, `run_fn(model, *run_args)`, `convert`."""
    model = (model if inplace else copy.deepcopy(model)).eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def prepare_qat(
    model: Module, mapping: dict[Any, Any] | None = None, inplace: bool = False
) -> Module:
    """Return the model with fake quantization of weights and results; then train it.

    Args:
        model: in training mode, with a `qconfig`.
        mapping: the fake-quantized class of each class of layers.
    """
    if not model.training:
        raise AssertionError("prepare_qat: the model must be in training mode")
    model = model if inplace else copy.deepcopy(model)
    mapping = _QAT if mapping is None else mapping
    propagate_qconfig_(model)
    convert(model, mapping, inplace=True, remove_qconfig=False)
    return prepare(model, True, observer_non_leaf_module_list=set(mapping.values()))


def quantize_qat(
    model: Module, run_fn: Callable[..., Any], run_args: Any, inplace: bool = False
) -> Module:
    """Return the quantized model: `prepare_qat`, `run_fn(model, *run_args)`, `convert`."""
    model = (model if inplace else copy.deepcopy(model)).train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def _dynamic_configs(spec, dtype):
    if isinstance(spec, dict):
        return spec
    configs = {qint8: default_dynamic_qconfig, quint8: float_qparams_weight_only_qconfig}
    if dtype not in configs:
        raise NotImplementedError(f"quantize_dynamic: dtype must be qint8 or quint8, got {dtype}")
    if spec is None:
        spec = (nn.Linear, *_RECURRENT) if dtype is qint8 else (nn.Embedding, nn.EmbeddingBag)
    return dict.fromkeys(spec, configs[dtype])


def quantize_dynamic(
    model: Module,
    qconfig_spec: Any = None,
    dtype: Any = qint8,
    mapping: dict[Any, Any] | None = None,
    inplace: bool = False,
) -> Module:
    """Return the model with weights in 8 bits, inputs of layers quantized as they come.

    Args:
        qconfig_spec: a set of classes or names of layers, or their qconfigs by class or name; by
            default {nn.Linear}, or {nn.Embedding} for quint8.
        dtype: `qint8`, or `quint8` for embeddings.
        mapping: the quantized class of each class of layers.
        inplace: change the model itself.

    Recurrent layers are not quantized: the default leaves them with a warning, and asking for them
    raises NotImplementedError.

    Example:
        >>> from rushlight.ao.quantization import quantize_dynamic
        >>> model = rushlight.nn.Sequential(rushlight.nn.Linear(4, 2))
        >>> quantize_dynamic(model, {rushlight.nn.Linear})[0].weight().dtype
        torch.qint8
    """
    configs = _dynamic_configs(qconfig_spec, dtype)
    mapping = _DYNAMIC if mapping is None else mapping
    for name, layer in model.named_modules():
        kind = type(layer)
        named = configs.get(name, configs.get(kind))
        if named is not None and (kind in (*_RECURRENT, nn.EmbeddingBag)) and kind not in mapping:
            text = (
                f"quantize_dynamic: {name or 'the model'} is a {kind.__name__}, of which there is"
            )
            if qconfig_spec is not None:
                raise NotImplementedError(f"{text} no quantized form")
            warnings.warn(f"{text} no quantized form: it stays as it is", stacklevel=2)
    model = (model if inplace else copy.deepcopy(model)).eval()
    propagate_qconfig_(model, configs)
    return convert(model, mapping, inplace=True)


def add_quant_dequant(module: Module) -> Module:
    """Return the model with each layer that has a qconfig between stubs of its own."""
    if not module._modules and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


__all__ = [
    "add_quant_dequant", "convert", "get_default_dynamic_quant_module_mappings",
    "get_default_qat_module_mappings", "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings", "prepare", "prepare_qat", "propagate_qconfig_",
    "quantize", "quantize_dynamic", "quantize_qat", "swap_module",
]  # fmt: skip
