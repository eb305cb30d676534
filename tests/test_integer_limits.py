"""Integers at the ends of their ranges: an error or a result, never a trap."""

import itertools

import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels

INTEGERS = [rl.uint8, rl.int8, rl.int16, rl.int32, rl.int64]


def limits(dtype):
    if dtype is rl.bool:
        return 0, 1
    return rl.iinfo(dtype).min, rl.iinfo(dtype).max


@pytest.mark.parametrize("dtype", [*INTEGERS, rl.bool])
def test_random_bounds(dtype):
    low, high = limits(dtype)
    for start in {
        -(2**63) + 1,
        low - 1,
        low,
        high,
        high + 1,
        high + 2,
        high + 45,
        2**31,
        2**63 - 1,
    }:
        if not -(2**63) <= start < 2**63:
            continue
        for end in (None, start + 1, high, high + 1, high + 2, 2**63 - 1, -(2**63)):
            if end is not None and not -(2**63) <= end < 2**63:
                continue
            allowed = low <= start <= (high if end is None else end - 1) <= high
            t = rl.zeros(100, dtype=dtype)
            if allowed:
                t.random_(start, end)
                assert t.min().item() >= start and (end is None or t.max().item() < end)
            else:
                with pytest.raises(RuntimeError):
                    t.random_(start, end)
                assert not t.any()


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16, rl.float32, rl.float64])
def test_random_bounds_of_floats(dtype):
    for start in (-(2**63) + 1, 2**24, 2**53, 2**53 + 1, 2**63 - 1):
        for end in (None, 2**63 - 1):
            try:
                rl.zeros(10, dtype=dtype).random_(start, end)
            except RuntimeError:
                continue


@pytest.mark.parametrize("dtype", [*INTEGERS, rl.bool])
@pytest.mark.parametrize(
    "op",
    [
        "floor_divide", "remainder", "fmod", "gcd", "lcm", "div", "true_divide", "trunc_divide",
        "pow", "bitwise_left_shift", "bitwise_right_shift", "floor", "mod", "add", "sub", "mul",
    ],
)  # fmt: skip
def test_divisions_do_not_trap(op, dtype):
    low, high = limits(dtype)
    values = sorted({low, low + 1, 0, 1, high - 1, high} | ({-1} if low < 0 else set()))
    ops = {
        "floor": lambda a, b: rl.div(a, b, rounding_mode="floor"),
        "trunc_divide": lambda a, b: rl.div(a, b, rounding_mode="trunc"),
        "mod": lambda a, b: a % b,
    }
    call = ops.get(op) or getattr(rl, op)
    for a, b in itertools.product(values, values):
        for size in (1, 100):
            x, y = rl.full((size,), a, dtype=dtype), rl.full((size,), b, dtype=dtype)
            for other in (y, b):
                try:
                    call(x, other)
                    call(x.view(size, 1), y.view(1, size) if other is y else other)
                except (RuntimeError, NotImplementedError, TypeError):
                    continue


def test_the_negative_of_the_least_alpha():
    """The gradient of sub is -alpha times the incoming one, and -(-2**63) is no int64."""
    other = rl.ones(2, requires_grad=True)
    rl.sub(rl.ones(2), other, alpha=-(2**63)).sum().backward()
    assert other.grad.tolist() == [2.0**63] * 2
