"""Steps that leave elements out."""

from __future__ import annotations

from typing import Any

from rushlight.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from rushlight.utils.data.datapipes.iter.callable import _check_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[Any]):
    """The elements of which a function says True.

    Args:
        datapipe: the elements.
        filter_fn: the function.
        input_col: which part, or parts, of an element it takes; None for all of it.
    """

    def __init__(self, datapipe: Iterable[Any], filter_fn: Any, input_col: Any = None) -> None:
        super().__init__()
        _check_call(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        for element in self.datapipe:
            if self.input_col is None:
                keep = self.filter_fn(element)
            elif isinstance(self.input_col, (list, tuple)):
                keep = self.filter_fn(*(element[c] for c in self.input_col))
            else:
                keep = self.filter_fn(element[self.input_col])
            if not isinstance(keep, bool):
                raise ValueError(
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe, got "
                    f"{type(keep)}"
                )
            if keep:
                yield element
