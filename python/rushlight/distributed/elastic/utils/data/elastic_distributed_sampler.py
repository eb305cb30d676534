"""The rest of an epoch, for the processes that go on with it."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.utils.data import DistributedSampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class ElasticDistributedSampler(DistributedSampler[Any]):
    """A DistributedSampler of what an epoch that was interrupted has left.

    Args:
        dataset: the data.
        num_replicas, rank: the processes; those of the process group by default.
        start_index: how many examples are done.
    """

    num_samples: int
    total_size: int
    start_index: int

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        start_index: int = 0,
    ) -> None:
        super().__init__(dataset, num_replicas, rank)
        if not 0 <= start_index < len(dataset):
            raise ValueError(
                f"Start index {start_index} should be less than dataset size {len(dataset)}"
            )
        self.start_index = start_index
        self.num_samples = math.ceil((len(dataset) - start_index) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        draw = rushlight.Generator()
        draw.manual_seed(self.epoch)
        left = len(self.dataset) - self.start_index
        order = rushlight.randperm(left, generator=draw).add(self.start_index).tolist()
        order += order[: self.total_size - len(order)]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples


__all__ = ["ElasticDistributedSampler"]
