"""Control flow that programs as data can hold: cond, while_loop, scan and map.

By themselves they are plain Python; `torch.export` records their functions as graphs.
"""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


def _recorded(function, *args, **kwargs):
    """(whether a mode has taken over, what it returned)."""
    if _C._has_torch_function(()):
        return True, _C._handle_torch_function(function, (), args, kwargs)
    return False, None


def cond(
    pred: Tensor | float,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """true_fn(*operands) or false_fn(*operands), chosen by the value of pred.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn, false_fn: functions that return tensors of the same shapes and dtypes.
        operands: tuple of what they are called with, tensors in containers.

    Example:
        >>> x = torch.tensor([1.0, -3.0])
        >>> torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: -x, (x,))
        tensor([-1.,  3.])
    """
    taken, result = _recorded(cond, pred, true_fn, false_fn, operands)
    if taken:
        return result
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(cond_fn, body_fn, carried_inputs, additional_inputs=()):
    """Replace the carried values by body_fn of them while cond_fn of them is true.

    Args:
        cond_fn: (*carried, *additional) -> bool or tensor of one element.
        body_fn: (*carried, *additional) -> tuple of new carried values, of the same shapes.
        carried_inputs: tuple of tensors and numbers.
        additional_inputs: tuple of what both are called with besides.

    Example:
        >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2),
        ...            (torch.tensor(0), torch.ones(1)))
        (tensor(3), tensor([8.]))
    """
    taken, result = _recorded(while_loop, cond_fn, body_fn, carried_inputs, additional_inputs)
    if taken:
        return result
    carried = tuple(carried_inputs)
    while cond_fn(*carried, *additional_inputs):
        carried = tuple(body_fn(*carried, *additional_inputs))
    return carried


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """Carry a value along a dim: (carry, x[i]) -> (carry, y[i]).

    Args:
        combine_fn: (carry, slice of xs) -> (carry of the same shape, output).
        init: the first carry; tensors in containers.
        xs: tensors in containers, of the same size in dim.
        dim: the dim of xs.
        reverse: begin at the end.

    Returns:
        The last carry, and the outputs stacked along dim 0.

    Example:
        >>> scan(lambda c, x: (c + x, c + x), torch.tensor(0), torch.tensor([1, 2, 3]))
        (tensor(6), tensor([1, 3, 6]))
    """
    taken, result = _recorded(scan, combine_fn, init, xs, dim=dim, reverse=reverse)
    if taken:
        return result
    carry, rows, spec = init, [], None
    leaves, xs_spec = tree_flatten(xs)
    length = leaves[0].size(dim)
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = combine_fn(carry, tree_unflatten([x.select(dim, i) for x in leaves], xs_spec))
        parts, spec = tree_flatten(y)
        rows.append(parts)
    if reverse:
        rows.reverse()
    if spec is None:
        raise ValueError("scan: xs has no elements along dim")
    return carry, tree_unflatten([rushlight.stack(p, 0) for p in zip(*rows)], spec)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """f of each slice of xs along dim 0, stacked.

    Example:
        >>> map(lambda x: x.sum(), torch.ones(2, 3))
        tensor([3., 3.])
    """
    empty = rushlight.zeros(0)
    return scan(lambda c, x: (c, f(x, *args)), empty, xs)[1]


__all__ = ["cond", "map", "scan", "while_loop"]
