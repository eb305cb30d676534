"""Steps that call a function of each element."""

from __future__ import annotations

import inspect
from typing import Any

from rushlight.utils.data.collate import default_collate
from rushlight.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def _check_call(fn: Callable[..., Any], input_col: Any) -> None:
    """Raise ValueError if a function cannot be called with the parts that `input_col` names."""
    count = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    try:
        signature = inspect.signature(fn)
    except ValueError:  # of a function that is not of Python
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise ValueError(
            f"{fn!r} cannot be called with {count} positional arguments, which input_col="
            f"{input_col!r} gives it: {error}"
        ) from None


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """fn of each element, or of parts of it.

    Args:
        datapipe: the elements.
        fn: the function.
        input_col: which part, or parts, of an element the function takes; None for all of it.
        output_col: where the result goes: -1 for the end; None for the place of `input_col`.
    """

    def __init__(
        self,
        datapipe: Iterable[Any],
        fn: Callable[..., Any],
        input_col: Any = None,
        output_col: Any = None,
    ) -> None:
        super().__init__()
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        _check_call(fn, input_col)
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col

    def _apply_fn(self, data):
        if self.input_col is None:
            return self.fn(data)
        several = isinstance(self.input_col, (list, tuple))
        result = self.fn(*(data[c] for c in self.input_col)) if several else (
            self.fn(data[self.input_col])
        )  # fmt: skip
        changed = list(data) if isinstance(data, tuple) else data
        if self.output_col is None:
            if several:
                changed[self.input_col[0]] = result
                for place in sorted(self.input_col[1:], reverse=True):
                    del changed[place]
            else:
                changed[self.input_col] = result
        elif self.output_col == -1:
            changed.append(result)
        else:
            changed[self.output_col] = result
        return tuple(changed) if isinstance(data, tuple) else changed

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches made into tensors.

    Args:
        datapipe: the batches.
        conversion: a function for columns, or a dict of such: refused.
        collate_fn: the function; by default `default_collate`.
    """

    def __init__(
        self, datapipe: Iterable[Any], conversion: Any = default_collate, collate_fn: Any = None
    ) -> None:
        if isinstance(conversion, dict):
            raise NotImplementedError("Collator: a conversion for each column of a data frame")
        super().__init__(datapipe, collate_fn or conversion)
