"""TorchScript's decorators, for programs that carry them: what they decorate runs as Python."""

import builtins
import contextlib
from typing import Any, Final

from rushlight.serialization import load as _load
from rushlight.serialization import save as _save


def script(obj=None, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Return the function, class or module as it is: there is nothing to compile."""
    return obj if obj is not None else lambda o: o


def trace(func, example_inputs=None, *args, **options):
    """Return the function or module as it is, unrecorded: it stays free to branch on its data."""
    return func


def trace_module(mod, inputs=None, *args, **options):
    """Return the module as it is."""
    return mod


def ignore(drop=False, **options):
    """Marks what TorchScript leaves to Python: everything is."""
    return drop if callable(drop) else lambda function: function


def unused(function):
    """Marks what TorchScript must not compile: nothing is."""
    return function


def export(function):
    """Marks a method to compile: none is."""
    return function


def _overload(function):
    return function  # the signatures of a function, for TorchScript


def _overload_method(function):
    return function


def interface(obj):
    """Marks an interface class."""
    return obj


def script_if_tracing(function):
    """Marks a function to compile when traced: nothing is traced."""
    return function


_script_if_tracing = script_if_tracing


def is_scripting():
    """Is this being compiled? Never."""
    return False


def is_tracing():
    """Is this being traced? Never."""
    return False


def annotate(the_type, the_value):
    """Return the value."""
    return the_value


def isinstance(obj, target_type):
    """Is obj of the type, or of one of them?"""
    return builtins.isinstance(obj, target_type)


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """Return the module as it is."""
    return mod


def optimize_for_inference(mod, other_methods=None):
    """Return the module as it is."""
    return mod


def fork(func, *args, **kwargs):
    """Call the function and return a future of its result."""
    from rushlight.futures import Future

    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """Wait for a future and return its value."""
    return future.wait()


def save(m, f, _extra_files=None):
    """Save a module, as rushlight.save does."""
    _save(m, f)


def load(f, map_location=None, _extra_files=None):
    """Load what save wrote; programs saved by TorchScript itself are refused."""
    return _load(f, map_location, weights_only=False)


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """A context that changes nothing."""
    yield


class ScriptModule:
    """No object is one: `isinstance(m, ScriptModule)` tells compiled modules."""


class ScriptFunction:
    """No object is one."""


def Attribute(value, type: Any):
    """Return the value: its type is what it is."""
    return value


__all__ = [
    "Attribute", "Final", "ScriptFunction", "ScriptModule", "annotate", "export", "fork", "freeze",
    "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "optimize_for_inference", "optimized_execution", "save", "script", "script_if_tracing", "trace",
    "trace_module", "unused", "wait",
]  # fmt: skip
