"""Quantization in eager mode: observers, fake quantization, prepare and convert.

`quantize_fx` does the same to traced models. docs/quantization.md has a guide, and what is missing.
"""

from __future__ import annotations

from typing import Any

from rushlight._set_module import set_module as _set_module
from rushlight.ao.quantization import (
    fake_quantize as _fake_quantize,
    fuse_modules as _fuse_modules,
    fuser_method_mappings as _fuser_method_mappings,
    observer as _observer,
    qconfig as _qconfig,
    qconfig_mapping as _qconfig_mapping,
    quant_type as _quant_type,
    quantization_mappings as _quantization_mappings,
    quantize as _quantize,
    quantize_jit as _quantize_jit,
    stubs as _stubs,
    weight_only as _weight_only,
)
from rushlight.ao.quantization.fake_quantize import *  # noqa: F403
from rushlight.ao.quantization.fuse_modules import *  # noqa: F403
from rushlight.ao.quantization.fuser_method_mappings import *  # noqa: F403
from rushlight.ao.quantization.observer import *  # noqa: F403
from rushlight.ao.quantization.qconfig import *  # noqa: F403
from rushlight.ao.quantization.qconfig_mapping import *  # noqa: F403
from rushlight.ao.quantization.quant_type import *  # noqa: F403
from rushlight.ao.quantization.quantization_mappings import *  # noqa: F403
from rushlight.ao.quantization.quantize import *  # noqa: F403
from rushlight.ao.quantization.quantize import default_eval_fn
from rushlight.ao.quantization.quantize_jit import *  # noqa: F403
from rushlight.ao.quantization.stubs import *  # noqa: F403
from rushlight.ao.quantization.utils import MatchAllNode, Pattern, get_combined_dict
from rushlight.ao.quantization.weight_only import *  # noqa: F403

_set_module(__name__, default_eval_fn)
ObserverOrFakeQuantize = _observer.ObserverBase | _fake_quantize.FakeQuantizeBase

__all__ = [
    "MatchAllNode", "ObserverOrFakeQuantize", "Pattern", "default_eval_fn", "get_combined_dict"
]  # fmt: skip
__all__ += _fake_quantize.__all__
__all__ += _fuse_modules.__all__
__all__ += _fuser_method_mappings.__all__
__all__ += _observer.__all__
__all__ += _qconfig.__all__
__all__ += _qconfig_mapping.__all__
__all__ += _quant_type.__all__
__all__ += _quantization_mappings.__all__
__all__ += _quantize.__all__
__all__ += _quantize_jit.__all__
__all__ += _stubs.__all__
__all__ += _weight_only.__all__


def __getattr__(name: str) -> Any:
    if name in ("backend_config", "fx", "quantize_fx"):
        import importlib

        return importlib.import_module(f"rushlight.ao.quantization.{name}")
    raise AttributeError(f"module 'rushlight.ao.quantization' has no attribute {name!r}")
