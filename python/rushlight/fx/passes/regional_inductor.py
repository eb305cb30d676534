"""Compiling parts of graphs."""

from rushlight import _absent

_ABSENT = _absent.refused(
    {
        "regional_inductor": "there is no Inductor to compile a region with; compile a function "
        "by torch.compile"
    }
)
globals().update(_ABSENT)

__all__ = list(_ABSENT)
