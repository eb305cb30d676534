"""`einsum`: products of two operands at a time, each a batched product of matrices."""

from __future__ import annotations

import math

from rushlight._dispatch._emit import emit, flatten, reshape
from rushlight.functional import _from_sublists, _order, _parse_einsum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _einsum(equation, *operands):
    if not isinstance(equation, str):
        equation, operands = _from_sublists((equation, *operands))
    inputs, output, operands, sizes = _parse_einsum(equation.replace(" ", ""), list(operands))
    summed = sorted({c for labels in inputs for c in labels} - {*output}, key=str)
    labels = [*output, *summed]
    single = len(operands) == 1
    operands = [_aligned(t, own, labels) for t, own in zip(operands, inputs)]
    held = [{*own} for own in inputs]
    for i, j in _order(inputs, output, sizes):
        rest = set().union(*(own for k, own in enumerate(held) if k not in (i, j)))
        operands[i] = _pair(operands[i], operands[j], held[i], held[j], labels, rest | {*output})
        held[i] = (held[i] | held[j]) & (rest | {*output})
        del operands[j], held[j]
    (result,) = operands
    if not summed:
        return result
    if single:
        return emit("sum.dim_IntList", result, list(range(len(output), len(labels))))
    left = [d for d in range(len(output), len(labels)) if result.shape[d] != 1]
    if left:
        result = emit("sum.dim_IntList", result, left, True)
    return emit("view", result, list(result.shape[: len(output)]))


def _aligned(t, own, labels):
    """The operand with a dim for each label, of size 1 for those that it has not."""
    missing = [c for c in labels if c not in own]
    for _ in missing:
        t = emit("unsqueeze", t, t.dim())
    places = [*own, *missing]
    return emit("permute", t, [places.index(c) for c in labels])


def _pair(a, b, in_a, in_b, labels, kept):
    """Two operands multiplied, and summed over the labels that nothing else has."""
    sums, only_a, only_b = [], [], []
    for d, c in enumerate(labels):
        if c in kept:
            continue
        if a.shape[d] != 1 and b.shape[d] != 1:
            sums.append(d)
        elif a.shape[d] != 1:
            only_a.append(d)
        elif b.shape[d] != 1:
            only_b.append(d)
    if only_a:
        a = emit("sum.dim_IntList", a, only_a, True)
    if only_b:
        b = emit("sum.dim_IntList", b, only_b, True)
    if not sums:
        return emit("mul.Tensor", a, b)
    if len(sums) == a.dim():
        product = emit("dot", flatten(a), flatten(b))
        return emit("view", product, [1] * a.dim())
    return _sum_of_products(a, b, sums)


def _sum_of_products(a, b, sums):
    """a * b summed over dims, kept with size 1: one `bmm`."""
    both, of_a, of_b = [], [], []
    for d in range(a.dim()):
        if d in sums:
            continue
        if a.shape[d] != 1 and b.shape[d] != 1:
            both.append(d)
        elif a.shape[d] != 1:
            of_a.append(d)
        else:
            of_b.append(d)
    shape = [a.shape[d] for d in (*both, *of_a)] + [1] * len(sums) + [b.shape[d] for d in of_b]

    def count(t, dims):
        return math.prod(t.shape[d] for d in dims)

    left = reshape(emit("permute", a, [*both, *of_a, *sums, *of_b]),
                   (count(a, both), count(a, of_a), count(a, sums)))  # fmt: skip
    right = reshape(emit("permute", b, [*both, *sums, *of_b, *of_a]),
                    (count(b, both), count(b, sums), count(b, of_b)))  # fmt: skip
    product = emit("view", emit("bmm", left, right), shape)
    order = [*both, *of_a, *sums, *of_b]
    return emit("permute", product, [order.index(d) for d in range(a.dim())])


WRITTEN: dict[str, Callable[..., Any]] = {"einsum": _einsum}
