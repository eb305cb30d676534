"""Which qconfig each part of a model gets, by class, name or place."""

from __future__ import annotations

from collections import OrderedDict

import rushlight
from rushlight import nn
from rushlight.ao.quantization.fake_quantize import (
    FixedQParamsFakeQuantize,
    default_weight_fake_quant,
)
from rushlight.ao.quantization.observer import (
    PlaceholderObserver,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_weight_observer,
)
from rushlight.ao.quantization.qconfig import (
    QConfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_KNOWN_RANGE = {
    default_fixed_qparams_range_0to1_observer: (
        nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid,
        rushlight.sigmoid, "sigmoid", "sigmoid_", nn.Softmax,
    ),
    default_fixed_qparams_range_neg1to1_observer: (nn.Tanh, rushlight.tanh, "tanh", "tanh_"),
}  # fmt: skip
_TRANSPOSED = (
    nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, F.conv_transpose1d,
    F.conv_transpose2d, F.conv_transpose3d,
)  # fmt: skip


class QConfigMapping:
    """Which qconfig each part of a model gets; later rules in this list go before earlier ones.

    A global one, by class or function, by pattern of names, by name, by place of a function.

    Example:
        >>> from rushlight.ao.quantization import QConfigMapping, default_qconfig
        >>> mapping = QConfigMapping().set_object_type(rushlight.nn.Linear, default_qconfig)
        >>> mapping.to_dict()[""] is None
        True
    """

    def __init__(self) -> None:
        self.global_qconfig: Any = None
        self.object_type_qconfigs: OrderedDict[Any, Any] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[Any, Any] = OrderedDict()

    def set_global(self, global_qconfig: Any) -> QConfigMapping:
        """Set the qconfig of what no other rule names."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Any, qconfig: Any) -> QConfigMapping:
        """Set the qconfig of a class of modules, a function, or a method by its name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: Any) -> QConfigMapping:
        """Set the qconfig of modules whose whole name matches a regular expression."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: Any) -> QConfigMapping:
        """Set the qconfig of a module and what is in it."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Callable[..., Any], index: int, qconfig: Any
    ) -> QConfigMapping:
        """Set the qconfig of one call.

        Args:
            module_name: of the module that calls.
            object_type: the class or function that is called.
            index: which of the calls of that in the module, from 0.
        """
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for name, value in vars(self).items():
            text += f"\n {name}"
            if isinstance(value, OrderedDict) and value:
                text += "".join(f"\n  {key}: {qconfig}" for key, qconfig in value.items())
            else:
                text += f"\n  {value}"
        return text + "\n)"

    def to_dict(self) -> dict[str, Any]:
        """Return the rules in the older form, a dict."""
        return {
            "": self.global_qconfig,
            "object_type": list(self.object_type_qconfigs.items()),
            "module_name_regex": list(self.module_name_regex_qconfigs.items()),
            "module_name": list(self.module_name_qconfigs.items()),
            "module_name_object_type_order": [
                (*key, qconfig)
                for key, qconfig in self.module_name_object_type_order_qconfigs.items()
            ],
        }

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        """Return the mapping that a dict in the older form means."""
        mapping = cls().set_global(qconfig_dict.get("", None))
        for key, add in (
            ("object_type", mapping.set_object_type),
            ("module_name_regex", mapping.set_module_name_regex),
            ("module_name", mapping.set_module_name),
            ("module_name_object_type_order", mapping.set_module_name_object_type_order),
        ):
            for entry in qconfig_dict.get(key, ()):
                add(*entry)
        return mapping


def _default_mapping(is_qat, backend, version):
    choose = get_default_qat_qconfig if is_qat else get_default_qconfig
    qconfig = choose(backend, version)
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    # Kernels of transposed convolutions that have one scale for the whole weight.
    one_scale = backend in ("fbgemm", "x86")
    transposed = QConfig(qconfig.activation, weight) if one_scale else qconfig
    # The weight of a layer norm is not quantized.
    norm = QConfig(qconfig.activation, PlaceholderObserver)
    mapping = QConfigMapping().set_global(qconfig)
    mapping.set_object_type("reshape", default_reuse_input_qconfig)
    for kind in _TRANSPOSED:
        mapping.set_object_type(kind, transposed)
    for kind in (F.layer_norm, nn.LayerNorm):
        mapping.set_object_type(kind, norm)
    mapping.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    for observer, kinds in _KNOWN_RANGE.items():
        activation = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
        for kind in kinds:
            mapping.set_object_type(kind, QConfig(activation, weight))
    return mapping


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """Return the qconfigs for quantization after training.

    Args:
        backend, version: as of `get_default_qconfig`.
    """
    return _default_mapping(False, backend, version)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """Return the qconfigs for training with quantization in view.

    Args:
        backend, version: as of `get_default_qat_qconfig`.
    """
    return _default_mapping(True, backend, version)


__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]
