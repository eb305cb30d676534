"""Arguments that are one integer or several: Python's, NumPy's, and tensors of no dims."""


def is_integer(value):
    """Is the argument one integer?"""
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def integers(value):
    """The integers of an argument, as a tuple; a symbolic size stays what it is."""
    if not is_integer(value):
        return tuple(value)
    return (value.__index__() if hasattr(value, "ndim") else value,)


def wrapped_dim(dim, ndim):
    """The place of a dim among so many, where negative ones count from the end; IndexError if there
    is none.
    """
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got "
            f"{dim})"
        )
    return dim % ndim
