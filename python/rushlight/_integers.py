"""Arguments that are one integer or several: Python's, NumPy's, and tensors of no dims."""

from _operator import index  # what `operator` would be one more module for


def is_integer(value):
    """Is the argument one integer?"""
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def integers(value):
    """The integers of an argument, as a tuple; a symbolic size stays what it is."""
    if not is_integer(value):
        return tuple(value)
    return (index(value) if hasattr(value, "ndim") else value,)
