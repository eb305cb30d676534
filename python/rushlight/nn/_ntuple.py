"""One number for all dims, or one for each."""

from collections.abc import Iterable
from itertools import repeat


def _ntuple(n, name="parse"):
    def parse(x):
        if isinstance(x, Iterable) and getattr(x, "ndim", 1) != 0:
            return tuple(x)
        return tuple(repeat(x, n))

    parse.__name__ = name
    return parse
