"""The `utils` namespace: data loading, checkpointing, TensorBoard, trees of containers, handles of
hooks."""

from __future__ import annotations

import importlib

from rushlight._set_module import set_module as _set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.utils import (
        _pytree as _pytree,
        checkpoint as checkpoint,
        collect_env as collect_env,
        cpp_extension as cpp_extension,
        data as data,
        deterministic as deterministic,
        dlpack as dlpack,
        hooks as hooks,
        model_zoo as model_zoo,
        tensorboard as tensorboard,
    )
    from rushlight.utils._summary import summary as summary
    from rushlight.utils.backend_registration import (
        generate_methods_for_privateuse1_backend as generate_methods_for_privateuse1_backend,
        rename_privateuse1_backend as rename_privateuse1_backend,
    )
    from rushlight.utils.throughput_benchmark import ThroughputBenchmark as ThroughputBenchmark

    cmake_prefix_path: str  # of the C++ library, where it is installed

_SUBMODULES = (
    "_contextlib", "_foreach_utils", "_mode_utils", "_python_dispatch", "_pytree", "_sympy",
    "_triton", "backcompat", "backend_registration", "checkpoint",
    "collect_env", "cpp_extension", "data", "deterministic", "dlpack", "flop_counter", "hooks",
    "model_zoo", "tensorboard", "throughput_benchmark", "weak",
)  # fmt: skip
_HOME = {
    "ThroughputBenchmark": "throughput_benchmark",
    "generate_methods_for_privateuse1_backend": "backend_registration",
    "rename_privateuse1_backend": "backend_registration",
    "summary": "_summary",
}


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchange two tensors: each object then has the elements, the class and the attributes of the
    other.

    Args:
        t1, t2: tensors that no weak reference refers to, leaves of no graph that is alive.

    Raises:
        RuntimeError: one of them has weak references or a graph.

    Example:
        >>> a, b = rushlight.ones(1), rushlight.zeros(2)
        >>> swap_tensors(a, b)
        >>> a
        tensor([0., 0.])
    """
    from rushlight.utils._swap import swap

    swap(t1, t2)


def set_module(obj: Any, mod: Any) -> None:
    """Let a class or function say that it lives in the module `mod`."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    _set_module(mod, obj)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        if name == "cmake_prefix_path":
            return importlib.import_module(f"{__name__}._cpp_library").cmake_prefix_path()
        if name in _SUBMODULES:
            try:
                return importlib.import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:  # `hasattr` asks too: of a library that is absent
                raise AttributeError(f"module {__name__!r} has no {name!r}: {error}") from error
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_SUBMODULES, *_HOME])
