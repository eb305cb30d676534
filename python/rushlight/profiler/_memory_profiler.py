"""Timelines of memory under the names of torch's inside, for libraries that draw them."""

from __future__ import annotations

import enum

from rushlight.profiler.memory_timeline import by_microseconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Category(enum.Enum):
    """What memory is for."""

    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


# In the order of the columns of a timeline; None is memory whose purpose is not known.
_CATEGORY_TO_COLORS = {
    Category.PARAMETER: "darkgreen",
    Category.OPTIMIZER_STATE: "goldenrod",
    Category.INPUT: "black",
    Category.TEMPORARY: "mediumpurple",
    Category.ACTIVATION: "red",
    Category.GRADIENT: "mediumblue",
    Category.AUTOGRAD_DETAIL: "royalblue",
    None: "grey",
}
_CATEGORY_TO_INDEX = {category: place for place, category in enumerate(_CATEGORY_TO_COLORS)}


class MemoryProfileTimeline:
    """The timeline of what `profile._memory_profile` returns."""

    def __init__(self, memory_profile: Any) -> None:
        self._recording = memory_profile

    def _coalesce_timeline(self, device_str: str) -> tuple[list[int], list[list[int]]]:
        """Return microseconds, and for each of them 0 and the bytes of each category."""
        if str(device_str) != "cpu":
            raise ValueError(f"_coalesce_timeline: the device must be 'cpu', not {device_str!r}")
        return by_microseconds(self._recording)
