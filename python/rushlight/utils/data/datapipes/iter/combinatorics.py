"""Steps that change the order."""

from __future__ import annotations

from typing import Any

from rushlight.utils.data.datapipes.datapipe import (
    IterDataPipe,
    _Shuffled,
    functional_datapipe,
)
from rushlight.utils.data.sampler import SequentialSampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class SamplerIterDataPipe(IterDataPipe[Any]):
    """The indices that a sampler gives.

    Args:
        datapipe: what the sampler is of.
        sampler: its class, by default `SequentialSampler`.
        sampler_args, sampler_kwargs: what the class takes beside.
    """

    def __init__(
        self,
        datapipe: Iterable[Any],
        sampler: Any = SequentialSampler,
        sampler_args: Any = None,
        sampler_kwargs: Any = None,
    ) -> None:
        super().__init__()
        if not hasattr(datapipe, "__len__"):
            raise AssertionError("Sampler: the datapipe must have a length")
        self.datapipe: Iterable[Any] = datapipe
        kwargs = {} if sampler_kwargs is None else dict(sampler_kwargs)
        kwargs["data_source"] = datapipe
        self.sampler: Any = sampler(*(() if sampler_args is None else sampler_args), **kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(_Shuffled):
    """The elements in a random order: each is drawn from a buffer that the next one fills again.

    Args:
        datapipe: the elements.
        buffer_size: how many the buffer holds.
        unbatch_level: how deep batches are taken apart first.
    """

    def __init__(
        self, datapipe: Iterable[Any], *, buffer_size: int = 10000, unbatch_level: int = 0
    ) -> None:
        super().__init__()
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe: Any = datapipe if unbatch_level == 0 else datapipe.unbatch(
            unbatch_level=unbatch_level
        )  # fmt: skip
        self.buffer_size: int = buffer_size

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        draw, buffer = self._generator(), []
        for element in self.datapipe:
            if len(buffer) == self.buffer_size:
                place = draw.randint(0, len(buffer) - 1)
                chosen, buffer[place] = buffer[place], element
                yield chosen
            else:
                buffer.append(element)
        while buffer:
            yield buffer.pop(draw.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return len(self.datapipe)
