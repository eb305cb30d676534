"""`grad_dtype`: the dtype of the gradients of a leaf."""

import copy

import pytest

import rushlight
from rushlight import bfloat16, complex64, float16, float32, float64, int32


def leaf(dtype=float32, **kwargs):
    x = rushlight.ones(2, dtype=dtype, requires_grad=True)
    for name, value in kwargs.items():
        setattr(x, name, value)
    return x


def test_by_default_it_is_that_of_the_tensor():
    for dtype in (float32, bfloat16, int32):
        assert rushlight.ones(1, dtype=dtype).grad_dtype is dtype
    assert leaf(grad_dtype=float16).detach().grad_dtype is float32


@pytest.mark.parametrize("dtype", [float16, float64, complex64])
def test_gradients_are_cast_to_it(dtype):
    x, seen = leaf(grad_dtype=dtype), []
    x.register_hook(lambda grad: seen.append(grad.dtype))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.dtype))
    (x * 2).sum().backward()
    assert x.grad.dtype is dtype and x.grad.tolist() == [2, 2]
    (x * 2).sum().backward()
    assert x.grad.dtype is dtype and x.grad.tolist() == [4, 4]
    assert seen == [dtype] * 4
    (grad,) = rushlight.autograd.grad((x * 3).sum(), x)
    assert grad.dtype is dtype


def test_it_may_change_while_there_is_a_graph():
    x = leaf()
    y = (x * 2).sum()
    x.grad_dtype = float16
    y.backward()
    assert x.grad.dtype is float16


def test_with_create_graph():
    x = leaf(grad_dtype=float64)
    (grad,) = rushlight.autograd.grad((x**3).sum(), x, create_graph=True)
    assert grad.dtype is float64
    (second,) = rushlight.autograd.grad(grad.sum(), x)
    assert second.dtype is float64 and second.tolist() == [6, 6]


def test_none_takes_what_comes():
    x = leaf(grad_dtype=None)
    assert x.grad_dtype is None
    (x * rushlight.ones(2, dtype=float64)).sum().backward()
    assert x.grad.dtype is float64
    x.grad = rushlight.ones(2, dtype=float16)
    x.sum().backward()
    assert x.grad.dtype is float16 and x.grad.tolist() == [2, 2]
    x.grad = None
    (x.half() * 2).sum().backward()  # a cast gives a gradient of its input's dtype
    assert x.grad.dtype is float32


def test_what_may_be_assigned():
    x = leaf(grad_dtype=float64)
    with pytest.raises(RuntimeError, match="grad_dtype 'torch.float64'"):
        x.grad = rushlight.ones(2)
    x.grad = rushlight.ones(2, dtype=float64)
    with pytest.raises(RuntimeError, match="already a gradient"):
        x.grad_dtype = float32
    x.grad_dtype = float64
    x.grad_dtype = None
    assert x.grad.dtype is float64
    with pytest.raises(RuntimeError, match="torch.dtype or None, but got int"):
        x.grad_dtype = 3
    y = x * 2
    with pytest.raises(RuntimeError, match="leaf"):
        y.grad_dtype  # noqa: B018
    with pytest.raises(RuntimeError, match="leaf"):
        y.grad_dtype = float32


def test_copies_and_modules():
    x = leaf(grad_dtype=float64)
    x.grad = rushlight.ones(2, dtype=float64)
    twin = copy.deepcopy(x)
    assert twin.grad_dtype is float64 and twin.grad.dtype is float64
    layer = rushlight.nn.Linear(2, 2)
    for parameter in layer.parameters():
        parameter.grad_dtype = float64
    layer(rushlight.ones(1, 2)).sum().backward()
    kept = layer.weight.grad
    assert kept.dtype is float64
    layer.half()
    assert layer.weight.grad is kept and kept.dtype is float16
    layer.zero_grad()
    layer.double()
    assert layer.weight.grad_dtype is float64


def test_sgd_takes_gradients_of_another_dtype():
    x = rushlight.nn.Parameter(rushlight.ones(2))
    x.grad_dtype = float64
    x.sum().backward()
    rushlight.optim.SGD([x], lr=0.5).step()
    assert x.dtype is float32 and x.tolist() == [0.5, 0.5]
