"""Makes quantized models: observe, then convert; or weights alone, inputs as they come."""

from __future__ import annotations

import copy
import inspect

import rushlight
from rushlight import nn
from rushlight._absent_dtypes import qint8, quint4x2, quint8
from rushlight._ignored import warn_program as _warn_program
from rushlight.ao.nn import (
    intrinsic as _intrinsic,
    quantizable as _quantizable,
    quantized as _quantized,
)
from rushlight.ao.nn.quantized import _recurrent as _quantized_recurrent
from rushlight.ao.quantization.fake_quantize import FakeQuantizeBase
from rushlight.ao.quantization.observer import (
    MovingAveragePerChannelMinMaxObserver,
    ObserverBase,
    PerChannelMinMaxObserver,
)
from rushlight.ao.quantization.qconfig import (
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from rushlight.ao.quantization.quantization_mappings import (
    _get_special_act_post_process,
    _has_special_act_post_process,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
    no_observer_set,
)
from rushlight.ao.quantization.stubs import DeQuantStub, QuantWrapper
from rushlight.ao.quantization.utils import get_qparam_dict
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize as _parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_OF_CHANNELS = (PerChannelMinMaxObserver, MovingAveragePerChannelMinMaxObserver)


def get_default_custom_config_dict() -> dict[str, Any]:
    """Return which classes take part as a whole: recurrent layers and attention."""
    return {
        "float_to_observed_custom_module_class": {
            nn.LSTM: _quantizable.LSTM,
            nn.MultiheadAttention: _quantizable.MultiheadAttention,
        },
        "observed_to_quantized_custom_module_class": {
            _quantizable.LSTM: _quantized_recurrent.LSTM,
            _quantizable.MultiheadAttention: _quantized.MultiheadAttention,
        },
    }


def propagate_qconfig_(
    module: Module, qconfig_dict: dict[Any, Any] | None = None,
    prepare_custom_config_dict: Any = None,
) -> None:  # fmt: skip
    """Give each layer of a model the qconfig that names it, its class, or the module around it.

    Args:
        qconfig_dict: qconfigs by a layer's class or name; a layer's own goes first.
        prepare_custom_config_dict: under "non_traceable_module_name" and
            "non_traceable_module_class", what keeps its own.
    """
    custom = prepare_custom_config_dict or {}
    skipped = (
        *custom.get("non_traceable_module_name", ()),
        *custom.get("non_traceable_module_class", ()),
    )
    _propagate(module, qconfig_dict or {}, None, "", skipped)


def _propagate(module, configs, inherited, prefix, skipped):
    chosen = configs.get(
        prefix, configs.get(_parametrize.type_before_parametrizations(module), inherited)
    )
    module.qconfig = chosen = getattr(module, "qconfig", chosen)
    if isinstance(module, _TRANSPOSED) and chosen is not None and chosen.weight is not None:
        if isinstance(chosen.weight(), _OF_CHANNELS):
            raise AssertionError(
                "Per channel weight observer is not supported yet for ConvTranspose{n}d."
            )
    for name, child in module.named_children():
        if name not in skipped and _parametrize.type_before_parametrizations(child) not in skipped:
            _propagate(child, configs, chosen, f"{prefix}.{name}" if prefix else name, skipped)


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


def _add_observers(module, observed, whole, custom):
    for name, child in module.named_children():
        kind = _parametrize.type_before_parametrizations(child)
        if kind is nn.Dropout:
            continue
        if issubclass(kind, (_quantized.FloatFunctional, _quantized.QFunctional)):
            if getattr(child, "qconfig", None) is not None:
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, _intrinsic._FusedModule) or kind in whole:
            _add_observer(child)
        elif _has_special_act_post_process(child):
            _add_observer(child, _get_special_act_post_process(child))
        elif kind in custom and getattr(child, "qconfig", None) is not None:
            replaced = custom[kind].from_float(child)
            setattr(module, name, replaced)
            if not issubclass(custom[kind], tuple(no_observer_set())):
                _add_observer(replaced)
        else:
            _add_observers(child, observed, whole, custom)
    if (
        _parametrize.type_before_parametrizations(module) in observed
        and not isinstance(module, nn.Sequential)
        and (module._modules.keys() <= {"parametrizations"} or hasattr(module, "weight_fake_quant"))
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
        prepare_custom_config_dict: under "float_to_observed_custom_module_class", the classes that
            stand for others while they are observed; as of `get_default_custom_config_dict`.
    """
    if prepare_custom_config_dict is None:
        prepare_custom_config_dict = get_default_custom_config_dict()
    custom = prepare_custom_config_dict.get("float_to_observed_custom_module_class", {})
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model, None, prepare_custom_config_dict)
    if not any(getattr(layer, "qconfig", None) for layer in model.modules()):
        _warn_program("prepare: no module has a qconfig: none is observed")
    observed = get_default_qconfig_propagation_list() if allow_list is None else set(allow_list)
    _add_observers(model, observed, set(observer_non_leaf_module_list or ()), custom)
    return model


def swap_module(
    mod: Module, mapping: dict[Any, Any], custom_module_class_mapping: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:  # fmt: skip
    """Return what a mapping makes of one layer, or the layer.

    Args:
        custom_module_class_mapping: classes whose `from_observed` takes the layer.
    """
    kind, custom = _parametrize.type_before_parametrizations(mod), custom_module_class_mapping or {}
    if getattr(mod, "qconfig", None) is None or not (kind in custom or kind in mapping):
        return mod
    if kind in custom:
        new = custom[kind].from_observed(mod)
    else:
        new = _from_float(mapping[kind], mod, use_precomputed_fake_quant)
    for hook in mod._forward_pre_hooks.values():
        if hook is not _observe_input:
            new.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observe:
            new.register_forward_hook(hook)
    return new.train(mod.training)


def _from_float(kind, mod, precomputed):
    if getattr(kind, "_IS_REFERENCE", False):
        observer = mod.qconfig.weight()
        observer(mod.weight)
        return kind.from_float(mod, get_qparam_dict(observer))
    if "use_precomputed_fake_quant" in inspect.signature(kind.from_float).parameters:
        return kind.from_float(mod, use_precomputed_fake_quant=precomputed)
    return kind.from_float(mod)


def _convert(module, mapping, custom, precomputed):
    for name, child in list(module.named_children()):
        # What is fused, observed as a whole or trained with a norm is replaced as a whole.
        if not (
            isinstance(child, (_intrinsic._FusedModule, ObserverBase, FakeQuantizeBase))
            or _parametrize.type_before_parametrizations(child) in custom
            or hasattr(child, "weight_fake_quant")
        ):
            _convert(child, mapping, custom, precomputed)
        swapped = swap_module(child, mapping, custom, precomputed)
        if swapped is not child:
            module._modules[name] = swapped


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
        is_reference: replace by the classes of `ao.nn.quantized.reference`, in float32.
        convert_custom_config_dict: under "observed_to_quantized_custom_module_class", the classes
            whose `from_observed` is used; as of `get_default_custom_config_dict`.
        use_precomputed_fake_quant: keep the weights' scales as training left them.
    """
    if convert_custom_config_dict is None:
        convert_custom_config_dict = get_default_custom_config_dict()
    custom = convert_custom_config_dict.get("observed_to_quantized_custom_module_class", {})
    module = module if inplace else copy.deepcopy(module)
    if mapping is None:
        mapping = get_default_static_quant_module_mappings()
        if is_reference:
            mapping = get_default_static_quant_reference_module_mappings()
    _convert(module, mapping, custom, use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def default_eval_fn(model: Module, calib_data: Iterable[Any]) -> None:
    """Run a model on the inputs of pairs of an input and a target."""
    for data, _ in calib_data:
        model(data)


def quantize(
    model: Module, run_fn: Callable[..., Any], run_args: Any,
    mapping: dict[Any, Any] | None = None, inplace: bool = False,
) -> Module:  # fmt: skip
    """Return the quantized model: `prepare`, `run_fn(model, *run_args)`, `convert`."""
    mapping = get_default_static_quant_module_mappings() if mapping is None else mapping
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
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
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


_DYNAMIC_CONFIGS = {
    qint8: default_dynamic_qconfig, rushlight.float16: float16_dynamic_qconfig,
    quint8: float_qparams_weight_only_qconfig, quint4x2: float_qparams_weight_only_qconfig_4bit,
}  # fmt: skip
_MULTIPLYING = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)


def _dynamic_configs(spec, dtype):
    if isinstance(spec, dict):
        return spec
    if dtype not in _DYNAMIC_CONFIGS:
        raise ValueError(
            f"quantize_dynamic: dtype must be one of {[*_DYNAMIC_CONFIGS]}, got {dtype}"
        )
    if spec is None:
        multiplied = dtype in (qint8, rushlight.float16)
        spec = _MULTIPLYING if multiplied else (nn.EmbeddingBag, nn.Embedding)
        spec = (nn.EmbeddingBag,) if dtype is quint4x2 else spec
    return dict.fromkeys(spec, _DYNAMIC_CONFIGS[dtype])


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
            default `nn.Linear`, recurrent layers and cells, or embeddings for quint8.
        dtype: `qint8`, `float16`, or `quint8` for embeddings.
        mapping: the quantized class of each class of layers.
        inplace: change the model itself.

    Example:
        >>> from rushlight.ao.quantization import quantize_dynamic
        >>> model = rushlight.nn.Sequential(rushlight.nn.Linear(4, 2))
        >>> quantize_dynamic(model, {rushlight.nn.Linear})[0].weight().dtype
        torch.qint8
    """
    configs = _dynamic_configs(qconfig_spec, dtype)
    mapping = get_default_dynamic_quant_module_mappings() if mapping is None else mapping
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
    "add_quant_dequant", "convert", "get_default_custom_config_dict",
    "get_default_dynamic_quant_module_mappings", "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list", "get_default_static_quant_module_mappings", "prepare",
    "prepare_qat", "propagate_qconfig_", "quantize", "quantize_dynamic", "quantize_qat",
    "swap_module",
]  # fmt: skip
