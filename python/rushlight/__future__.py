"""Switches for behaviour of `nn.Module` conversions such as `module.to(...)`."""

_flags = {"overwrite_module_params_on_conversion": False, "swap_module_params_on_conversion": False}


def set_overwrite_module_params_on_conversion(value):
    """Choose whether conversions replace parameters (True) or change their data (False)."""
    _flags["overwrite_module_params_on_conversion"] = value


def get_overwrite_module_params_on_conversion():
    """Say whether conversions replace parameters."""
    return _flags["overwrite_module_params_on_conversion"]


def set_swap_module_params_on_conversion(value):
    """Choose whether conversions swap the contents of parameters, which keeps references valid."""
    _flags["swap_module_params_on_conversion"] = value


def get_swap_module_params_on_conversion():
    """Say whether conversions swap the contents of parameters."""
    return _flags["swap_module_params_on_conversion"]
