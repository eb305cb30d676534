"""Every row of the op table gives the same bits on any number of threads, forward and backward."""

import os

import pytest
from table import PUBLIC, case, cases, listed, texts_of

import rushlight as rl
from rushlight import _C

pytestmark = [pytest.mark.kernels, pytest.mark.filterwarnings("ignore")]

UNINITIALISED = [op for op in PUBLIC if "empty" in op.full_name or op.full_name == "resize_"]
ELEMENTWISE = [op for op in PUBLIC if op.row.kind == "elementwise"]
DEFINED = [op for op in PUBLIC if op not in UNINITIALISED and texts_of(op)]
COUNTS = (2, 3, 7)


@pytest.fixture(autouse=True)
def smallest_parts():
    """Samples are small: loops over them are split all the same, into parts of one element."""
    threads = rl.get_num_threads()
    _C._set_largest_grain(1)
    yield
    _C._set_largest_grain(0)
    rl.set_num_threads(threads)


def results(op, number, dtype, shape=None):
    """Outputs and gradients of a sample, or the text of the error where it has none."""
    call = case(op, number, dtype, shape)
    leaves = {id(array): array.tensor(rl).requires_grad_() for array in call.differentiable()}

    def convert(array):  # in-place rows take no leaf
        return leaves[id(array)].clone() if id(array) in leaves else array.tensor(rl)

    try:
        outputs = [out for out in listed(call.run(rl, convert)) if isinstance(out, rl.Tensor)]
        outputs = [out if out.layout is rl.strided else out.to_dense() for out in outputs]
        graph = [out for out in outputs if out.requires_grad]
        if graph:
            starts = [out.detach().cos() for out in graph]
            outputs += rl.autograd.grad(graph, list(leaves.values()), starts, allow_unused=True)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return str(error)
    return [out for out in outputs if out is not None]


def check(*sample):
    rl.set_num_threads(1)
    expected = results(*sample)
    for count in COUNTS:
        rl.set_num_threads(count)
        found = results(*sample)
        if isinstance(expected, str):
            assert found == expected
            continue
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert bits(one) == bits(other), f"on {count} threads"


def bits(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return tensor.contiguous().flatten().view(rl.uint8).tolist()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("op", "number"), cases(DEFINED))
def test_same_bits(op, number, dtype):
    check(op, number, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.full_name)
def test_same_bits_in_vectors_and_in_their_rest(op, dtype):
    check(op, 0, dtype, (67,))


def test_small_parts_are_shared_out():
    """What the tests above stand on."""
    rl.set_num_threads(7)
    rl.ones(100).add(1)
    assert len(os.listdir("/proc/self/task")) >= 7
