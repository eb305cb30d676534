"""Functions and modules as graphs: `trace` records a run, `script` reads the source.

Both give what `rushlight.export` gives: a graph of operations of the table, with branches and loops
where the source has them. What a graph cannot hold is refused, by name and line.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
from typing import Any, Final

from rushlight import _C, _absent
from rushlight._ignored import warn_program as _warn_program
from rushlight._set_module import set_module as _set_module
from rushlight.export._record import Recorder as _Recorder
from rushlight.jit._errors import Error as Error
from rushlight.jit._modules import (
    CompilationError,
    ScriptFunction,
    ScriptModule,
    freeze,
    load,
    optimize_for_inference,
    save,
    script,
    trace,
    trace_module,
)
from rushlight.jit._script_members import ScriptObject as _ScriptObject
from rushlight.jit._state import _enabled  # noqa: F401 (libraries ask it)
from rushlight.jit._tracer import TracerWarning
from rushlight.jit._written import script_method

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from rushlight.futures import Future

    _T = TypeVar("_T")

_set_module(
    "rushlight.jit", CompilationError, ScriptFunction, ScriptModule, freeze, load,
    optimize_for_inference, save, script, script_method, trace, trace_module, TracerWarning,
)  # fmt: skip


def ignore(drop: Any = False, **options: Any) -> Any:
    """Marks a function that `script` must not compile: it refuses to, by name."""
    if callable(drop):
        return unused(drop)
    if drop not in (True, False):
        raise RuntimeError(f"jit.ignore: expected a bool or a function, got {drop!r}")
    older = options.pop("drop_on_export", False)
    if options:
        raise TypeError(f"jit.ignore: unexpected arguments {', '.join(options)}")
    if drop or older:
        _warn_program(
            "jit.ignore: drop and drop_on_export are deprecated: write jit.unused", FutureWarning
        )
    return unused


def unused(function: _T) -> _T:
    """Marks a function, or property, that `script` must not compile: it refuses to, by name."""
    given = function.fget if builtins.isinstance(function, property) else function
    given._jit_unused = True
    return function


def export(function: _T) -> _T:
    """Marks a method to compile: those that `forward` calls are."""
    return function


def _overload(function):
    return function  # the signatures of a function, for TorchScript


def _overload_method(function):
    return function


def interface(obj: Any) -> Any:
    """Marks an interface class."""
    return obj


def script_if_tracing(function: _T) -> _T:
    """Marks a function to compile when traced: what it calls is recorded all the same."""
    return function


_script_if_tracing = script_if_tracing
RecursiveScriptModule = ScriptModule  # which in torch is what `script` makes of a module


def is_scripting() -> bool:
    """Is this being compiled? Compiled code answers True."""
    return False


def is_tracing() -> bool:
    """Is this being traced?"""
    modes = (_C._get_function_stack_at(i) for i in range(_C._len_torch_function_stack()))
    return any(builtins.isinstance(mode, _Recorder) for mode in modes)


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> Any:
    """Is obj of the type, or of one of them, with what it contains, as `List[int]` says?

    Raises:
        RuntimeError: the type is a container without what it contains.
    """
    from rushlight.jit._isinstance import is_of

    return is_of(obj, target_type)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Call the function and return a future of its result."""
    from rushlight.futures import Future

    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """Wait for a future and return its value."""
    if future is None:
        raise RuntimeError("jit.wait: Future can't be None")
    return future.wait()


_fork, _wait = fork, wait


@contextlib.contextmanager
def optimized_execution(should_optimize: Any) -> Iterator[Any]:
    """A context that changes nothing."""
    yield


def _get_trace_graph(f, args=(), kwargs=None, **options):
    """(graph, result) of a run, as TorchScript's tracer writes it: see `_trace_graph`."""
    from rushlight.jit._trace_graph import get_trace_graph

    return get_trace_graph(f, args, kwargs, **options)


def Attribute(value: Any, type: Any) -> Any:
    """Return the value: its type is what it is."""
    return value


_fusion = [("STATIC", 2), ("DYNAMIC", 10)]


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """How often a fused kernel would be compiled anew: none is compiled. Returns what was set.

    Raises:
        ValueError: a kind is neither "STATIC" nor "DYNAMIC".
    """
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise ValueError(f"set_fusion_strategy: expected STATIC or DYNAMIC, got {kind!r}")
    before, _fusion[:] = list(_fusion), strategy
    return before


class strict_fusion:
    """A context in which all operations would have to be in one kernel.

    Raises:
        NotImplementedError: operations run as they are called.
    """

    def __enter__(self) -> None:
        raise NotImplementedError("jit.strict_fusion: operations run as they are called")

    def __exit__(self, *exception: object) -> None:
        pass


def onednn_fusion_enabled() -> bool:
    """Does oneDNN fuse the operations of graphs? No."""
    return False


def enable_onednn_fusion(enabled: bool) -> None:
    """Have oneDNN fuse the operations of graphs.

    Raises:
        NotImplementedError: `enabled` is True.
    """
    if enabled:
        raise NotImplementedError("jit.enable_onednn_fusion: graphs run operation by operation")


def export_opnames(m: Any) -> list[str]:
    """The names of the operations in a traced or scripted module, sorted."""
    names = {
        target.name()
        for target in (node.target for node in m.graph.nodes if node.op == "call_function")
        if hasattr(target, "name")
    }
    return sorted(names)


def _unique_state_dict(module, keep_vars=False):
    """The state of a module, with what has several names under the first of them."""
    seen, unique = set(), {}
    for name, value in module.state_dict(keep_vars=True).items():
        if id(value) not in seen:
            seen.add(id(value))
            unique[name] = value if keep_vars else value.detach()
    return unique


def __getattr__(name: str) -> Any:
    if name == "frontend":
        return importlib.import_module("rushlight.jit.frontend")
    if name == "Future":
        from rushlight.futures import Future

        return Future
    raise AttributeError(f"module 'rushlight.jit' has no attribute {name!r}")


globals().update(
    _absent.refused(
        {
            "CompilationUnit": "give `script` a function or a module",
            "ScriptClassFunction": "classes are not compiled",
        }
    )
)
_set_module("rushlight", ScriptClassFunction, _ScriptObject)  # noqa: F821  (made above)

__all__ = [
    "CompilationUnit", "Future", "enable_onednn_fusion", "export_opnames", "onednn_fusion_enabled",
    "set_fusion_strategy", "strict_fusion",
    "Attribute", "CompilationError", "Final", "ScriptFunction", "ScriptModule", "annotate",
    "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing",
    "isinstance", "load",
    "optimize_for_inference", "optimized_execution", "save", "script", "script_if_tracing",
    "script_method", "trace", "trace_module", "unused", "wait",
]  # fmt: skip
