"""gelu beside the normal distribution, and its slopes."""

import numpy as np
import pytest
import scipy.special

import rushlight as rl

pytestmark = [pytest.mark.kernels, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_gelu_over_its_range(dtype):
    gelu = rl.nn.functional.gelu
    x = rl.cat([rl.linspace(-12, 12, 100_001), rl.logspace(-30, 1, 1000)]).to(dtype)
    v, eps = x.double().numpy(), np.finfo(np.float32 if dtype == rl.float32 else np.float64).eps
    error = np.abs(gelu(x).double().numpy() - v * scipy.special.ndtr(v))
    assert (error <= 2 * eps * np.abs(v)).all()
    if dtype == rl.float32:  # the tail keeps digits
        tail = (v < 0) & (v > -4)
        assert (error[tail] <= 1e-4 * np.abs(v * scipy.special.ndtr(v))[tail]).all()
    corner = gelu(rl.tensor([0.0, np.inf, np.nan, 1e30, -1e30], dtype=dtype)).tolist()
    assert corner[:2] == [0, np.inf] and np.isnan(corner[2]) and corner[3] == pytest.approx(1e30)
    assert corner[4] == 0 and np.signbit(corner[4])


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16, rl.float16])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_far_below_zero(approximate, dtype):
    """Minus zero, as torch has it."""
    x = rl.tensor([-40.0, -100.0, -1000.0, -60000.0] * 5, dtype=dtype, requires_grad=True)
    y = rl.nn.functional.gelu(x, approximate=approximate)
    assert (y == 0).all() and y.signbit().all()
    (slope,) = rl.autograd.grad(y.sum(), x)
    assert (slope == 0).all()
    zeros = rl.nn.functional.gelu(rl.tensor([0.0, -0.0], dtype=dtype), approximate=approximate)
    assert (zeros == 0).all() and zeros.signbit().tolist() == [False, True]


def test_the_slope_of_gelu():
    x = rl.linspace(-8, 8, 4001, dtype=rl.float64, requires_grad=True)
    y = rl.nn.functional.gelu(x)
    (slope,) = rl.autograd.grad(y.sum(), x, create_graph=True)
    v = x.detach().numpy()
    bell = np.exp(-0.5 * v * v) / np.sqrt(2 * np.pi)
    expected = scipy.special.ndtr(v) + v * bell
    np.testing.assert_allclose(slope.detach().numpy(), expected, rtol=1e-14, atol=1e-16)
    (second,) = rl.autograd.grad(slope.sum(), x)
    np.testing.assert_allclose(second.numpy(), (2 - v * v) * bell, rtol=1e-13, atol=1e-15)
