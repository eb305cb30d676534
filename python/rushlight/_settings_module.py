"""Modules of options that programs set, and put back: nothing depends on them."""

import contextlib
import functools


class patch(contextlib.ContextDecorator):
    """A context, or decorator, in which options of a module have other values.

    Args:
        module: the module.
        changes: a dict, or a name followed by its value.
        kwargs: options by name.
    """

    def __init__(self, module, changes=None, value=None, **kwargs):
        if isinstance(changes, str):
            changes = {changes: value}
        self._module, self._changes = module, {**(changes or {}), **kwargs}

    def __enter__(self):
        self._before = {name: getattr(self._module, name) for name in self._changes}
        for name, value in self._changes.items():
            setattr(self._module, name, value)

    def __exit__(self, *exception):
        for name, value in self._before.items():
            setattr(self._module, name, value)


def patch_of(module):
    """`patch` of one module."""
    return functools.partial(patch, module)
