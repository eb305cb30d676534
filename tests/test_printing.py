"""repr, print options and HTML of tensors."""

import math
import random

import pytest

import rushlight
from rushlight import _printing
from rushlight._printing import tensor_repr

FLOATING = ["float16", "bfloat16", "float32", "float64"]
INTEGRAL = ["uint8", "int8", "int16", "int32", "int64"]
COMPLEX = ["complex64", "complex128"]


@pytest.fixture(autouse=True)
def default_options():
    yield
    _printing.set_printoptions(profile="default")
    rushlight.set_default_dtype(rushlight.float32)


def shown(values, dtype=None, **options):
    with _printing.printoptions(**options):
        return tensor_repr(rushlight.tensor(values, dtype=dtype and getattr(rushlight, dtype)))


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (3, None, "tensor(3)"),
        (2.5, None, "tensor(2.5000)"),
        ([1, -20, 300], None, "tensor([  1, -20, 300])"),
        ([True, False], None, "tensor([ True, False])"),
        ([1.0, 2.0], None, "tensor([1., 2.])"),
        ([1.0, 20.5], "float64", "tensor([ 1.0000, 20.5000], dtype=torch.float64)"),
        ([1, 2], "uint8", "tensor([1, 2], dtype=torch.uint8)"),
        ([0.0, math.nan, math.inf], None, "tensor([0., nan, inf])"),
        ([1e-5, 1.0], None, "tensor([1.0000e-05, 1.0000e+00])"),
        ([1.0, 1e9], None, "tensor([1.0000e+00, 1.0000e+09])"),
        ([1 + 2j, 0.5 - 3j], None, "tensor([1.0000+2.j, 0.5000-3.j])"),
        ([], None, "tensor([])"),
        ([[], []], None, "tensor([], size=(2, 0))"),
        ([], "int64", "tensor([], dtype=torch.int64)"),
        ([[1, 2], [3, 4]], None, "tensor([[1, 2],\n        [3, 4]])"),
        ([[[1]], [[2]]], None, "tensor([[[1]],\n\n        [[2]]])"),
    ],
)
def test_layout(values, dtype, expected):
    assert shown(values, dtype) == expected


def test_summary_keeps_the_ends_of_each_long_dimension():
    assert shown(list(range(1001))) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    grid = [[10 * row + column for column in range(10)] for row in range(3)]
    assert shown(grid, threshold=20, edgeitems=2) == (
        "tensor([[ 0,  1,  ...,  8,  9],\n"
        "        [10, 11,  ..., 18, 19],\n"
        "        [20, 21,  ..., 28, 29]])"
    )
    assert shown([1, 2, 3], threshold=0, edgeitems=0) == "tensor([...], size=(3,))"


def test_options():
    assert shown([0.123456], precision=2) == "tensor([0.12])"
    assert shown([1.0], sci_mode=True) == "tensor([1.0000e+00])"
    assert shown([1e-9], sci_mode=False) == "tensor([0.0000])"
    assert shown([1, 2, 3], linewidth=10) == "tensor([1,\n        2,\n        3])"
    with _printing.printoptions(precision=1):
        assert _printing.get_printoptions()["precision"] == 1
    defaults = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80}
    assert _printing.get_printoptions() == {**defaults, "sci_mode": None}
    with pytest.raises(ValueError, match="profile"):
        _printing.set_printoptions(profile="long")


def test_suffixes():
    leaf = rushlight.ones(2, requires_grad=True)
    assert tensor_repr(leaf) == "tensor([1., 1.], requires_grad=True)"
    assert tensor_repr(leaf + 1) == "tensor([2., 2.], grad_fn=<AddBackward0>)"
    meta = rushlight.empty(2, 3, device="meta")
    assert tensor_repr(meta) == "tensor(..., device='meta', size=(2, 3))"
    rushlight.set_default_dtype(rushlight.float64)
    assert tensor_repr(leaf.detach()) == "tensor([1., 1.], dtype=torch.float32)"
    assert shown([1.0]) == "tensor([1.])"


def test_subclasses_are_named():
    class Named(rushlight.Tensor):
        pass

    class Weight(rushlight.nn.Parameter):
        pass

    assert tensor_repr(rushlight.ones(1).as_subclass(Named)) == "Named([1.])"
    weight = Weight(rushlight.ones(1))
    assert tensor_repr(weight) == "Parameter(Weight([1.], requires_grad=True))"


def test_the_methods_use_it():
    x = rushlight.tensor([1.5])
    assert repr(x) == str(x) == tensor_repr(x)
    parameter = rushlight.nn.Parameter(x)
    assert repr(parameter) == "Parameter containing:\n" + tensor_repr(parameter)


def test_html_has_heading_and_escaped_values():
    text = _printing.html(rushlight.tensor([[1.5, 2.0], [3.0, 4.0]]))
    assert "(2, 2)" in text and "torch.float32" in text and "cpu" in text
    assert text.count("<tr>") == 2 and text.count("<td>") == 4
    assert "&lt;AddBackward0&gt;" in _printing.html(rushlight.ones(1, requires_grad=True) + 1)
    assert _printing.html(rushlight.ones(0, 2)).count("<td>") == 0
    assert "<pre>" in _printing.html(rushlight.ones(2, 2, 2))
    assert _printing.html(rushlight.arange(2000)).count("<td>") == 7


def random_values(rng, shape, dtype):
    if shape:
        return [random_values(rng, shape[1:], dtype) for _ in range(shape[0])]
    if dtype == "bool":
        return rng.random() < 0.5
    if dtype in INTEGRAL:
        return rng.randrange(0, 120)
    if dtype in COMPLEX:
        return complex(random_values(rng, (), "float64"), random_values(rng, (), "float64"))
    special = [0.0, -0.0, math.nan, math.inf, -math.inf]
    return rng.choice(special) if rng.random() < 0.05 else rng.gauss(0, 1)


def scaled(values, scale, whole):
    if isinstance(values, list):
        return [scaled(value, scale, whole) for value in values]
    if isinstance(values, float) and math.isfinite(values):
        return float(round(values * scale)) if whole else values * scale
    return values


def random_options(rng):
    options = {
        "profile": rng.choice(["default", "short", "full"]),
        "precision": rng.randrange(7),
        "threshold": rng.choice([0, 5, 50]),
        "edgeitems": rng.choice([0, 1, 2, 5]),
        "linewidth": rng.choice([1, 20, 60, 120]),
        "sci_mode": rng.choice([True, False]),
    }
    return {name: value for name, value in options.items() if rng.random() < 0.3}


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(8))
def test_equals_torch(seed):
    import torch

    rng = random.Random(seed)
    try:
        for _ in range(150):
            dtype = rng.choice(["bool", *INTEGRAL, *FLOATING, *COMPLEX])
            shape = [rng.choice([0, 1, 2, 3, 5, 8, 14]) for _ in range(rng.randrange(4))]
            values = random_values(rng, shape, dtype)
            values = scaled(values, 10 ** rng.uniform(-8, 8), rng.random() < 0.3)
            options = random_options(rng)
            for module in (_printing, torch):
                module.set_printoptions(profile="default")
                module.set_printoptions(**options)
            ours = rushlight.tensor(values, dtype=getattr(rushlight, dtype))
            theirs = torch.tensor(values, dtype=getattr(torch, dtype))
            assert tensor_repr(ours) == repr(theirs), (options, dtype, shape)
    finally:
        torch.set_printoptions(profile="default")
