"""Indices along a dim of tensors with few dims, down to none, beside torch: what is taken, what is
refused, results and gradients."""

import itertools

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SHAPES = [(), (1,), (2,), (0,), (1, 1), (2, 1), (2, 2)]

WITH_SOURCE = {
    "index_add": lambda t, d, i, s: t.index_add(d, i, s, alpha=2),
    "index_copy": lambda t, d, i, s: t.index_copy(d, i, s),
    "index_fill": lambda t, d, i, s: t.index_fill(d, i, s),
    "put": lambda t, d, i, s: t.put(i, s),
    "scatter": lambda t, d, i, s: t.scatter(d, i, s),
    "scatter_add": lambda t, d, i, s: t.scatter_add(d, i, s),
    **{
        f"{op} {reduce}": lambda t, d, i, s, op=op, reduce=reduce: getattr(t, op)(d, i, s, reduce)
        for op in ("index_reduce", "scatter_reduce")
        for reduce in ("prod", "mean", "amax")
    },
}
WITHOUT = {
    "index_select": lambda t, d, i, s: t.index_select(d, i),
    "gather": lambda t, d, i, s: t.gather(d, i),
    "take": lambda t, d, i, s: t.take(i),
    "index_fill by a number": lambda t, d, i, s: t.index_fill(d, i, 2.0),
    "scatter a number": lambda t, d, i, s: t.scatter(d, i, 2.0),
}


def values(shape, start):
    return np.reshape(start + np.arange(np.prod(shape, dtype=int)) * 1.5, shape)


def outcome(T, op, shape, dim, index, source):
    """Result and gradients, or that the call is refused; None for gradients that fail."""
    t = T.from_numpy(np.array(values(shape, 2))).requires_grad_()
    inputs = [t]
    if source is not None:
        source = T.from_numpy(np.array(values(source, -3))).requires_grad_()
        inputs.append(source)
    try:
        out = op(t, dim, T.zeros(index, dtype=T.int64), source)
    except (IndexError, RuntimeError):
        return ["refused"]
    try:
        slope = T.from_numpy(np.array(values(tuple(out.shape), 1)))
        grads = T.autograd.grad((out * slope).sum(), inputs, allow_unused=True)
    except (IndexError, RuntimeError):
        grads = None
    return [out.detach().numpy(), grads and [None if g is None else g.numpy() for g in grads]]


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
@pytest.mark.parametrize("name", [*WITH_SOURCE, *WITHOUT])
def test_indices_along_few_dims(name):
    op, sources = (WITHOUT[name], [None]) if name in WITHOUT else (WITH_SOURCE[name], SHAPES)
    for case in itertools.product(SHAPES, (0, -1), SHAPES, sources):
        mine, expected = (outcome(T, op, *case) for T in (rushlight, torch))
        # torch defines no gradient by a src that is larger than index, and fails where no index is
        # given for a number.
        undefined = name.startswith("scatter_reduce") and case[2] != case[3]
        if undefined or expected[-1] is None:
            del mine[1:], expected[1:]
        np.testing.assert_equal(mine, expected, err_msg=f"{case}")
