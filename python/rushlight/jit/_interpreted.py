"""Functions and modules that `script` cannot compile: they run as Python."""

from __future__ import annotations

import copy
import functools

from rushlight._ignored import warn_program
from rushlight.jit._errors import errors_of_scripts
from rushlight.jit._values import CompilationError
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def warn_interpreted(name: str, reason: Exception | str) -> None:
    """Say that something runs as Python, and why."""
    warn_program(f"{name} runs as Python, and cannot be saved: {reason}")


class MissingProgram(CompilationError, AttributeError):
    """What has no program has no attributes that show it: `hasattr` says so."""


class Interpreted:
    """What functions and modules that were not compiled have in common."""

    _reason: CompilationError

    @property
    def graph(self) -> NoReturn:
        """Raises MissingProgram, as there is none."""
        raise MissingProgram(str(self._reason))

    @property
    def code(self) -> NoReturn:
        """Raises MissingProgram, as there is none."""
        raise MissingProgram(str(self._reason))

    def save(self, f: Any, _extra_files: Any = None) -> NoReturn:
        """Raise CompilationError: only programs that were compiled are written to files."""
        raise self._reason


def interpreted_function(
    base: type, function: Callable[..., Any], reason: CompilationError
) -> Callable[..., Any]:
    """Return a `base` (ScriptFunction) that calls the function."""

    class InterpretedFunction(Interpreted, base):
        def __init__(self) -> None:
            self.original, self._reason = function, reason
            functools.update_wrapper(self, function)

        @errors_of_scripts
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    warn_interpreted(getattr(function, "__qualname__", str(function)), reason)
    return InterpretedFunction()


def interpreted_module(base: type, source: Module, reason: CompilationError) -> Module:
    """Return a `base` (ScriptModule) that calls the module, and shares all that it has."""
    warn_interpreted(type(source).__qualname__, reason)
    return _calls_of(base, source, reason)


def _calls_of(base, source, reason):

    class InterpretedModule(Interpreted, base):
        def __new__(cls) -> Any:
            return Module.__new__(cls)

        def __init__(self) -> None:
            Module.__init__(self)
            for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                self.__dict__[name] = source.__dict__[name]
            self.__dict__.update(_script_source=source, _reason=reason, training=source.training)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return source(*args, **kwargs)

        def train(self, mode: bool = True) -> Any:
            source.train(mode)
            self.__dict__["training"] = mode
            return self

        def eval(self) -> Any:
            return self.train(False)

        @errors_of_scripts
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return Module.__call__(self, *args, **kwargs)

        def __deepcopy__(self, memo: dict[int, Any]) -> Module:
            return _calls_of(base, copy.deepcopy(source, memo), reason)

        def __getattr__(self, name: str) -> Any:
            if name in vars(Interpreted):  # its property raised
                raise MissingProgram(str(self._reason))
            try:
                return Module.__getattr__(self, name)
            except AttributeError:
                return getattr(source, name)

    return InterpretedModule()
