"""Reading one batch after another from a dataset: the same in the main process and in workers."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from rushlight.utils.data import random_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.utils.data.random_state import RNG

# What a reader needs to know of a DataLoader; batched is False if batch_size was None, and streams
# is whether the dataset is iterated over, rather than indexed.
Source: type[Any] = namedtuple(
    "Source", ["dataset", "collate_fn", "batched", "drop_last", "streams"]
)


_BEGINNINGS = ("when_made", "when_started")


class Exhausted(Exception):
    """The iterable dataset has no further batch."""


class BatchReader:
    """Reads batches, and knows how to continue where an earlier reader stopped.

    Args:
        source: the `Source` to read from.
        resumable: `changes` are asked for.
        owns_random: the random generators belong to this reader alone, as in a worker, so that
            their state is part of its position.
        rng: the generators of a worker thread; by default the global ones.
        resume: position to continue from, as merged from `changes()`, with the number
            of samples asked for so far under "samples".

    An iterable dataset that has `state_dict` and `load_state_dict`, or whose iterator has them, is
    continued through these; any other is read again from the start, with the random numbers of
    then, up to the position.
    """

    def __init__(
        self,
        source: Any,
        resumable: bool = False,
        owns_random: bool = False,
        rng: RNG | None = None,
        resume: dict[Any, Any] | None = None,
    ) -> None:
        self._source = source
        self._resumable = resumable
        self._owns_random = owns_random
        self._rng = rng
        self._iterator = None
        self._ended = False
        # Of an iterable dataset: the random states in which it was asked for its iterator, and
        # that for the first sample.
        self._beginnings = {}
        self._unreported = {}
        self._last_random = None
        if resume is not None:
            self._resume(resume)
        elif source.streams:
            self._note("when_made")
            self._iterator = iter(source.dataset)

    def _note(self, when):
        if self._resumable:
            self._beginnings[when] = self._unreported[when] = random_state.capture(self._rng)

    def read(self, keys: Sequence[Any] | int) -> Any:
        """Return the batch of `keys`; an iterable dataset only looks at how many they are."""
        source = self._source
        if self._iterator is not None:
            samples = self._next_samples(keys)
        elif not source.batched:
            samples = source.dataset[keys]
        elif getattr(source.dataset, "__getitems__", None):
            samples = source.dataset.__getitems__(keys)
        else:
            samples = [source.dataset[key] for key in keys]
        return source.collate_fn(samples)

    def _next_samples(self, keys):
        if self._ended:
            raise Exhausted
        if "when_started" not in self._beginnings:
            self._note("when_started")
        if not self._source.batched:
            samples = self._take(1)
            if not samples:
                raise Exhausted
            return samples[0]
        samples = self._take(len(keys))
        if not samples or (self._source.drop_last and len(samples) < len(keys)):
            raise Exhausted
        return samples

    def _take(self, count):
        # With next alone: what asks for an iterator again would start some of them again.
        samples = []
        for _ in range(count):
            try:
                samples.append(next(self._iterator))
            except StopIteration:
                self._ended = True
                break
        return samples

    def _resume(self, resume):
        dataset = self._source.dataset
        now = random_state.capture(self._rng)
        if not self._source.streams:
            if "dataset" in resume:
                dataset.load_state_dict(resume["dataset"])
        elif "when_made" in resume:
            self._beginnings = {when: resume[when] for when in _BEGINNINGS if when in resume}
            random_state.restore(resume["when_made"], self._rng)
            self._resume_stream(dataset, resume)
        else:  # between two epochs
            random_state.restore(resume.get("random", now), self._rng)
            self._note("when_made")
            self._resume_stream(dataset, resume)
            return
        random_state.restore(resume.get("random", now), self._rng)

    def _resume_stream(self, dataset, resume):
        if "dataset" in resume:
            dataset.load_state_dict(resume["dataset"])
        self._iterator = iter(dataset)
        if "iterator" in resume:
            self._iterator.load_state_dict(resume["iterator"])
        elif "dataset" in resume:
            if self._iterator is dataset:  # which may have started again
                dataset.load_state_dict(resume["dataset"])
        else:
            if "when_started" in resume:
                random_state.restore(resume["when_started"], self._rng)
            self._take(resume["samples"])

    def changes(self) -> Any:
        """Return the parts of the position that have changed since the last call."""
        if not self._resumable:
            return {}
        changed, self._unreported = self._unreported, {}
        if hasattr(self._iterator, "state_dict"):
            changed["iterator"] = self._iterator.state_dict()
        elif hasattr(self._source.dataset, "state_dict"):
            changed["dataset"] = self._source.dataset.state_dict()
        if self._owns_random:
            now = random_state.capture(self._rng)
            if self._last_random is None or not random_state.same(now, self._last_random):
                changed["random"] = self._last_random = now
        return changed
