"""Classes that a program derives from `ScriptModule`."""

from __future__ import annotations

from rushlight._ignored import warn_of
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_OWN = {"rushlight.jit._modules", "rushlight.jit._interpreted"}


class ScriptModuleMeta(type(Module)):
    """Makes a class derived from `ScriptModule`, in a program, one of modules with source.

    A `ScriptModule` itself runs a graph that is there when it is made. That of a program's class
    follows from its source, once its `__init__` has run.
    """

    def __new__(meta, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        ours = "_is_own_class" in body or body.get("__module__") in _OWN
        if not ours:
            bases = tuple(WrittenModule if type(b) is ScriptModuleMeta else b for b in bases)
            return type(Module)(name, tuple(dict.fromkeys(bases)), body)
        return super().__new__(meta, name, bases, body)

    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, WrittenModule)

    def __subclasscheck__(cls, kind: type) -> bool:
        return super().__subclasscheck__(kind) or issubclass(kind, WrittenModule)


class WrittenModule(Module):
    """A module of a class derived from `ScriptModule`. It runs as Python; what it is asked for as a
    script, its graph, its code or a file, is of what `script` compiles of it then.
    """

    def __init__(self, optimize: Any = None) -> None:
        super().__init__()
        warn_of("jit.ScriptModule", "graphs run operation by operation", optimize=optimize)

    def _scripted(self) -> Any:
        from rushlight.jit._modules import scripted_from_source

        return scripted_from_source(self)

    def __getattr__(self, name: str) -> Any:
        from rushlight.jit._modules import ScriptModule

        if name in _SCRIPTED or (not name.startswith("_") and hasattr(ScriptModule, name)):
            return getattr(self._scripted(), name)
        return super().__getattr__(name)


_SCRIPTED = {"_c", "_program", "_save_for_lite_interpreter"}


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a method to compile, of a class derived from `ScriptModule`.

    Example:
        >>> class Twice(torch.jit.ScriptModule):
        ...     @torch.jit.script_method
        ...     def forward(self, x):
        ...         return x + x
        >>> Twice()(torch.ones(2))
        tensor([2., 2.])
    """
    return fn
