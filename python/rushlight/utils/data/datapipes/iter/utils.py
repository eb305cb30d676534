"""The step at the beginning: an iterable."""

from __future__ import annotations

import copy
from typing import Any

from rushlight._ignored import warn_program as _warn_program
from rushlight.utils.data.datapipes.datapipe import IterDataPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class IterableWrapperIterDataPipe(IterDataPipe[Any]):
    """The elements of an iterable.

    Args:
        iterable: what has them.
        deepcopy: each time they are asked for, a copy is taken first, so that changes of elements
            are not seen the next time.
    """

    def __init__(self, iterable: Any, deepcopy: bool = True) -> None:
        super().__init__()
        self.iterable: Any = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # a generator cannot be copied
                _warn_program(
                    "The input iterable can not be deepcopied, please be aware of in-place "
                    "modification would affect source data.",
                )
        yield from source

    def __len__(self) -> int:
        return len(self.iterable)
