"""Data of other libraries and of Python, wherever a program may pass some, beside torch."""

import array
import ctypes
import decimal
import fractions

import numpy
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SCALARS = "int8 int16 int32 int64 uint8 float16 float32 float64 complex64 complex128".split()


class WithDLPack:
    def __init__(self):
        self.data = numpy.arange(3.0)

    def __dlpack__(self, **options):
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


class WithFloat:
    def __float__(self):
        return 1.5


class WithLength:
    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i > 1:
            raise IndexError
        return i


DATA = {
    **{f"numpy.{t}": getattr(numpy, t)(1) for t in SCALARS},
    **{f"0-d {t}": numpy.array(1, dtype=t) for t in SCALARS},
    **{f"1-d {t}": numpy.array([1, 0], dtype=t) for t in SCALARS},
    **{f"list of {t}": [getattr(numpy, t)(1), getattr(numpy, t)(0)] for t in SCALARS},
    **{f"nested {t}": [[numpy.array(1, dtype=t)], [2]] for t in SCALARS},
    **{f"array {t}": array.array(t, [1, 2]) for t in "bBhHiIlLfd"},
    "numpy.bool": numpy.bool_(True), "0-d bool": numpy.array(True),
    "1-d bool": numpy.array([True, False]), "list of bool": [numpy.bool_(True)],
    "bytearray": bytearray(b"\1\0\1\0\1\0\1\0"), "bytes": b"\1\0\1\0\1\0\1\0",
    "memoryview": memoryview(numpy.ones((2, 3))), "memoryview of bytes": memoryview(b"\1\0\1\0"),
    "ctypes": (ctypes.c_float * 2)(1, 2), "DLPack": WithDLPack(), "sequence": WithLength(),
    "float": WithFloat(), "list of float": [WithFloat()], "Decimal": decimal.Decimal("1.5"),
    "Fraction": fractions.Fraction(1, 2), "list of bytes": [b"ab"], "range": range(3),
    "read-only": numpy.broadcast_to(numpy.float32(1), (3,)), "empty": numpy.zeros((0, 3)),
}  # fmt: skip

USES = {
    "tensor": lambda lib, x: lib.tensor(x),
    "as_tensor": lambda lib, x: lib.as_tensor(x),
    "asarray": lambda lib, x: lib.asarray(x),
    "asarray, a copy": lambda lib, x: lib.asarray(x, copy=True),
    "asarray, no copy": lambda lib, x: lib.asarray(x, copy=False),
    "asarray, trained": lambda lib, x: lib.asarray(x, requires_grad=True),
    "new_tensor": lambda lib, x: lib.zeros(1).new_tensor(x),
    "full": lambda lib, x: lib.full((2,), x),
    "add": lambda lib, x: lib.add(lib.ones(2), x),
    "alpha": lambda lib, x: lib.add(lib.ones(2), lib.ones(2), alpha=x),
    "where": lambda lib, x: lib.where(lib.tensor([True, False]), x, lib.zeros(2)),
    "fill_": lambda lib, x: lib.zeros(2).fill_(x),
    "masked_fill": lambda lib, x: lib.zeros(2).masked_fill(lib.tensor([True, False]), x),
    "index": lambda lib, x: lib.arange(4)[x],
    "second index": lambda lib, x: lib.arange(4).view(2, 2)[:, x],
    "slice": lambda lib, x: lib.arange(4)[:x],
    "zeros": lambda lib, x: lib.zeros(x),
    "zeros, listed": lambda lib, x: lib.zeros([x, 2]),
    "reshape": lambda lib, x: lib.ones(4).reshape(x, -1),
    "sum": lambda lib, x: lib.ones(2, 2).sum(x),
    "randint": lambda lib, x: lib.randint(x, (2,)),
    "arange": lambda lib, x: lib.arange(x),
    **{
        f"{f}, {t}": lambda lib, x, f=f, t=t: getattr(lib, f)(x, dtype=getattr(lib, t))
        for f in ("tensor", "asarray")
        for t in ("float32", "int64", "bool", "complex64")
    },
}

# torch takes NumPy's bool and its complex64 for real numbers here: it gives float32, and loses the
# imaginary part.
TAKEN_FOR_REAL = {"numpy.bool", "numpy.complex64", "numpy.complex128", "list of complex64",
                  "list of complex128", "nested complex64", "nested complex128"}  # fmt: skip


def outcome(lib, use, data):
    lib.manual_seed(0)
    try:
        result = USES[use](lib, data)
    except Exception as error:
        return type(error)
    dtype = str(result.dtype).rpartition(".")[2]
    return dtype, tuple(result.shape), result.tolist(), result.requires_grad


@pytest.mark.parametrize("use", USES)
def test_data_mean_what_they_mean_to_torch(use):
    different = []
    for name, data in DATA.items():
        expected = outcome(torch, use, data)
        if isinstance(expected, type) or name in TAKEN_FOR_REAL and "asarray" not in use:
            continue
        if "complex" in name and use.endswith(("float32", "int64", "bool")):
            continue  # an error here: the imaginary part would be lost
        actual = outcome(rl, use, data)
        if actual != expected:
            different.append((name, expected, actual))
    assert not different


def tensors(lib):
    leaf = lib.ones(2, requires_grad=True)
    return {"plain": lib.ones(2), "leaf": leaf, "computed": leaf * 2, "view": lib.ones(2)[:1],
            "parameter": lib.nn.Parameter(lib.ones(2))}  # fmt: skip


@pytest.mark.parametrize("flag", [None, True, False])
@pytest.mark.parametrize("change", [{}, {"copy": True}, {"copy": False}, {"dtype": "float64"}])
def test_asarray_of_a_tensor(flag, change):
    results = []
    for lib in (torch, rl):
        options = {k: getattr(lib, v) if k == "dtype" else v for k, v in change.items()}
        if flag is not None:
            options["requires_grad"] = flag
        for name, given in tensors(lib).items():
            made = lib.asarray(given, **options)
            results.append((
                name, made is given, made.data_ptr() == given.data_ptr(), made.requires_grad,
                made.is_leaf, given.requires_grad, type(made).__name__,
            ))  # fmt: skip
    half = len(results) // 2
    assert results[:half] == results[half:]
