"""How vmap computes a custom operation that has a rule of its own."""

from __future__ import annotations

from typing import NamedTuple

from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Info(NamedTuple):
    batch_size: int
    randomness: str


def batching_rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `func._batching` wants it, of a rule as `register_vmap` takes it."""

    def rule(level, op, args, kwargs):
        leaves, structure = tree_flatten(tuple(args))
        found = [level.examples(leaf) for leaf in leaves]
        in_dims = tree_unflatten([None if f is None else 0 for f in found], structure)
        values = [leaf if f is None else f for leaf, f in zip(leaves, found)]
        result, out_dims = function(
            _Info(level.size, level.randomness),
            in_dims,
            *tree_unflatten(values, structure),
            **kwargs,
        )
        flat, result_structure = tree_flatten(result)
        dims = [out_dims] * len(flat) if out_dims is None else tree_leaves(out_dims)
        if len(dims) != len(flat):
            raise RuntimeError(
                f"{op}: its vmap rule returned out_dims {out_dims} for {len(flat)} results"
            )
        return tree_unflatten(
            [
                one if d is None else level.batched_tensor(one.movedim(d, 0))
                for one, d in zip(flat, dims)
            ],
            result_structure,
        )

    return rule
