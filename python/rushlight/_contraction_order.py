"""The order in which einsum multiplies its operands."""

from __future__ import annotations

import functools
import itertools
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor

STRATEGIES = ("auto", "greedy", "optimal")
MOST_TRIED = 5  # 180 orders of 5 operands take a millisecond, once; 6 have 2,700


@functools.lru_cache(maxsize=1024)
def contraction_order(
    inputs: Any, output: Any, sizes: Sequence[Any], strategy: str
) -> tuple[Any, ...]:
    """Which two operands each step multiplies.

    The product takes the place of the first, and the second leaves the list.

    Args:
        inputs: a frozenset of labels for each operand.
        output: the labels of the result, a frozenset.
        sizes: (label, size) pairs, a tuple.
        strategy: "optimal" tries every order for the fewest multiplications, "greedy" takes the
            step that saves most memory, "auto" is optimal for a few operands.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {list(STRATEGIES)}, but is {strategy}")
    search = _Search(output, dict(sizes))
    few = len(inputs) <= MOST_TRIED
    if strategy == "optimal" or (strategy == "auto" and few):
        return search.optimal(inputs)[1]
    return search.greedy(inputs)


class _Search:
    def __init__(self, output: Any, sizes: dict[Any, Any]) -> None:
        self.output, self.sizes = output, sizes
        self.optimal = functools.cache(self._optimal)

    def elements(self, labels: Tensor) -> int:
        return math.prod(self.sizes[c] for c in labels)

    def step(self, terms: Sequence[Any], i: int, j: int) -> tuple[Any, ...]:
        """The operands after i and j were multiplied."""
        others = [t for k, t in enumerate(terms) if k not in (i, j)]
        product = (terms[i] | terms[j]) & self.output.union(*others)
        return (*others[:i], product, *others[i:])

    def _optimal(self, terms):
        if len(terms) == 1:
            return 0, ()
        best = math.inf, ()
        for i, j in itertools.combinations(range(len(terms)), 2):
            cost, order = self.optimal(self.step(terms, i, j))
            cost += self.elements(terms[i] | terms[j])
            if cost < best[0]:  # where equal, from left to right
                best = cost, ((i, j), *order)
        return best

    def greedy(self, terms: Sequence[Any]) -> tuple[Any, ...]:
        order = []
        while len(terms) > 1:
            steps = {}
            for i, j in itertools.combinations(range(len(terms)), 2):
                after = self.step(terms, i, j)
                grown = self.elements(after[i]) - self.elements(terms[i]) - self.elements(terms[j])
                steps.setdefault(grown, (after, (i, j)))
            terms, pair = steps[min(steps)]
            order.append(pair)
        return tuple(order)
