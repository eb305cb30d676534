"""`out=` of functions that are written in Python."""

import rushlight


def into(out, result):
    """The result, or `out` with the result in it, resized and checked as an operation does it."""
    return result if out is None else rushlight.alias_copy(result, out=out)
