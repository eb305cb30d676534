"""How far a loader is in an epoch, in a form that another process can continue from."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.utils.data import random_state
from rushlight.utils.data.sampler import BatchSampler, draw_seed

# What a worker's position keeps from one epoch to the next, where the worker itself lives on.
_LASTING = ("random", "dataset")


def _is_stateful(thing):
    return hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")


class KeyStream:
    """The keys of one epoch, batch by batch, and how many have been taken.

    That of a `StatefulDataLoader` can say where it is and go on from there. A sampler with
    `state_dict` and `load_state_dict` is continued through these. Any other is run
    again from the random state it started with, as far as it had come: samplers draw from the
    global generators when they start, from generators of their own later.
    """

    def __init__(self, loader: Any) -> None:
        candidates = (loader.batch_sampler, loader.sampler)
        self._index_sampler = loader._index_sampler
        self._remembers = loader._resumable
        self._stateful = next(filter(_is_stateful, candidates), None)
        self._generators = _own_generators([loader, *candidates])
        self._taken = 0
        self._exhausted = False
        self._when_made = self._when_started = None
        self._iterator = None

    def start(self) -> None:
        """Ask the sampler for its iterator."""
        if self._remembers:
            self._when_made = self._random_state()
        self._iterator = iter(self._index_sampler)

    def __next__(self) -> Any:
        if self._remembers and self._when_started is None:
            self._when_started = self._random_state()
        try:
            keys = next(self._iterator)
        except StopIteration:
            self._exhausted = True
            raise
        self._taken += 1
        return keys

    def _random_state(self):
        return {
            "global": random_state.capture(),
            "own": [generator.get_state() for generator in self._generators],
        }

    def _restore_random(self, state):
        random_state.restore(state["global"])
        self.restore_own_generators(state)

    def state_dict(self) -> Any:
        state = {
            "taken": self._taken,
            "exhausted": self._exhausted,
            "when_made": self._when_made,
            "when_started": self._when_started,
            "own": [generator.get_state() for generator in self._generators],
        }
        if self._stateful is not None:
            state["sampler"] = self._stateful.state_dict()
        return state

    def resume(self, state: Any, starts: int) -> None:
        """Go to a saved position.

        Args:
            state: from `state_dict`.
            starts: how often the sampler is asked for its iterator, as at the start of an epoch.
        """
        self._when_made, self._when_started = state["when_made"], state["when_started"]
        self._taken = state["taken"]
        self._exhausted = state["exhausted"]
        if "sampler" in state and self._stateful is not None:
            self._iterator = self._resumed_iterator(state["sampler"])
            return
        now = random_state.capture()
        for _ in range(starts):
            self._restore_random(self._when_made)
            self._iterator = iter(self._index_sampler)
        if self._when_started is not None:
            self._restore_random(self._when_started)
        for _ in range(self._taken):
            if next(self._iterator, self) is self:
                raise ValueError(
                    "StatefulDataLoader.load_state_dict: the sampler ends before the saved"
                    f" position, {self._taken} batches into the epoch"
                )
        random_state.restore(now)

    def _resumed_iterator(self, state):
        sampler = self._stateful
        sampler.load_state_dict(state)
        if self._exhausted:
            return iter(())
        if sampler is self._index_sampler:
            return _resumed(sampler, state)
        if type(self._index_sampler) is BatchSampler:
            return self._index_sampler._batches(_resumed(sampler, state))
        return iter(self._index_sampler)

    def restore_own_generators(self, state: Any) -> None:
        """Set the samplers' own generators as they were after a finished epoch."""
        for generator, own in zip(self._generators, state["own"], strict=True):
            generator.set_state(own)


def _resumed(sampler, state):
    """The keys from `state` on, also of a sampler that is its own iterator and starts again."""
    iterator = iter(sampler)
    if iterator is sampler:
        sampler.load_state_dict(state)
    while True:
        try:
            keys = next(iterator)
        except StopIteration:
            return
        yield keys


def _own_generators(holders):
    found = []
    for holder in [*holders, getattr(holders[1], "sampler", None)]:
        generator = getattr(holder, "generator", None)
        if isinstance(generator, rushlight.Generator) and generator not in found:
            found.append(generator)
    return found


class Progress:
    """The position of a loader in its current epoch: keys taken, and for each worker what it owes.

    A worker's position is a dict: "pending" are the key batches it has been given and whose batches
    have not been yielded yet, "samples" counts what it has yielded,
    and the rest comes from `BatchReader.changes`. A loader without workers
    counts as one worker to which nothing is ever pending.
    """

    def __init__(self, loader: Any, state: Any = None, previous: Progress | None = None) -> None:
        """Begin an epoch: at a saved `state`, or afresh, after the `previous` one of same workers.

        Args:
            loader: the DataLoader.
            state: from `state_dict`, or None.
            previous: the `Progress` of the epoch before, if its workers live on.
        """
        self.finished = False
        self.turn = 0
        self.resuming: bool = state is not None
        self.keys: KeyStream = KeyStream(loader)
        self.workers = [{"pending": [], "samples": 0} for _ in range(max(1, loader.num_workers))]
        if state is not None and not state["finished"]:
            self.turn = state["turn"]
            self.base_seed = state["base_seed"]
            self.workers: list[dict[str, Any]] | list[dict[Any, Any]] = [
                _copy_position(position) for position in state["workers"]
            ]
            self.keys.resume(state["keys"], starts=2 if loader.num_workers else 1)
        else:
            self.base_seed = self._base_seed_of_living_workers(loader, state, previous)
            self._start_keys(loader)

    def _base_seed_of_living_workers(self, loader, state, previous):
        if state is not None:
            self.keys.restore_own_generators(state["keys"])
            self._carry_over(state["workers"])
            return state["base_seed"] if loader.persistent_workers else None
        if previous is None:
            return None
        self._carry_over(previous.workers)
        return previous.base_seed

    def _start_keys(self, loader):
        self.keys.start()
        if self.base_seed is None:
            self.base_seed: Any = draw_seed(loader.generator)
            if loader.num_workers:
                # With new workers torch asks for a second iterator, which samplers that count
                # their epochs or draw in __iter__ make visible.
                self.keys.start()

    def _carry_over(self, positions):
        for position, before in zip(self.workers, positions, strict=True):
            position.update((key, before[key]) for key in _LASTING if key in before)

    def finish(self) -> None:
        self.finished: bool = True
        self.turn: Any = 0

    def state_dict(self, workers_live_on: bool) -> Any:
        """Return the position as plain values.

        Args:
            workers_live_on: the next epoch has the same workers, so that their states matter even
                between epochs.
        """
        positions = [_copy_position(position) for position in self.workers]
        if self.finished:
            kept = _LASTING if workers_live_on else ()
            positions = [{k: p[k] for k in kept if k in p} for p in positions]
        return {
            "finished": self.finished,
            "base_seed": self.base_seed,
            "turn": self.turn,
            "keys": self.keys.state_dict(),
            "workers": positions,
        }


def _copy_position(position):
    return {**position, "pending": list(position["pending"])}
