"""In which order each process runs its stages and micro-batches, by the published schedules.

Every function gives the actions of one process. Pauses are not written down: a process waits where
something that it needs has not come.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class _ComputationType(str, enum.Enum):
    """What a stage does with a micro-batch."""

    FORWARD = "F"
    FULL_BACKWARD = "B"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    OVERLAP_F_B = "OVERLAP_F_B"


FORWARD = _ComputationType.FORWARD
FULL_BACKWARD = _ComputationType.FULL_BACKWARD
BACKWARD_INPUT = _ComputationType.BACKWARD_INPUT
BACKWARD_WEIGHT = _ComputationType.BACKWARD_WEIGHT
OVERLAP_F_B = _ComputationType.OVERLAP_F_B


class _Action(NamedTuple):
    """One step of a process: "2F0" is the forward pass of micro-batch 0 in stage 2."""

    stage_index: int
    computation_type: _ComputationType
    microbatch_index: int | None = None
    sub_actions: tuple[_Action, ...] | None = None

    def __repr__(self) -> str:
        if self.sub_actions is not None:
            parts = ";".join(map(repr, self.sub_actions))
            return f"({parts}){self.computation_type.value}"
        number = "" if self.microbatch_index is None else self.microbatch_index
        return f"{self.stage_index}{self.computation_type.value}{number}"

    __str__ = __repr__


def ranks_of_stages(size: int, stages: int, style: str) -> dict[int, int]:
    """The process of each stage: in turns, "loop", or there and back again, "v"."""
    if style == "loop":
        return {i: i % size for i in range(stages)}
    if stages % size:
        raise ValueError(f"{stages} stages do not divide among {size} processes")
    return {i: i % size if i // size % 2 == 0 else size - 1 - i % size for i in range(stages)}


def gpipe(rank: int, count: int) -> list[_Action]:
    """All forward, then all backward."""
    forward = [_Action(rank, FORWARD, i) for i in range(count)]
    return forward + [_Action(rank, FULL_BACKWARD, i) for i in range(count)]


def one_forward_one_backward(rank: int, stages: int, count: int) -> list[_Action]:
    """Forward until the pipeline is full, then one backward for each forward."""
    ahead = min(count, stages - rank)
    order = [_Action(rank, FORWARD, i) for i in range(ahead)]
    for i in range(count):
        order.append(_Action(rank, FULL_BACKWARD, i))
        if ahead + i < count:
            order.append(_Action(rank, FORWARD, ahead + i))
    return order


def breadth_first(rank: int, size: int, local: int, count: int) -> list[_Action]:
    """All micro-batches through one stage of the process, then through the next."""
    stages = range(rank, size * local, size)
    forward = [_Action(stage, FORWARD, i) for stage in stages for i in range(count)]
    backward = [
        _Action(stage, FULL_BACKWARD, i)
        for stage in reversed(stages)
        for i in reversed(range(count))
    ]
    return forward + backward


class _Counter:
    """Gives the next micro-batch of each stage."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def __call__(self, stage: int) -> int:
        number = self._next.get(stage, 0)
        self._next[stage] = number + 1
        return number


def interleaved(
    rank: int, size: int, local: int, count: int, splits_backward: bool
) -> list[_Action]:
    """Depth first through several stages of a process (1F1B); with `splits_backward`, gradients by
    weights come later, where the process would wait.
    """
    each = count // max(1, count // size)  # micro-batches of a stage before the next one's turn
    total = local * count
    lead = (1 if splits_backward else 2) * (size - 1 - rank)
    ahead = min((local - 1) * each + lead, total)
    forward_of = lambda step: step // each % local * size + rank  # noqa: E731
    backward_of = lambda step: (local - 1 - step // each % local) * size + rank  # noqa: E731
    forward, backward, weight = _Counter(), _Counter(), _Counter()
    kind = BACKWARD_INPUT if splits_backward else FULL_BACKWARD
    order, weights_done = [], 0

    def add(stage: int, what: _ComputationType, counter: Callable[[int], int]) -> None:
        order.append(_Action(stage, what, counter(stage)))

    for step in range(ahead):
        add(forward_of(step), FORWARD, forward)
    for step in range(total):
        if ahead + step < total:
            add(forward_of(ahead + step), FORWARD, forward)
        add(backward_of(step), kind, backward)
        if splits_backward and step >= rank:
            add(backward_of(weights_done), BACKWARD_WEIGHT, weight)
            weights_done += 1
    if splits_backward:
        for step in range(weights_done, total):
            add(backward_of(step), BACKWARD_WEIGHT, weight)
    return order


def zero_bubble_v(rank: int, size: int, count: int) -> list[_Action]:
    """ZB-V: two stages in each process, the second on the way back (P. Qi et al., 2023)."""
    first, last = rank, 2 * size - 1 - rank
    padded = max(2 * size - 1, count)  # the pattern needs as many; those too many are left out
    forward, backward, weight = _Counter(), _Counter(), _Counter()
    order: list[_Action] = []

    def add(stage: int, *kinds: _ComputationType) -> None:
        counters = {FORWARD: forward, BACKWARD_INPUT: backward, BACKWARD_WEIGHT: weight}
        order.extend(_Action(stage, kind, counters[kind](stage)) for kind in kinds)

    def done(kind: _ComputationType, stage: int) -> int:
        return sum(a.stage_index == stage and a.computation_type is kind for a in order)

    for _ in range(2 * (size - rank) - 1):
        add(first, FORWARD)
    for _ in range(rank):
        add(last, FORWARD)
        add(first, FORWARD)
    for _ in range(size - rank):
        add(last, FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
    while done(FORWARD, last) < done(FORWARD, first) or done(FORWARD, first) < padded:
        if done(FORWARD, first) < padded:
            add(first, FORWARD)
        add(first, BACKWARD_INPUT, BACKWARD_WEIGHT)
        add(last, FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
    for _ in range(rank):
        add(first, BACKWARD_INPUT)
        add(last, BACKWARD_INPUT)
    for _ in range(size - rank):
        add(first, BACKWARD_INPUT, BACKWARD_WEIGHT)
    for stage in (last, first):
        while done(BACKWARD_WEIGHT, stage) < done(BACKWARD_INPUT, stage):
            add(stage, BACKWARD_WEIGHT)
    return [action for action in order if action.microbatch_index < count]


class _DualPipeV:
    """Builds the order of DualPipeV in one process (DeepSeek-AI, 2024), in eight phases."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.first, self.last = rank, 2 * size - 1 - rank
        self.order: list[_Action] = []
        self._forward, self._backward = _Counter(), _Counter()
        self._weights: list[tuple[int, int]] = []  # whose gradients by weights are to come

    def forward(self, stage: int) -> _Action:
        return _Action(stage, FORWARD, self._forward(stage))

    def backward(self, stage: int, splits: bool = False) -> _Action:
        number = self._backward(stage)
        if not splits:
            return _Action(stage, FULL_BACKWARD, number)
        self._weights.append((stage, number))
        return _Action(stage, BACKWARD_INPUT, number)

    def weight(self) -> None:
        if self._weights:
            stage, number = self._weights.pop(0)
            self.order.append(_Action(stage, BACKWARD_WEIGHT, number))

    def both(self, forward: int, backward: int) -> None:
        pair = self.forward(forward), self.backward(backward)
        self.order.append(_Action(-1, OVERLAP_F_B, None, pair))

    def build(self, count: int) -> list[_Action]:
        self._warm_up()
        for i in range(count - self.size * 2 + self.rank + 1):
            if i == 0 and self.rank == self.size - 1:
                self.order += [self.forward(self.first), self.backward(self.last)]
            else:
                self.both(self.first, self.last)
            self.both(self.last, self.first)
        for _ in range(self.size - self.rank - 1):
            self.order.append(self.backward(self.last))
            self.both(self.last, self.first)
        self._cool_down()
        return self.order

    def _warm_up(self):
        behind = self.size - self.rank - 1
        self.order += [self.forward(self.first) for _ in range(2 * behind)]
        for _ in range(self.rank + 1):
            self.order += [self.forward(self.first), self.forward(self.last)]
        for _ in range(behind):
            self.order.append(self.backward(self.last, splits=True))
            self.weight()
            self.order.append(self.forward(self.last))

    def _cool_down(self):
        splits, half = False, (self.rank + 1) // 2
        for i in range(self.rank + 1):
            splits = splits or (i == half and self.rank % 2 == 1)
            self.order.append(self.backward(self.last, splits))
            splits = splits or (i == half and self.rank % 2 == 0)
            self.order.append(self.backward(self.first, splits))
        for _ in range(self.size - self.rank - 1):
            self.weight()
            self.order.append(self.backward(self.first, splits))
        for _ in range(self.rank + 1):
            self.weight()


def dual_pipe_v(rank: int, size: int, count: int) -> list[_Action]:
    """DualPipeV: forward and backward passes of the two stages side by side."""
    return _DualPipeV(rank, size).build(count)
