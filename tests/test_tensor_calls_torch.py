"""Calls on tensors beside torch: same values, dtype, shape and strides, or same class of error."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def described(result):
    if isinstance(result, (list, tuple)):
        return [described(r) for r in result]
    if not isinstance(result, (rl.Tensor, torch.Tensor)):
        return str(result).replace("rushlight", "torch")
    values = result.detach().clone().reshape(-1).tolist()
    return str(result.dtype), tuple(result.shape), result.stride(), repr(values)


def outcome(call, lib):
    try:
        return described(call(lib))
    except Exception as error:
        return type(error)


def assigned(tensor, index, value):
    tensor[index] = value
    return tensor


ASSIGNMENTS = [
    lambda t: assigned(t.zeros(2, 3), 0, t.ones(1, 1, 3)),
    lambda t: assigned(t.zeros(2, 3), [0, 1], t.ones(1, 1, 3)),
    lambda t: assigned(t.zeros(3, 3), (range(3), range(3)), t.arange(3.0).reshape(1, 3)),
    lambda t: assigned(t.zeros(2, 3), t.zeros(2, 3) == 0, t.arange(6.0).reshape(1, 1, 6)),
    lambda t: assigned(t.zeros(2, 3), True, t.ones(1, 1, 2, 3)),
    lambda t: assigned(t.tensor(3), True, t.ones(1, 1, dtype=t.int64)),
    lambda t: t.zeros(2, 3).index_put_((t.tensor([0]),), t.ones(1, 1, 3)),
    lambda t: t.zeros(2, 3).index_put_((t.tensor([0]),), t.ones(2, 3)),
    # A single value for a mask is a number: its dtype and dims do not matter.
    lambda t: assigned(t.zeros(2, 3), (slice(None), t.tensor([True, False, True])), t.tensor(2)),
    lambda t: assigned(t.zeros(2, 3), t.tensor([True, False]), t.ones(1, 1, 1, dtype=t.int8)),
    lambda t: assigned(t.zeros(2, 3), t.tensor([0]), t.tensor(2)),
    lambda t: assigned(t.arange(4), t.arange(4) > -1, t.tensor([])),
    lambda t: assigned(t.arange(4), t.arange(4) > 1, t.tensor([1, 2, 3])),
]


def all_as_torch(calls):
    different = []
    for i, call in enumerate(calls):
        ours, theirs = outcome(call, rl), outcome(call, torch)
        if ours != theirs:
            different.append(f"call {i}: got {ours}, expected {theirs}")
    assert not different, "\n".join(different)


def test_assignments():
    all_as_torch(ASSIGNMENTS)


def test_an_index_out_of_bounds_is_told_with_the_tensors_dim():
    x = rl.zeros(2, 5, 10)
    for index, dim, size in (
        ((0, 5), 1, 5),
        ((0, 1, 15), 2, 10),
        ((..., 12), 2, 10),
        ((0, None, 7), 1, 5),
    ):
        with pytest.raises(IndexError, match=f"out of bounds for dimension {dim} with size {size}"):
            x[index]


def test_masks_of_bytes_are_warned_of_wherever_they_come_in():
    mask = np.array([1, 0, 1], dtype=np.uint8)
    for call in (lambda t, m: t[m], lambda t, m: t.index_put_((m,), t[m])):
        with pytest.warns(UserWarning, match="uint8"):
            call(rl.zeros(3), rl.from_numpy(mask))
