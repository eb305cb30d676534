"""All prefixes of a sequence under an associative function.

Data Parallel Algorithms (Hillis and Steele, 1986): log n rounds, each of one call.
"""

from __future__ import annotations

import rushlight
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Sequence[Tensor] | Tensor,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Tensor:
    """For each place along `dim`, what `combine_fn` makes of all elements up to there.

    Args:
        combine_fn: an associative function of two trees of tensors like `xs`; it is called for many
            elements at once, those along `dim`.
        xs: a tensor, or a tree of tensors with equal sizes along `dim`.
        reverse: go from the last element to the first.
        combine_mode: "pointwise" or "generic", which are the same here.

    Example:
        >>> associative_scan(lambda a, b: a * b, rushlight.arange(1, 6), dim=0)
        tensor([  1,   2,   6,  24, 120])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"associative_scan: combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}"
        )
    leaves, _ = tree_flatten(xs)
    sizes = {leaf.shape[dim] for leaf in leaves}
    if len(sizes) != 1:
        raise ValueError(
            f"associative_scan: expected one size along dim {dim} of all tensors, got {sizes}"
        )
    (size,) = sizes
    if reverse:
        xs = tree_map(lambda x: x.flip(dim), xs)
    distance = 1
    while distance < size:
        before = tree_map(lambda x: x.narrow(dim, 0, size - distance), xs)  # noqa: B023
        after = tree_map(lambda x: x.narrow(dim, distance, size - distance), xs)  # noqa: B023
        heads = [x.narrow(dim, 0, distance) for x in tree_leaves(xs)]
        tails, structure = tree_flatten(combine_fn(before, after))
        joined = [rushlight.cat([h, t], dim) for h, t in zip(heads, tails, strict=True)]
        xs = tree_unflatten(joined, structure)
        distance *= 2
    return tree_map(lambda x: x.flip(dim), xs) if reverse else xs
