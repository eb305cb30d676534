"""The order of arguments that programs of 2017 have: a number before the tensors."""

import warnings

import pytest

import rushlight as rl

F = rl.nn.functional
PRODUCTS = {
    "addmm": ((2, 3), (2, 4), (4, 3)),
    "addmv": ((2,), (2, 4), (4,)),
    "addr": ((2, 3), (2,), (3,)),
    "addbmm": ((2, 3), (5, 2, 4), (5, 4, 3)),
    "baddbmm": ((5, 2, 3), (5, 2, 4), (5, 4, 3)),
}


def warns():
    return pytest.warns(UserWarning, match="order of arguments of 2017")


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("alpha", [2.0, None])
def test_products(name, alpha):
    x, a, b = (rl.randn(s, dtype=rl.float64) for s in PRODUCTS[name])
    expected = getattr(rl, name)(x, a, b, beta=0.5, alpha=alpha or 1)
    numbers = [] if alpha is None else [alpha]
    with warns():
        assert getattr(rl, name)(0.5, x, *numbers, a, b).equal(expected)
    with warns():
        assert getattr(x, name)(0.5, *numbers, a, b).equal(expected)
    x.requires_grad_()
    copy = x * 1
    with warns():
        assert getattr(copy, f"{name}_")(0.5, *numbers, a, b) is copy
    assert copy.equal(expected) and copy.grad_fn.name() == f"{name.capitalize()}Backward0"
    copy.sum().backward()
    assert x.grad.equal(rl.full_like(x, 0.5))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_scaled_products(name):
    x, a, b = (rl.rand(3) + 1 for _ in range(3))
    expected = getattr(rl, name)(x, a, b, value=0.5)
    with warns():
        assert getattr(rl, name)(x, 0.5, a, b).equal(expected)
    with warns():
        assert getattr(x, name)(0.5, a, b).equal(expected)
    with warns():
        assert getattr(x, f"{name}_")(0.5, a, b) is x
    assert x.equal(expected)


@pytest.mark.parametrize("name", ["add", "sub"])
def test_scaled_sums(name):
    x, y = rl.randn(3), rl.randn(3)
    expected = getattr(rl, name)(x, y, alpha=2)
    with warns():
        assert getattr(rl, name)(x, 2, y).equal(expected)
    with warns():
        assert getattr(x, f"{name}_")(2, y) is x
    assert x.equal(expected)


def test_the_order_of_today_is_not_warned_of():
    x, y = rl.ones(2, 2), rl.ones(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rl.addmm(x, x, y), x.add(y, alpha=2), x.addcmul(x, y, value=2), rl.add(x, 2)


def test_weight_of_embedding_bag_first():
    weight, indices, starts = rl.randn(4, 3), rl.tensor([0, 2, 3]), rl.tensor([0, 1])
    with warns():
        assert F.embedding_bag(weight, indices, starts).equal(
            F.embedding_bag(indices, weight, starts)
        )


def test_sparse_tensors_of_sizes():
    with pytest.warns(UserWarning, match="older name"):
        empty = rl.sparse.FloatTensor(2, 3)
    assert empty.shape == (2, 3) and empty._nnz() == 0


def test_switches_of_warnings():
    switch = rl.utils.backcompat.broadcast_warning
    rl._ignored._warned.clear()
    switch.enabled = False
    with pytest.warns(UserWarning, match="broadcast_warning"):
        switch.enabled = True
    assert switch.enabled
    switch.enabled = False
