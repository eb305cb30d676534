"""Checks of sizes, which exported programs here have as guards."""

from rushlight import _absent

_ABSENT = _absent.refused(
    {
        "insert_deferred_runtime_asserts": "there is no environment of symbolic shapes whose "
        "checks could be put into a graph: an exported program checks its inputs by its "
        "guards, and has the checks on the way as nodes"
    }
)
globals().update(_ABSENT)

__all__ = list(_ABSENT)
