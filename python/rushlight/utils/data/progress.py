"""How far a loader is in an epoch, in a form that another process can continue from."""

import rushlight
from rushlight.utils.data import random_state
from rushlight.utils.data.sampler import draw_seed

# What a worker's position keeps from one epoch to the next, where the worker itself lives on.
_LASTING = ("random", "dataset")


def _is_stateful(thing):
    return hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")


class KeyStream:
    """The keys of one epoch, batch by batch, and how many have been taken.

    A sampler with `state_dict` and `load_state_dict` is continued through these. Any other is run
    again from the random state it started with, as far as it had come: samplers draw from the
    global generators when they start, from generators of their own later.
    """

    def __init__(self, loader, state=None):
        candidates = (loader.batch_sampler, loader.sampler)
        self._stateful = next(filter(_is_stateful, candidates), None)
        self._generators = _own_generators([loader, *candidates])
        self._taken = 0
        self._exhausted = False
        self._when_made = self._when_started = None
        if state is not None:
            self._resume(loader._index_sampler, state)
        else:
            self._when_made = self._random_state()
            self._iterator = iter(loader._index_sampler)

    def __next__(self):
        if self._when_started is None:
            self._when_started = self._random_state()
        for keys in self._iterator:
            self._taken += 1
            return keys
        self._exhausted = True
        raise StopIteration

    def _random_state(self):
        return {
            "global": random_state.capture(),
            "own": [generator.get_state() for generator in self._generators],
        }

    def _restore_random(self, state):
        random_state.restore(state["global"])
        for generator, own in zip(self._generators, state["own"], strict=True):
            generator.set_state(own)

    def state_dict(self):
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

    def _resume(self, sampler, state):
        self._when_made, self._when_started = state["when_made"], state["when_started"]
        self._taken = state["taken"]
        if "sampler" in state and self._stateful is not None:
            self._stateful.load_state_dict(state["sampler"])
            self._iterator = iter(()) if state["exhausted"] else iter(sampler)
            return
        now = random_state.capture()
        self._restore_random(self._when_made)
        self._iterator = iter(sampler)
        if self._when_started is not None:
            self._restore_random(self._when_started)
        for _ in range(self._taken):
            if next(self._iterator, self) is self:
                raise ValueError(
                    "DataLoader.load_state_dict: the sampler ends before the saved position,"
                    f" {self._taken} batches into the epoch"
                )
        random_state.restore(now)

    def restore_own_generators(self, state):
        """Set the samplers' own generators as they were after a finished epoch."""
        for generator, own in zip(self._generators, state["own"], strict=True):
            generator.set_state(own)
        self._when_made = self._random_state()


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

    def __init__(self, loader, state=None, previous=None):
        """Begin an epoch: at a saved `state`, or afresh, after the `previous` one of same workers.

        Args:
            loader: the DataLoader.
            state: from `state_dict`, or None.
            previous: the `Progress` of the epoch before, if its workers live on.
        """
        self.finished = False
        self.turn = 0
        self.resuming = state is not None
        continues = state is not None and not state["finished"]
        self.keys = KeyStream(loader, state["keys"] if continues else None)
        count = max(1, loader.num_workers)
        self.workers = [{"pending": [], "samples": 0} for _ in range(count)]
        if continues:
            self.turn = state["turn"]
            self.base_seed = state["base_seed"]
            self.workers = [_copy_position(position) for position in state["workers"]]
        elif state is not None:
            self.keys.restore_own_generators(state["keys"])
            self._carry_over(state["workers"])
            self.base_seed = state["base_seed"] if loader.persistent_workers else None
        elif previous is not None:
            self._carry_over(previous.workers)
            self.base_seed = previous.base_seed
        else:
            self.base_seed = None
        if self.base_seed is None:
            self.base_seed = draw_seed(loader.generator)

    def _carry_over(self, positions):
        for position, before in zip(self.workers, positions, strict=True):
            position.update((key, before[key]) for key in _LASTING if key in before)

    def finish(self):
        self.finished = True
        self.turn = 0

    def state_dict(self, workers_live_on):
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
