"""Neural networks: layers, losses, start values and what they are built of."""

import importlib

from rushlight.nn import functional, init, modules, parameter, utils
from rushlight.nn.modules import *  # noqa: F403
from rushlight.nn.modules import __all__ as _layers
from rushlight.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    *_layers,
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "factory_kwargs",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]

# These two files have the names of their functions: the functions are bound before anything else
# imports the files and binds those.
for _name in ("spectral_norm", "weight_norm"):
    getattr(utils, _name)
del _name


def factory_kwargs(kwargs):
    """The `device`, `dtype` and `memory_format` in `kwargs` and in its `factory_kwargs`."""
    if kwargs is None:
        return {}
    known = {"device", "dtype", "memory_format"}
    unexpected = kwargs.keys() - known - {"factory_kwargs"}
    if unexpected:
        raise TypeError(f"factory_kwargs: unexpected keyword arguments {sorted(unexpected)}")
    chosen = dict(kwargs.get("factory_kwargs", {}))
    for name in known & kwargs.keys():
        if name in chosen:
            raise TypeError(f"factory_kwargs: {name} was given twice")
        chosen[name] = kwargs[name]
    return chosen


def __getattr__(name):
    if name in ("attention", "grad", "parallel", "quantized"):
        return importlib.import_module(f"rushlight.nn.{name}")
    if name == "DataParallel":
        from rushlight.nn.parallel import DataParallel

        return DataParallel
    raise AttributeError(f"module 'rushlight.nn' has no attribute '{name}'")
