"""Steps that change the order."""

from __future__ import annotations

import random

import rushlight
from rushlight.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from rushlight.utils.data.sampler import SequentialSampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from typing_extensions import Self


class SamplerIterDataPipe(IterDataPipe):
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
        self.datapipe: Iterable[Any] = datapipe
        kwargs = {} if sampler_kwargs is None else dict(sampler_kwargs)
        kwargs["data_source"] = datapipe
        self.sampler: Any = sampler(*(() if sampler_args is None else sampler_args), **kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe):
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
            raise ValueError("buffer_size should be larger than 0")
        self.datapipe: Any = datapipe if unbatch_level == 0 else datapipe.unbatch(
            unbatch_level=unbatch_level
        )  # fmt: skip
        self.buffer_size: int = buffer_size
        self._enabled, self._seed = True, None

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Say whether the order changes at all. Returns self."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """Give the next order its seed. Returns self."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        seed, self._seed = self._seed, None
        if seed is None:
            seed = int(rushlight.empty((), dtype=rushlight.int64).random_())
        draw, buffer = random.Random(seed), []
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
