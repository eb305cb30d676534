"""Marks for a compiler that is not here: what they decorate is returned as it is."""

from typing import TypeVar

from rushlight.jit import Final, _overload, _overload_method, export, ignore, is_scripting, unused
from rushlight.jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3

T = TypeVar("T")


def _copy_to_script_wrapper(fn):
    """Return the method as it is: modules are not compiled."""
    return fn


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that is `if_true` or `if_false`, as its argument `arg_name` says."""

    def chosen(*args, **kwargs):
        is_given = len(args) > arg_index
        choice = args[arg_index] if is_given else kwargs.get(arg_name, default)
        return (if_true if choice else if_false)(*args, **kwargs)

    chosen.__doc__ = if_true.__doc__ or if_false.__doc__
    chosen.__name__ = func_name or chosen.__name__
    chosen.__module__ = module_name or chosen.__module__
    return chosen


__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Final",
    "_copy_to_script_wrapper", "_overload", "_overload_method", "boolean_dispatch", "export",
    "ignore", "is_scripting", "unused",
]  # fmt: skip
