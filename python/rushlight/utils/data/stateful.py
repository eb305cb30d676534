"""A `DataLoader` whose position can be saved and continued from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rushlight.utils.data.dataloader import DataLoader, _T_co
from rushlight.utils.data.progress import Progress


class StatefulDataLoader(DataLoader[_T_co]):
    """A `DataLoader` that continues in mid-epoch, to the bit.

    Arguments are those of `DataLoader`. `state_dict()` gives the position after the last batch that
    was yielded, also with workers and their random generators; after `load_state_dict` in a new
    process, the next epoch is the rest of the saved one. The global generators of the main process
    are the program's to save, with `get_rng_state`.

    It has the name and the two methods of torchdata's, by which trainers recognise a loader that
    they may save. `DataLoader` itself does not have them, for it does not do the work that they
    need: noting the state of the generators with each batch.

    Example:
        >>> loader = StatefulDataLoader([1, 2, 3, 4, 5], batch_size=2)
        >>> next(iter(loader))
        tensor([1, 2])
        >>> state = loader.state_dict()
        >>> loader = StatefulDataLoader([1, 2, 3, 4, 5], batch_size=2)
        >>> loader.load_state_dict(state)
        >>> list(loader)
        [tensor([3, 4]), tensor([5])]
    """

    _resumable = True
    _progress = None  # of the last epoch begun; another thread may begin one
    _loaded_state = None

    def __iter__(self) -> Iterator[Any]:
        if self._loaded_state is not None and self._iterator is not None:
            self._iterator.close()
            self._iterator = None
        return super().__iter__()

    def _start_epoch(self, previous=None):
        state, self._loaded_state = self._loaded_state, None
        progress = self._progress = Progress(self, state, previous)
        return progress

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "_progress": None}

    def state_dict(self) -> Any:
        """Return the position after the last batch yielded, for `load_state_dict`."""
        epoch = self._loaded_state
        if epoch is None and self._progress is not None:
            epoch = self._progress.state_dict(self.num_workers == 0 or self.persistent_workers)
        return {"num_workers": self.num_workers, "epoch": epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict` at the next iteration.

        Args:
            state_dict: from a loader with the same dataset, sampling and number of workers.
        """
        if state_dict["num_workers"] != self.num_workers:
            raise ValueError(
                "StatefulDataLoader.load_state_dict: saved with"
                f" num_workers={state_dict['num_workers']}, this loader has"
                f" num_workers={self.num_workers}"
            )
        self._progress = None
        self._loaded_state = state_dict["epoch"]
