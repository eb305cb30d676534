"""Every operator between tensors, subclasses, numbers and arrays, beside torch."""

import copy
import operator

import numpy
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split()
COMPARISONS = "lt le eq ne gt ge".split()
IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split()
DTYPES = ("float32", "int64", "bool")


class Reflected:
    """Knows what to do with a tensor on its left."""

    def __radd__(self, other):
        return "radd"

    def __rpow__(self, other):
        return "rpow"

    def __rmatmul__(self, other):
        return "rmatmul"


def operands(lib):
    class Plain(lib.Tensor):
        pass

    class Derived(Plain):
        pass

    class Disabled(lib.Tensor):
        __torch_function__ = lib._C._disabled_torch_function_impl

    class Own(lib.Tensor):
        def __radd__(self, other):
            return "own radd"

        def __rpow__(self, other):
            return "own rpow"

        def __pow__(self, other):
            return "own pow"

    made = {}
    for dtype in DTYPES:

        def tensor(dtype=dtype):
            return lib.tensor([[1, 2], [3, 1]]).to(getattr(lib, dtype))

        made[f"tensor {dtype}"] = tensor
        made[f"0-d {dtype}"] = lambda t=tensor: t()[0, 1]
        for kind in (Plain, Derived, Disabled, Own):
            made[f"{kind.__name__} {dtype}"] = lambda t=tensor, k=kind: t().as_subclass(k)
        made[f"Parameter {dtype}"] = lambda t=tensor: lib.nn.Parameter(t(), requires_grad=False)
        made[f"Buffer {dtype}"] = lambda t=tensor: lib.nn.Buffer(t())
    made["trained"] = lambda: lib.nn.Parameter(lib.tensor([[1.0, 2], [3, 1]]))
    for name, value in {
        "int": 2, "float": 1.5, "bool": True, "complex": 1j, "None": None, "str": "a",
        "list": [[1, 2], [3, 1]], "object": object(), "Reflected": Reflected(),
    }.items():  # fmt: skip
        made[name] = lambda value=value: copy.copy(value)
    return made


SIDES = (operands(torch), operands(rl))
TENSORS = [n for n in SIDES[0] if n.split()[0] in
           ("tensor", "0-d", "Plain", "Derived", "Disabled", "Own", "Parameter", "Buffer",
            "trained")]  # fmt: skip


def unrelated(left, right):
    kinds = {left.split()[0], right.split()[0]}
    return "Own" in kinds and bool(kinds & {"Plain", "Derived"})


def shown(value):
    if hasattr(value, "requires_grad"):
        rounded = numpy.round(numpy.array(value.tolist(), dtype=complex), 4).tolist()
        dtype = str(value.dtype).rpartition(".")[2]
        return type(value).__name__, dtype, rounded, value.requires_grad
    return repr(value)


def outcome(lib, side, name, left, right):
    a, b = side[left](), side[right]()
    with lib.no_grad():
        try:
            result = getattr(operator, name)(a, b)
        except Exception as error:
            return type(error)
    return shown(result), result is a


@pytest.mark.parametrize("name", BINARY + COMPARISONS + IN_PLACE)
def test_every_pair_of_operands(name):
    different = []
    for left in SIDES[0]:
        for right in SIDES[0]:
            if left not in TENSORS and right not in TENSORS:
                continue
            if name in ("eq", "ne") and unrelated(left, right):
                continue  # torch asks neither class, where for < it asks both and is declined
            expected = outcome(torch, SIDES[0], name, left, right)
            if isinstance(expected, type):
                continue  # what torch refuses is the matter of other tests
            actual = outcome(rl, SIDES[1], name, left, right)
            if actual != expected:
                different.append((left, right, expected, actual))
    assert not different, f"{len(different)} pairs, the first: {different[:5]}"


@pytest.mark.parametrize("scalar", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("name", BINARY[:7])
def test_numbers_of_numpy(name, scalar):
    number = getattr(numpy, scalar)(2)
    for kind in ("tensor float32", "Parameter float32", "Plain float32", "tensor int64"):
        for swapped in (False, True):
            results = []
            for side in SIDES:
                pair = (side[kind](), number)
                result = getattr(operator, name)(*(reversed(pair) if swapped else pair))
                results.append(shown(result))
            assert results[0] == results[1], (kind, swapped)


def test_a_power_with_a_parameter_is_differentiated():
    for lib in (torch, rl):
        base = lib.nn.Parameter(lib.tensor([2.0, 3.0]))
        (base ** lib.tensor([3.0, 2.0])).sum().backward()
        assert base.grad.tolist() == [12.0, 6.0]
