"""The sampler that gives each process of a distributed run its own part of a dataset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import rushlight
from rushlight.utils.data.sampler import Sampler, _T_co


class DistributedSampler(Sampler[_T_co]):
    """One process's share of a dataset; all shares have the same length.

    Args:
        dataset: the dataset; its length must be the same in all processes.
        num_replicas: number of processes; by default that of the process group.
        rank: this process's number; by default that in the process group.
        shuffle: visit in an order drawn from `seed` and the epoch.
        seed: must be the same in all processes.
        drop_last: drop the tail that does not divide evenly, instead of repeating some samples.

    Call `set_epoch` before each epoch, or every epoch has the same order.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            if not rushlight.distributed.is_initialized():
                raise ValueError(
                    "DistributedSampler: Default process group has not been initialized: give "
                    "num_replicas and rank, or call init_process_group"
                )
        if num_replicas is None:
            num_replicas = rushlight.distributed.get_world_size()
        if rank is None:
            rank = rushlight.distributed.get_rank()
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: Invalid rank {rank}, which should be in the interval "
                f"[0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas: Any = num_replicas
        self.rank: Any = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        if drop_last:
            self.num_samples = len(dataset) // num_replicas
        else:
            self.num_samples: int = math.ceil(len(dataset) / num_replicas)
        self.total_size: int = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[Any]:
        indices = range(len(self.dataset))
        if self.shuffle:
            generator = rushlight.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = rushlight.randperm(len(indices), generator=generator).tolist()
        # Going round again evens out the shares; with drop_last the total is short instead.
        even = itertools.islice(itertools.cycle(indices), self.total_size)
        return itertools.islice(even, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next epoch."""
        self.epoch: int = epoch
