"""Reading one batch after another from a dataset: the same in the main process and in workers."""

import itertools
from collections import namedtuple

from rushlight.utils.data import random_state
from rushlight.utils.data.dataset import IterableDataset

# What a reader needs to know of a DataLoader; batched is False if batch_size was None.
Source = namedtuple("Source", ["dataset", "collate_fn", "batched", "drop_last"])


class Exhausted(Exception):
    """The iterable dataset has no further batch."""


class BatchReader:
    """Reads batches, and knows how to continue where an earlier reader stopped.

    Args:
        source: the `Source` to read from.
        owns_random: the global random generators belong to this reader alone, as in a worker
            process, so that their state is part of its position.
        resume: position to continue from, as merged from `changes()`, with the number
            of samples asked for so far under "samples".

    An iterable dataset that has `state_dict` and `load_state_dict`, or whose iterator has them, is
    continued through these; any other is read again from the start, with the random numbers of
    then, up to the position.
    """

    def __init__(self, source, owns_random, resume=None):
        self._source = source
        self._owns_random = owns_random
        self._iterator = None
        self._start = None
        self._reported_start = False
        self._last_random = None
        self._resume = resume

    def read(self, keys):
        """Return the batch of `keys`; an iterable dataset only looks at how many they are."""
        if self._start is None:
            self._begin()
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
        if not self._source.batched:
            for sample in self._iterator:
                return sample
            raise Exhausted
        samples = list(itertools.islice(self._iterator, len(keys)))
        if not samples or (self._source.drop_last and len(samples) < len(keys)):
            raise Exhausted
        return samples

    def _begin(self):
        resume, self._resume = self._resume, None
        dataset = self._source.dataset
        is_stream = isinstance(dataset, IterableDataset)
        if resume is None:
            self._start = random_state.capture()
            self._iterator = iter(dataset) if is_stream else None
            return
        now = random_state.capture()
        self._start = resume.get("start", resume.get("random", now))
        if is_stream:
            self._resume_stream(dataset, resume)
        elif "dataset" in resume:
            dataset.load_state_dict(resume["dataset"])
        random_state.restore(resume.get("random", now))

    def _resume_stream(self, dataset, resume):
        if "dataset" in resume:
            dataset.load_state_dict(resume["dataset"])
            self._iterator = iter(dataset)
        elif "iterator" in resume:
            self._iterator = iter(dataset)
            self._iterator.load_state_dict(resume["iterator"])
        else:
            random_state.restore(self._start)
            self._iterator = iter(dataset)
            already_read = itertools.islice(self._iterator, resume["samples"])
            for _ in already_read:
                pass

    def changes(self):
        """Return the parts of the position that have changed since the last call."""
        changed = {}
        if self._iterator is not None and not self._reported_start:
            changed["start"] = self._start
            self._reported_start = True
        if hasattr(self._iterator, "state_dict"):
            changed["iterator"] = self._iterator.state_dict()
        elif hasattr(self._source.dataset, "state_dict"):
            changed["dataset"] = self._source.dataset.state_dict()
        if self._owns_random:
            now = random_state.capture()
            if self._last_random is None or not random_state.same(now, self._last_random):
                changed["random"] = self._last_random = now
        return changed
