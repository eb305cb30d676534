"""Which observers a layer gets, for its result and for its weight."""

from __future__ import annotations

import functools
from typing import NamedTuple

import rushlight
from rushlight._absent_dtypes import qint8
from rushlight._ignored import warn_program as _warn_program
from rushlight.ao.quantization import fake_quantize as _fake, observer as _observers
from rushlight.ao.quantization.fake_quantize import FakeQuantize, FusedMovingAvgObsFakeQuantize
from rushlight.ao.quantization.observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    PlaceholderObserver,
)
from rushlight.nn.modules.linear import Identity
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Observers(NamedTuple):
    activation: Callable[..., Any]
    weight: Callable[..., Any]


class QConfig(_Observers):
    """Constructors of the observers of a layer's result and of its weight.

    Example:
        >>> from rushlight.ao.quantization import MinMaxObserver, QConfig, default_weight_observer
        >>> config = QConfig(activation=MinMaxObserver, weight=default_weight_observer)
        >>> config.weight().quant_max
        127
    """

    __slots__ = ()

    def __new__(cls, activation: Callable[..., Any], weight: Callable[..., Any]) -> QConfig:
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "QConfig: expected constructors of observers, got an observer; "
                "MyObserver.with_args(x=1) gives a constructor with arguments"
            )
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None

_per_channel_weight = _observers.default_per_channel_weight_observer
_weight = _observers.default_weight_observer
default_qconfig: QConfig = QConfig(_observers.default_observer, _weight)
default_debug_qconfig: QConfig = QConfig(_observers.default_debug_observer, _weight)
default_per_channel_qconfig: QConfig = QConfig(_observers.default_observer, _per_channel_weight)
default_dynamic_qconfig: QConfig = QConfig(_observers.default_dynamic_quant_observer, _weight)
float16_dynamic_qconfig: QConfig = QConfig(
    PlaceholderObserver.with_args(dtype=rushlight.float16, is_dynamic=True),
    PlaceholderObserver.with_args(dtype=rushlight.float16),
)
float16_static_qconfig: QConfig = QConfig(
    PlaceholderObserver.with_args(dtype=rushlight.float16),
    PlaceholderObserver.with_args(dtype=rushlight.float16),
)
per_channel_dynamic_qconfig: QConfig = QConfig(
    _observers.default_dynamic_quant_observer, _per_channel_weight
)
float_qparams_weight_only_qconfig: QConfig = QConfig(
    _observers.default_placeholder_observer, _observers.default_float_qparams_observer
)
float_qparams_weight_only_qconfig_4bit: QConfig = QConfig(
    _observers.default_placeholder_observer, _observers.default_float_qparams_observer_4bit
)
default_qat_qconfig: QConfig = QConfig(_fake.default_fake_quant, _fake.default_weight_fake_quant)
default_dynamic_qat_qconfig: QConfig = QConfig(
    _fake.default_dynamic_fake_quant, _fake.default_weight_fake_quant
)
default_weight_only_qconfig: QConfig = QConfig(Identity, _fake.default_weight_fake_quant)
default_activation_only_qconfig: QConfig = QConfig(_fake.default_fake_quant, Identity)
default_qat_qconfig_v2: QConfig = QConfig(
    _fake.default_fused_act_fake_quant, _fake.default_fused_wt_fake_quant
)
default_reuse_input_qconfig: QConfig = QConfig(
    _observers.default_reuse_input_observer, NoopObserver
)
default_symmetric_qnnpack_qconfig: QConfig = QConfig(
    HistogramObserver.with_args(dtype=qint8, reduce_range=False, eps=2**-12),
    _observers.weight_observer_range_neg_127_to_127,
)
default_per_channel_symmetric_qnnpack_qconfig: QConfig = QConfig(
    HistogramObserver.with_args(dtype=qint8, reduce_range=False, eps=2**-12),
    _observers.per_channel_weight_observer_range_neg_127_to_127,
)
_qnnpack_activation = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    reduce_range=False, eps=2**-12,
)  # fmt: skip
default_symmetric_qnnpack_qat_qconfig: QConfig = QConfig(
    _qnnpack_activation, _fake.fused_wt_fake_quant_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qat_qconfig: QConfig = QConfig(
    _qnnpack_activation, _fake.fused_per_channel_wt_fake_quant_range_neg_127_to_127
)
default_embedding_qat_qconfig_4bit: QConfig = QConfig(
    NoopObserver.with_args(dtype=rushlight.float32), _fake.default_embedding_fake_quant_4bit
)
default_embedding_qat_qconfig: QConfig = QConfig(
    NoopObserver.with_args(dtype=rushlight.float32), _fake.default_embedding_fake_quant
)
default_quint8_weight_qconfig: QConfig = QConfig(HistogramObserver, MinMaxObserver)


class QConfigDynamic(_Observers):
    """The older form of a `QConfig` for inputs that are quantized as they come."""

    __slots__ = ()

    def __new__(
        cls, activation: Callable[..., Any] = Identity, weight: Callable[..., Any] = Identity
    ) -> QConfigDynamic:
        _warn_program("QConfigDynamic is deprecated; use QConfig instead")
        if isinstance(weight, Module):
            raise ValueError("QConfigDynamic: expected a constructor of observers, got an observer")
        return super().__new__(cls, activation, weight)


# Backend -> whether results use 7 bits, and whether weights have a scale per channel.
_BACKENDS = {
    "fbgemm": (True, True), "x86": (True, True), "qnnpack": (False, False), "onednn": (False, True),
}  # fmt: skip


def _backend(name, backend, version, versions):
    if backend not in _BACKENDS:
        raise AssertionError(f"{name}: backend must be one of {list(_BACKENDS)}, got {backend!r}")
    if version not in versions:
        raise AssertionError(f"{name}: version must be one of {list(versions)}, got {version}")
    return _BACKENDS[backend]


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """Return the observers for quantization after training.

    Args:
        backend: "x86", "fbgemm", "onednn" or "qnnpack", as torch names its kernels; it decides
            whether results use 7 or 8 bits and whether each channel has a scale.
    """
    reduced, per_channel = _backend("get_default_qconfig", backend, version, (0,))
    weight = _per_channel_weight if per_channel else _weight
    return QConfig(HistogramObserver.with_args(reduce_range=reduced), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """Return the fake-quantizing modules for training with quantization in view.

    Args:
        backend: as of `get_default_qconfig`.
        version: 1 has fused modules, 0 separate observers.
    """
    reduced, per_channel = _backend("get_default_qat_qconfig", backend, version, (0, 1))
    kind = FusedMovingAvgObsFakeQuantize if version else FakeQuantize
    weights = {
        (0, True): _fake.default_per_channel_weight_fake_quant,
        (0, False): _fake.default_weight_fake_quant,
        (1, True): _fake.default_fused_per_channel_wt_fake_quant,
        (1, False): _fake.default_fused_wt_fake_quant,
    }
    activation = kind.with_args(
        observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, reduce_range=reduced
    )
    return QConfig(activation, weights[version, per_channel])


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Any]:
    """The older form of `get_default_qconfig_mapping`."""
    from rushlight.ao.quantization.qconfig_mapping import get_default_qconfig_mapping

    _warn_program(
        "get_default_qconfig_dict is deprecated; use get_default_qconfig_mapping instead",
        FutureWarning,
    )
    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[str, Any]:
    """The older form of `get_default_qat_qconfig_mapping`."""
    from rushlight.ao.quantization.qconfig_mapping import get_default_qat_qconfig_mapping

    _warn_program(
        "get_default_qat_qconfig_dict is deprecated; use get_default_qat_qconfig_mapping instead",
        FutureWarning,
    )
    return get_default_qat_qconfig_mapping(backend, version).to_dict()


def _parts(constructor):
    """What a constructor makes, its arguments, and those that are computed when it is called."""
    keywords: dict[str, Any] = {}
    computed: dict[str, Any] = {}
    while True:
        if isinstance(constructor, _observers._PartialWrapper):
            computed = {**constructor.callable_args, **computed}
            constructor = constructor.p
        elif isinstance(constructor, functools.partial):
            keywords = {**constructor.keywords, **keywords}
            constructor = constructor.func
        else:
            break
    keywords = {
        name: _parts(value) if isinstance(value, _observers._PartialWrapper) else value
        for name, value in keywords.items()
    }
    return constructor, keywords, computed


def _partial_wrapper_equals(obs_or_fq1: Any, obs_or_fq2: Any) -> bool:
    return _parts(obs_or_fq1) == _parts(obs_or_fq2)


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Tell whether two qconfigs make the same observers, with the same arguments."""
    if q1 is None or q2 is None:
        return q1 is q2
    return all(map(_partial_wrapper_equals, q1, q2))


__all__ = [
    "QConfig", "QConfigAny", "QConfigDynamic", "default_activation_only_qconfig",
    "default_debug_qconfig", "default_dynamic_qat_qconfig", "default_dynamic_qconfig",
    "default_embedding_qat_qconfig", "default_embedding_qat_qconfig_4bit",
    "default_per_channel_qconfig", "default_per_channel_symmetric_qnnpack_qat_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig", "default_qat_qconfig",
    "default_qat_qconfig_v2", "default_qconfig", "default_quint8_weight_qconfig",
    "default_reuse_input_qconfig", "default_symmetric_qnnpack_qat_qconfig",
    "default_symmetric_qnnpack_qconfig", "default_weight_only_qconfig", "float16_dynamic_qconfig",
    "float16_static_qconfig", "float_qparams_weight_only_qconfig",
    "float_qparams_weight_only_qconfig_4bit", "get_default_qat_qconfig",
    "get_default_qat_qconfig_dict", "get_default_qconfig", "get_default_qconfig_dict",
    "per_channel_dynamic_qconfig", "qconfig_equals",
]  # fmt: skip
