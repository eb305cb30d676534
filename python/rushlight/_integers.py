"""Arguments that are one integer or several: Python's, NumPy's, and tensors of no dims."""

import operator


def is_integer(value):
    """Is the argument one integer?"""
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def integers(value):
    """The integers of an argument, as a tuple; a symbolic size stays what it is."""
    if not is_integer(value):
        return tuple(value)
    return (operator.index(value) if hasattr(value, "ndim") else value,)
