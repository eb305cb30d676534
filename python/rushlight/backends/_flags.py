"""Switches that are assigned for a while."""

import contextlib


@contextlib.contextmanager
def assigned(module, values):
    """The attributes in `values` have these values inside the context; None leaves one as it is."""
    values = {name: value for name, value in values.items() if value is not None}
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
