"""The import paths under which libraries know the parts of `rushlight.func`."""

import importlib

_SUBMODULES = (
    "apis", "batch_norm_replacement", "eager_transforms", "functional_call", "make_functional",
    "pyfunctorch", "vmap",
)  # fmt: skip


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
