"""Quantization of scripts, which is refused: scripts run as the Python that they were made of.

Quantize the model before `jit.script`, with `quantize`, `quantize_dynamic` or `convert_fx`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def _refuse(name: str, *given: object) -> NoReturn:
    del given
    raise NotImplementedError(
        f"{name}: passes over the graphs of scripts are not here; quantize the model before "
        "jit.script, with quantize_dynamic, convert or convert_fx"
    )


def script_qconfig(qconfig: Any) -> Any:
    """Refused: observers of scripts are not here."""
    _refuse("script_qconfig", qconfig)


def script_qconfig_dict(qconfig_dict: dict[str, Any]) -> Any:
    """Refused: observers of scripts are not here."""
    _refuse("script_qconfig_dict", qconfig_dict)


def fuse_conv_bn_jit(model: Any, inplace: bool = False) -> Any:
    """Refused: `fuse_modules` fuses the layers of a module."""
    _refuse("fuse_conv_bn_jit", model, inplace)


def prepare_jit(model: Any, qconfig_dict: dict[str, Any], inplace: bool = False) -> Any:
    """Refused: `prepare` and `prepare_fx` observe a module."""
    _refuse("prepare_jit", model, qconfig_dict, inplace)


def prepare_dynamic_jit(model: Any, qconfig_dict: dict[str, Any], inplace: bool = False) -> Any:
    """Refused: `quantize_dynamic` quantizes a module."""
    _refuse("prepare_dynamic_jit", model, qconfig_dict, inplace)


def convert_jit(
    model: Any,
    inplace: bool = False,
    debug: bool = False,
    preserved_attrs: list[str] | None = None,
) -> Any:
    """Refused: `convert` and `convert_fx` quantize a module."""
    _refuse("convert_jit", model, inplace, debug, preserved_attrs)


def convert_dynamic_jit(
    model: Any,
    inplace: bool = False,
    debug: bool = False,
    preserved_attrs: list[str] | None = None,
) -> Any:
    """Refused: `quantize_dynamic` quantizes a module."""
    _refuse("convert_dynamic_jit", model, inplace, debug, preserved_attrs)


def quantize_jit(
    model: Any,
    qconfig_dict: dict[str, Any],
    run_fn: Callable[..., Any],
    run_args: Any,
    inplace: bool = False,
    debug: bool = False,
) -> Any:
    """Refused: `quantize` quantizes a module."""
    _refuse("quantize_jit", model, qconfig_dict, run_fn, run_args, inplace, debug)


def quantize_dynamic_jit(
    model: Any, qconfig_dict: dict[str, Any], inplace: bool = False, debug: bool = False
) -> Any:
    """Refused: `quantize_dynamic` quantizes a module."""
    _refuse("quantize_dynamic_jit", model, qconfig_dict, inplace, debug)


__all__ = [
    "convert_dynamic_jit", "convert_jit", "fuse_conv_bn_jit", "prepare_dynamic_jit", "prepare_jit",
    "quantize_dynamic_jit", "quantize_jit", "script_qconfig", "script_qconfig_dict",
]  # fmt: skip
