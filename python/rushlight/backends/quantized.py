"""PyTorch's libraries for quantized tensors, by name: here all of them compute alike.

`engine` is the one that a program has chosen, and what it gives to
`ao.quantization.get_default_qconfig`.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

supported_engines: list[str] = ["qnnpack", "onednn", "x86", "fbgemm"]
engine = "x86"


class _Engines(ModuleType):
    """A module whose `engine` is one of those that it lists."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "engine" and value not in supported_engines:
            raise RuntimeError(f"{value} is not a valid value for quantized engine")
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Engines
