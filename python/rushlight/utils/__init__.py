"""The `utils` namespace: data loading, checkpointing, TensorBoard, trees of containers, handles of
hooks."""

import importlib

_SUBMODULES = (
    "_pytree", "checkpoint", "collect_env", "cpp_extension", "data", "deterministic", "dlpack",
    "hooks", "model_zoo", "tensorboard",
)  # fmt: skip


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_SUBMODULES])
