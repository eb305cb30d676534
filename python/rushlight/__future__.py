"""Switches for behaviour of `nn.Module` conversions such as `module.to(...)`."""

from __future__ import annotations

_flags = {"overwrite_module_params_on_conversion": False, "swap_module_params_on_conversion": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions replace parameters (True) or change their data (False)."""
    _flags["overwrite_module_params_on_conversion"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Say whether conversions replace parameters."""
    return _flags["overwrite_module_params_on_conversion"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions swap the contents of parameters, which keeps references valid."""
    _flags["swap_module_params_on_conversion"] = value


def get_swap_module_params_on_conversion() -> bool:
    """Say whether conversions swap the contents of parameters."""
    return _flags["swap_module_params_on_conversion"]
