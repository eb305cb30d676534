"""Where a result is rounded the source says, not the compiler nor the place of an element."""

import re
from pathlib import Path

import numpy as np
import pytest
from table import ROWS, function

import rushlight as rl
from rushlight._table import nn_functional

ROOT = Path(__file__).parent.parent
COUNT = 67  # vectors of every instruction set, a part of one, and some elements


# The rows that are a formula and want tensors alone.
FORMULAS = {
    op.python_names[0]: op
    for op in ROWS
    if op.kernel and op.python_names and op.tensor_parameters and not op.number_parameters
}


def numbers(name, count, dtype):
    """Small ones, ones of (0, 1), and large ones, in every vector."""
    random = np.random.default_rng(len(name))
    kinds = [random.uniform(-3, 3, count), random.uniform(0, 1, count), random.normal(0, 40, count)]
    return rl.tensor(np.choose(np.arange(count) % 3, kinds), dtype=dtype)


def bits(x):
    return x.detach().numpy().view(np.uint32 if x.dtype == rl.float32 else np.uint64)


def equal_bits(found, expected, place):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    if not found.dtype.is_floating_point:
        return np.testing.assert_array_equal(found.numpy(), expected.numpy(), str(place))
    nan = np.isnan(expected.detach().numpy())
    np.testing.assert_array_equal(np.isnan(found.detach().numpy()), nan, str(place))
    np.testing.assert_array_equal(bits(found)[~nan], bits(expected)[~nan], str(place))


@pytest.mark.kernels
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64], ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_an_element_is_the_same_wherever_it_lies(name, dtype):
    """In a loop's vectors, among its last elements, alone, and apart from its neighbours."""
    op, call = FORMULAS[name], function(rl, name)
    inputs = [numbers(name + p.name, COUNT, dtype) for p in op.tensor_parameters]
    inputs = [x > 0 if p.name == "condition" else x for p, x in zip(op.tensor_parameters, inputs)]
    try:
        call(*inputs)
    except (TypeError, NotImplementedError):
        pytest.skip("not of floating-point numbers")

    def work_out(inputs):
        wanted = [
            x.requires_grad_()
            for p, x in zip(op.tensor_parameters, inputs)
            if p.name in op.gradients
        ]
        result = call(*inputs)
        if not result.requires_grad:
            return [result]
        return [result, *rl.autograd.grad(result, wanted, rl.ones_like(result))]

    whole = work_out([x.clone() for x in inputs])
    for begin, end in [*((i, i + 1) for i in range(0, COUNT, 3)), (1, 4), (3, 20), (50, COUNT)]:
        for found, expected in zip(work_out([x[begin:end].clone() for x in inputs]), whole):
            equal_bits(found, expected[begin:end], (begin, end))
    apart = [rl.stack([x, x], 1)[:, 1] for x in inputs]
    for found, expected in zip(work_out(apart), whole):
        equal_bits(found, expected, "apart")


@pytest.mark.kernels
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh"])
def test_an_activation_in_a_product_is_the_one_by_itself(activation):
    plain = {
        "relu": rl.relu,
        "gelu": rl.nn.functional.gelu,
        "gelu_tanh": lambda x: rl.nn.functional.gelu(x, approximate="tanh"),
    }[activation]
    x = rl.linspace(-12, 12, 200_000).view(1000, 200)
    eye = rl.eye(200)
    product = rl.nn.functional.linear(x, eye)
    equal_bits(
        nn_functional._linear_activation(x, eye, None, activation), plain(product), activation
    )


def test_no_compiler_contracts_products_and_sums():
    flags = (ROOT / "CMakeLists.txt").read_text()
    assert "-ffp-contract=off" in re.sub(r"#.*", "", flags)
    assert not re.search(r"-ffast-math|-Ofast|-fassociative-math|-ffp-contract=(fast|on)", flags)


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.[hc]*")), ids=lambda p: p.name)
def test_a_fused_multiply_add_is_spelled_as_one(path):
    """By the one function that knows which instruction sets have it. Random numbers, which are
    torch's to the bit on all of them, call the C library's where they must. standard.cuh says what
    that function calls on a GPU."""
    if path.name in ("arithmetic.h", "simd.h", "random.cpp", "random.isa.cpp", "standard.cuh"):
        return
    assert not re.search(r"\b(__builtin_fma|std::fma|_mm\d*_fn?m(add|sub))", path.read_text())
