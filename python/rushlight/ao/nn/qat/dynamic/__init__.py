"""Layers trained with rounded weights, for dynamic quantization."""

from __future__ import annotations

from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.nn import qat as _qat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Linear(_qat.Linear):
    """`nn.Linear` whose weight passes `qconfig.weight()`, for dynamic quantization."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        averaging = getattr(
            getattr(qconfig.activation(), "activation_post_process", qconfig.activation()),
            "averaging_constant", None,
        )  # fmt: skip
        if averaging not in (None, 1):
            raise ValueError(
                "Dynamic QAT requires a memoryless observer.This means a MovingAverage observer "
                f"with averaging constant equal to 1, got {averaging}"
            )


__all__ = ["Linear"]

_add_modules(__name__, {"modules": "*", "modules.linear": "*"})
