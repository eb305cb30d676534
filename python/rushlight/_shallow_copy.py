"""Whether a tensor may come to have the data of another: what a module's conversion asks."""

from __future__ import annotations

from rushlight.overrides import _make_overridable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def _has_compatible_shallow_copy_type(input: Tensor, other: Tensor, /) -> bool:
    """Is `input.data = other` possible: not between the meta device and a real one?"""
    return input.is_meta == other.is_meta and input.layout == other.layout


_make_overridable(globals(), "rushlight", only=("_has_compatible_shallow_copy_type",))
