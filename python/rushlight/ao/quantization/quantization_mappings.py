"""Which class replaces which when a model is quantized."""

from __future__ import annotations

import copy

from rushlight import nn
from rushlight.ao.nn import (
    intrinsic as _intrinsic,
    qat as _qat,
    quantizable as _quantizable,
    quantized as _quantized,
    sparse as _sparse,
)
from rushlight.ao.nn.intrinsic import qat as _fused_qat, quantized as _fused
from rushlight.ao.nn.intrinsic.quantized import dynamic as _fused_dynamic
from rushlight.ao.nn.qat import dynamic as _qat_dynamic
from rushlight.ao.nn.quantized import dynamic as _dynamic, reference as _reference
from rushlight.ao.quantization.fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from rushlight.ao.quantization.stubs import DeQuantStub, QuantStub
from rushlight.nn import functional as F
from rushlight.nn.modules.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.utils import parametrize as _parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DIMS = ("1d", "2d", "3d")


def _of_dims(kind: str, source: Any, target: Any, dims: tuple[str, ...] = _DIMS) -> dict[Any, Any]:
    """The classes `kind` + "2d" and so on of one module, and those of the same name in another."""
    return {getattr(source, kind + dim): getattr(target, kind + dim) for dim in dims}


DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    QuantStub: _quantized.Quantize,
    DeQuantStub: _quantized.DeQuantize,
    nn.Linear: _reference.Linear,
    **_of_dims("Conv", nn, _reference),
    **_of_dims("ConvTranspose", nn, _reference),
    nn.Embedding: _reference.Embedding,
    nn.EmbeddingBag: _reference.EmbeddingBag,
    nn.GRUCell: _reference.GRUCell,
    nn.LSTMCell: _reference.LSTMCell,
    nn.RNNCell: _reference.RNNCell,
    nn.LSTM: _reference.LSTM,
}
DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    QuantStub: _quantized.Quantize,
    DeQuantStub: _quantized.DeQuantize,
    **_of_dims("BatchNorm", nn, _quantized, ("2d", "3d")),
    nn.Dropout: _quantized.Dropout,
    **_of_dims("Conv", nn, _quantized),
    **_of_dims("ConvTranspose", nn, _quantized),
    nn.ELU: _quantized.ELU,
    nn.Embedding: _quantized.Embedding,
    nn.EmbeddingBag: _quantized.EmbeddingBag,
    nn.GroupNorm: _quantized.GroupNorm,
    nn.Hardswish: _quantized.Hardswish,
    **_of_dims("InstanceNorm", nn, _quantized),
    nn.LayerNorm: _quantized.LayerNorm,
    nn.LeakyReLU: _quantized.LeakyReLU,
    NonDynamicallyQuantizableLinear: _quantized.Linear,
    nn.Linear: _quantized.Linear,
    nn.ReLU6: _quantized.ReLU6,
    nn.PReLU: _quantized.PReLU,
    _quantized.FloatFunctional: _quantized.QFunctional,
    **_of_dims("BNReLU", _intrinsic, _fused, ("2d", "3d")),
    **_of_dims("ConvReLU", _intrinsic, _fused),
    _intrinsic.ConvAdd2d: _fused.ConvAdd2d,
    _intrinsic.ConvAddReLU2d: _fused.ConvAddReLU2d,
    _intrinsic.LinearReLU: _fused.LinearReLU,
    _intrinsic.LinearLeakyReLU: _fused.LinearLeakyReLU,
    _intrinsic.LinearTanh: _fused.LinearTanh,
    **{getattr(_fused_qat, f"ConvBn{dim}"): getattr(_quantized, f"Conv{dim}") for dim in _DIMS},
    **{getattr(_fused_qat, f"ConvBnReLU{dim}"): getattr(_fused, f"ConvReLU{dim}") for dim in _DIMS},
    **_of_dims("ConvReLU", _fused_qat, _fused),
    _fused_qat.LinearReLU: _fused.LinearReLU,
    _fused_qat.LinearBn1d: _quantized.Linear,
    _qat.Linear: _quantized.Linear,
    **_of_dims("Conv", _qat, _quantized),
}
DEFAULT_QAT_MODULE_MAPPINGS: dict[Any, Any] = {
    **_of_dims("Conv", nn, _qat, ("2d", "3d")),
    nn.Linear: _qat.Linear,
    NonDynamicallyQuantizableLinear: _qat.Linear,
    **_of_dims("ConvBn", _intrinsic, _fused_qat),
    **_of_dims("ConvBnReLU", _intrinsic, _fused_qat),
    **_of_dims("ConvReLU", _intrinsic, _fused_qat, ("2d", "3d")),
    _intrinsic.LinearReLU: _fused_qat.LinearReLU,
    _intrinsic.LinearBn1d: _fused_qat.LinearBn1d,
}
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    nn.GRUCell: _dynamic.GRUCell,
    nn.Linear: _dynamic.Linear,
    _qat_dynamic.Linear: _dynamic.Linear,
    NonDynamicallyQuantizableLinear: _dynamic.Linear,
    nn.LSTM: _dynamic.LSTM,
    nn.GRU: _dynamic.GRU,
    nn.LSTMCell: _dynamic.LSTMCell,
    nn.RNNCell: _dynamic.RNNCell,
    _intrinsic.LinearReLU: _fused_dynamic.LinearReLU,
    nn.EmbeddingBag: _quantized.EmbeddingBag,
    nn.Embedding: _quantized.Embedding,
}
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS: dict[Any, Any] = {
    F.elu: _quantized.functional.elu,
    F.hardswish: _quantized.functional.hardswish,
    F.leaky_relu: _quantized.functional.leaky_relu,
}
DEFAULT_MODULE_TO_ACT_POST_PROCESS: dict[Any, Any] = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}
DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {nn.Linear: _sparse.quantized.Linear}
DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    nn.Linear: _sparse.quantized.dynamic.Linear
}


def no_observer_set() -> set[Any]:
    """Return the classes of modules whose results are not observed as a whole."""
    return {_quantizable.LSTM, _quantizable.MultiheadAttention}


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """Return the quantized class of each class of layers."""
    return copy.copy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_static_quant_reference_module_mappings() -> dict[Any, Any]:
    """Return the class with a rounded weight of each class of layers."""
    return copy.copy(DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings() -> dict[Any, Any]:
    """Return the quantized class of each class of layers, those trained as embeddings included."""
    mapping = get_default_static_quant_module_mappings()
    mapping[_qat.EmbeddingBag] = _quantized.EmbeddingBag
    mapping[_qat.Embedding] = _quantized.Embedding
    return mapping


def get_default_static_sparse_quant_module_mappings() -> dict[Any, Any]:
    """Return the class with a weight that is zero in blocks of each class of layers."""
    return copy.copy(DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS)


def get_default_dynamic_sparse_quant_module_mappings() -> dict[Any, Any]:
    """As `get_default_static_sparse_quant_module_mappings`, for inputs as they come."""
    return copy.copy(DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """Return the fake-quantized class of each class of layers."""
    return copy.copy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings() -> dict[Any, Any]:
    """Return the fake-quantized class of each class of layers, embeddings included."""
    return {
        **DEFAULT_QAT_MODULE_MAPPINGS,
        nn.EmbeddingBag: _qat.EmbeddingBag,
        nn.Embedding: _qat.Embedding,
    }


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """Return the dynamically quantized class of each class of layers."""
    return copy.copy(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def _class_of(float_module_class, mapping, additional):
    found = {**mapping, **(additional or {})}.get(float_module_class)
    if found is None:
        raise AssertionError(f"{float_module_class} has no quantized class")
    return copy.deepcopy(found)


def get_static_quant_module_class(
    float_module_class: Any,
    additional_static_quant_mapping: dict[Any, Any] | None = None,
    is_reference: bool = False,
) -> Any:
    """Return the quantized class of a class of layers.

    Args:
        additional_static_quant_mapping: classes that go before the usual ones.
        is_reference: the class in float32 with a rounded weight.
    """
    mapping = DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    if is_reference:
        mapping = DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS
    return _class_of(float_module_class, mapping, additional_static_quant_mapping)


def get_dynamic_quant_module_class(
    float_module_class: Any, additional_dynamic_quant_mapping: dict[Any, Any] | None = None
) -> Any:
    """Return the dynamically quantized class of a class of layers.

    Args:
        additional_dynamic_quant_mapping: classes that go before the usual ones.
    """
    mapping = DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
    return _class_of(float_module_class, mapping, additional_dynamic_quant_mapping)


def _relevant(*mappings):
    return {kind for mapping in mappings for kind in mapping}


def get_default_qconfig_propagation_list() -> set[Any]:
    """Return the classes of layers whose results `prepare` observes."""
    mappings = (
        DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS,
        DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    )  # fmt: skip
    return {*_relevant(*mappings), nn.Sequential}


def get_default_compare_output_module_list() -> set[Any]:
    """Return the classes, quantized and not, whose results comparisons of models look at."""
    mappings = (
        DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS,
        DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    )  # fmt: skip
    classes = _relevant(*mappings)
    for mapping in mappings:
        classes.update(mapping.values())
    return classes - {QuantStub, DeQuantStub, _quantized.Quantize, _quantized.DeQuantize}


def get_default_float_to_quantized_operator_mappings() -> dict[Any, Any]:
    """Return the quantized function of each function that has one."""
    return copy.copy(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op: Any) -> Callable[..., Any]:
    """Return the quantized function of a function."""
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if found is None:
        raise AssertionError(f"{float_op} has no quantized function")
    return found


def _has_special_act_post_process(module: Any) -> bool:
    kind = _parametrize.type_before_parametrizations(module)
    return module.training and kind in DEFAULT_MODULE_TO_ACT_POST_PROCESS


def _get_special_act_post_process(module: Any) -> Any:
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(_parametrize.type_before_parametrizations(module))


__all__ = [
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS", "DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS",
    "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS", "DEFAULT_MODULE_TO_ACT_POST_PROCESS",
    "DEFAULT_QAT_MODULE_MAPPINGS", "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS", "DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS",
    "get_default_compare_output_module_list", "get_default_dynamic_quant_module_mappings",
    "get_default_dynamic_sparse_quant_module_mappings",
    "get_default_float_to_quantized_operator_mappings", "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list", "get_default_static_quant_module_mappings",
    "get_default_static_quant_reference_module_mappings",
    "get_default_static_sparse_quant_module_mappings", "get_dynamic_quant_module_class",
    "get_embedding_qat_module_mappings", "get_embedding_static_quant_module_mappings",
    "get_quantized_operator", "get_static_quant_module_class", "no_observer_set",
]  # fmt: skip
