"""Neural networks: layers, losses, start values and what they are built of."""

from __future__ import annotations

import importlib
from typing import Any

from rushlight.nn import (
    functional as functional,
    init as init,
    modules as modules,
    parameter as parameter,
    utils as utils,
)
from rushlight.nn.modules import *  # noqa: F403
from rushlight.nn.parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn import (
        attention as attention,
        grad as grad,
        parallel as parallel,
        quantized as quantized,
    )
    from rushlight.nn.parallel import DataParallel as DataParallel

if not TYPE_CHECKING:  # who reads types reads the imports
    __all__ = sorted(
        [
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
            *modules.__all__,
        ]
    )

# These two files have the names of their functions: the functions are bound before anything else
# imports the files and binds those.
for _name in ("spectral_norm", "weight_norm"):
    getattr(utils, _name)
del _name


def factory_kwargs(kwargs: Any) -> Any:
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


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        parts = "attention grad intrinsic parallel qat quantizable quantized"
        if name in parts.split():
            return importlib.import_module(f"rushlight.nn.{name}")
        if name == "DataParallel":
            from rushlight.nn.parallel import DataParallel

            return DataParallel
        raise AttributeError(f"module 'rushlight.nn' has no attribute '{name}'")
