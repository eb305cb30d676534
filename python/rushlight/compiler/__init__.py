"""Controls of the graph compiler, for programs that carry them: there is none, and operations run
as they are called.
"""

from __future__ import annotations

import contextlib
import functools
import types

import rushlight
from rushlight import _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def compile(*args: Any, **kwargs: Any) -> Any:
    """See `rushlight.compile`."""
    return rushlight.compile(*args, **kwargs)


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: Any = None
) -> Callable[..., Any]:
    """Mark a function that must not be compiled: none is."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: Callable[..., Any]) -> Any:
    """Return the function, or functions, as they are."""
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Any:
    """Return the function as it is."""
    return fn


def substitute_in_graph(
    original_fn: Callable[..., Any], **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a function that stands for another in compiled code: there is none."""
    return lambda function: function


def is_compiling() -> bool:
    """Is this being compiled? Never."""
    return False


def is_dynamo_compiling() -> bool:
    """Is this being compiled? Never."""
    return False


def is_exporting() -> bool:
    """Is this being exported? Never."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Mark the begin of an iteration."""


def reset() -> None:
    """Drop what was compiled: nothing."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of the compilers that there are: none."""
    return []


@contextlib.contextmanager
def set_stance(stance: str = "default", **options: Any) -> Iterator[Any]:
    """A context, or a call, that changes nothing."""
    yield


config: Any = types.SimpleNamespace(job_id=None, force_disable_caches=True)
_default_backend: list[Any] = ["eager"]


def get_default_backend() -> Any:
    """What `set_default_backend` named."""
    return _default_backend[0]


def set_default_backend(backend: Any) -> None:
    """Name the compiler that `compile` takes by default; None for the first one, "eager".

    `compile` runs a function as it is, whatever is named.
    """
    _default_backend[0] = "eager" if backend is None else backend


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Whether ranks agree on when to compile again: they never compile. Returns what was set."""
    before = getattr(config, "guard_collectives", False)
    config.guard_collectives = bool(enabled)
    return before


def save_cache_artifacts() -> None:
    """What has been compiled, to be loaded elsewhere: None, as nothing has."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """Load what `save_cache_artifacts` gave: nothing is there to be loaded."""


def nested_compile_region(
    fn: Callable[..., Any] | None = None,
    *,
    options: Any = None,
    max_reuse_entries: int = 8,
    reuse_hash_fn: Any = None,
) -> Callable[..., Any]:
    """Mark a function that would be compiled once for all its calls: it runs as it is."""
    return fn if fn is not None else lambda function: function


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays as a function of tensors.

    Tensors among its arguments are given as arrays, and arrays that it returns become tensors.
    There is no gradient through it.

    Example:
        >>> import numpy
        >>> double = rushlight.compiler.wrap_numpy(lambda a: numpy.add(a, a))
        >>> double(rushlight.tensor([1, 2]))
        tensor([2, 4])
    """

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        import numpy

        from rushlight.utils import _pytree

        def to_array(value):
            return value.detach().numpy() if isinstance(value, rushlight.Tensor) else value

        def to_tensor(value):
            return rushlight.as_tensor(value) if isinstance(value, numpy.ndarray) else value

        args, kwargs = _pytree.tree_map(to_array, (args, kwargs))
        return _pytree.tree_map(to_tensor, fn(*args, **kwargs))

    return wrapped


globals().update(
    _absent.refused(
        {
            "load_compiled_function": "functions run as they are: no file holds a compiled one",
            "keep_portable_guards_unsafe": "nothing is compiled, so that there are no guards",
            "keep_tensor_guards_unsafe": "nothing is compiled, so that there are no guards",
            "skip_all_guards_unsafe": "nothing is compiled, so that there are no guards",
            "skip_guard_on_all_nn_modules_unsafe": "nothing is compiled, so there are no guards",
            "skip_guard_on_globals_unsafe": "nothing is compiled, so that there are no guards",
            "skip_guard_on_inbuilt_nn_modules_unsafe": "nothing is compiled: there are no guards",
        }
    )
)

__all__ = [
    "config", "get_default_backend", "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe",
    "load_cache_artifacts", "load_compiled_function", "nested_compile_region",
    "save_cache_artifacts", "set_default_backend", "set_enable_guard_collectives",
    "skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe", "wrap_numpy",
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
    "substitute_in_graph",
]  # fmt: skip
