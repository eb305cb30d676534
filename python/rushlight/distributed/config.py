"""Choices that other libraries offer: here they are made, and setting one raises."""

from __future__ import annotations

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

compile_on_one_rank = False
use_torchcomms = False


class _Fixed(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("compile_on_one_rank", "use_torchcomms") and value:
            raise NotImplementedError(f"distributed.config.{name}: only False is supported")
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Fixed

__all__ = ["compile_on_one_rank", "use_torchcomms"]
