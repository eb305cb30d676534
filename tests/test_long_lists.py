"""Lists of dims, sizes and tensors that are far longer than any tensor has dims."""

import numpy as np
import pytest
from bad_input import is_good_error

import rushlight as rl

F = rl.nn.functional
N = 1 << 16
CALLS = {
    "flip": lambda x: x.flip([0] * N),
    "permute": lambda x: x.permute([0] * N),
    "movedim": lambda x: x.movedim([0] * N, [0] * N),
    "squeeze": lambda x: x.squeeze([0] * N),
    "sum": lambda x: x.sum([0] * N),
    "norm": lambda x: rl.linalg.vector_norm(x, dim=[0] * N),
    "reshape": lambda x: x.reshape([1] * N + [6]),
    "expand": lambda x: x.expand([1] * N + [2, 3]),
    "repeat": lambda x: x.repeat([1] * N + [1, 1]),
    "as_strided": lambda x: x.as_strided([1] * N, [1] * N),
    "zeros": lambda x: rl.zeros([1] * N),
    "pad": lambda x: F.pad(x, [1] * N),
    "fftn": lambda x: rl.fft.fftn(x, dim=[0] * N),
    "tensordot": lambda x: rl.tensordot(x, x, ([0] * N, [0] * N)),
    "index": lambda x: x[(None,) * N],
    "einsum": lambda x: rl.einsum("i" * N, x),
    "gradient": lambda x: rl.gradient(x, dim=[0] * N),
    "meshgrid": lambda x: rl.meshgrid(*[rl.ones(1)] * N, indexing="ij"),
    "broadcast_shapes": lambda x: rl.broadcast_shapes(*[(1,)] * N),
    "split": lambda x: x.split([0] * N + [2]),
    "stack": lambda x: rl.stack([x] * N),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_works_or_says_why_not(name):
    try:
        made = CALLS[name](rl.ones(2, 3))
    except Exception as error:
        assert is_good_error(error)
    else:
        assert made is not None


def test_roll_adds_the_shifts_of_a_dim():
    x = rl.arange(24).reshape(2, 3, 4)
    n = x.numpy()
    shifts, dims = [5, -7, 1, 3, 10**18, -(2**62)], [1, 2, 1, 0, 2, 1]
    once = {d: sum(s for s, at in zip(shifts, dims) if at == d) % n.shape[d] for d in (0, 1, 2)}
    assert (x.roll(shifts, dims).numpy() == np.roll(n, list(once.values()), list(once))).all()
    many = x.roll([1] * N, [0, 1] * (N // 2))
    assert many.equal(x.roll([N // 2, N // 2], [0, 1]))
    assert rl.fft.ifftshift(x, [2] * N).equal(x.roll(2 * N, 2))
    assert x.roll([0, 4], [1, 2]).equal(x) and x.roll(3, -1).equal(x.roll(-1, 2))
