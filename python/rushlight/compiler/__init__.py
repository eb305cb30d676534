"""Controls of the graph compiler, for programs that carry them: there is none, and operations run
as they are called.
"""

import contextlib

from rushlight._checks import compile


def disable(fn=None, recursive=True, *, reason=None):
    """Mark a function that must not be compiled: none is."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn):
    """Return the function, or functions, as they are."""
    return fn


def assume_constant_result(fn):
    """Return the function as it is."""
    return fn


def substitute_in_graph(original_fn, **options):
    """Mark a function that stands for another in compiled code: there is none."""
    return lambda function: function


def is_compiling():
    """Is this being compiled? Never."""
    return False


def is_dynamo_compiling():
    """Is this being compiled? Never."""
    return False


def is_exporting():
    """Is this being exported? Never."""
    return False


def cudagraph_mark_step_begin():
    """Mark the begin of an iteration."""


def reset():
    """Drop what was compiled: nothing."""


def list_backends(exclude_tags=("debug", "experimental")):
    """The names of the compilers that there are: none."""
    return []


@contextlib.contextmanager
def set_stance(stance="default", **options):
    """A context, or a call, that changes nothing."""
    yield


__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
    "substitute_in_graph",
]  # fmt: skip
