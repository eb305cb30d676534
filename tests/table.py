"""The op table as the tests see it: rows, the functions they became, and arguments to call them
with.

A sample is the text of a call's arguments, "pos(2, 3), dim=1", in which these names make tensors
(of the dtype that the test is at, unless it says otherwise):

    x        normal numbers                  pos       numbers of [0.3, 2]
    unit     numbers of [-0.8, 0.8]          prob      numbers of [0.1, 0.9]
    distinct numbers at least 0.1 apart      index     places below its first argument
    mask     truth values                    spd       symmetric positive definite matrices
    above_one numbers of [1.2, 3]            fixed     given numbers, in no gradient
    real     normal numbers, never complex   cx        complex ones, always

`number` is a number that the dtype can hold, `dtype('int32')` a dtype of whatever library runs.
A row's samples are those of its column, else those in samples.py, else made from its signature.
"""

import importlib
from dataclasses import dataclass

import numpy as np
import pytest
from samples import SAMPLES

import rushlight
from gen.__main__ import read_tables

HALF = ("float16", "bfloat16")
FLOATING = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGRAL = ("uint8", "int8", "int16", "int32", "int64")
DTYPES = ("bool", *INTEGRAL, *HALF, *FLOATING, *COMPLEX)

TABLES = read_tables()
ROWS = [op for ops in TABLES.values() for op in ops]


@dataclass
class Array:
    """An argument that is a tensor, in no library yet."""

    values: np.ndarray
    dtype: str
    differentiable: bool = True
    hermitian: bool = (
        False  # only such values have meaning: checks of gradients must stay among them
    )

    def tensor(self, library, device=None):
        wide = "float32" if self.dtype == "bfloat16" else self.dtype
        with np.errstate(all="ignore"):
            plain = self.values.astype(wide)
        made = library.from_numpy(plain.copy()).to(getattr(library, self.dtype))
        return made if device is None else made.to(device)


@dataclass
class DType:
    """An argument that is a dtype."""

    name: str


_NAMES = "x pos unit prob distinct above_one real cx spd index mask fixed number".split()


class Maker:
    """What the names in a sample stand for."""

    def __init__(self, dtype, shape=None):
        self.dtype, self.shape = dtype, shape
        self.random = np.random.default_rng(0)

    def _array(self, shape, draw, integers):
        shape = shape if self.shape is None else self.shape
        if self.dtype == "bool":
            values = self.random.integers(0, 2, shape)
        elif self.dtype in INTEGRAL:
            low, high = integers
            values = self.random.integers(
                max(low, 0) if self.dtype == "uint8" else low, high, shape
            )
        else:
            values = draw(shape)
            if self.dtype in COMPLEX:
                values = values + 1j * draw(shape)
        return Array(np.asarray(values), self.dtype, self.dtype in (*HALF, *FLOATING, *COMPLEX))

    def x(self, *shape):
        return self._array(shape, self.random.standard_normal, (-4, 5))

    def pos(self, *shape):
        return self._array(shape, lambda s: self.random.uniform(0.3, 2, s), (1, 5))

    def unit(self, *shape):
        return self._array(shape, lambda s: self.random.uniform(-0.8, 0.8, s), (0, 2))

    def prob(self, *shape):
        return self._array(shape, lambda s: self.random.uniform(0.1, 0.9, s), (0, 2))

    def distinct(self, *shape):
        def draw(s):
            count = int(np.prod(s))
            return (self.random.permutation(count).reshape(s) - count / 2 + 0.25) * 0.3

        made = self._array(shape, draw, (-4, 5))
        if self.dtype in INTEGRAL and made.values.size <= 256:
            low = 0 if self.dtype == "uint8" else made.values.size // 2
            made.values = self.random.permutation(made.values.size).reshape(made.values.shape) - low
        return made

    def above_one(self, *shape):
        return self._array(shape, lambda s: self.random.uniform(1.2, 3, s), (2, 5))

    def real(self, *shape):
        dtype = {"complex64": "float32", "complex128": "float64"}.get(self.dtype, self.dtype)
        return Array(np.asarray(self.random.standard_normal(shape)), dtype)

    def cx(self, *shape):
        parts = self.random.standard_normal((2, *shape))
        return Array(
            parts[0] + 1j * parts[1], "complex64" if self.dtype == "float32" else "complex128"
        )

    def spd(self, *shape):
        root = self.random.standard_normal(shape)
        if self.dtype in COMPLEX:
            root = root + 1j * self.random.standard_normal(shape)
        product = root @ np.conj(np.swapaxes(root, -1, -2)) + np.eye(shape[-1])
        return Array(product, self.dtype, hermitian=True)

    def index(self, high, *shape):
        return Array(self.random.integers(0, high, shape), "int64", False)

    def mask(self, *shape):
        shape = shape if self.shape is None else self.shape
        return Array(self.random.integers(0, 2, shape), "bool", False)

    def fixed(self, values, dtype=None):
        return Array(np.asarray(values), dtype or self.dtype, False)

    @property
    def number(self):
        return (
            0.5 if self.dtype in (*HALF, *FLOATING, *COMPLEX) else 1 if self.dtype == "bool" else 2
        )

    def arguments(self, text):
        scope = {name: getattr(self, name) for name in _NAMES}
        scope.update(
            {
                "inf": float("inf"),
                "nan": float("nan"),
                "dtype": DType,
                "call": lambda *args, **named: (args, named),
            }
        )
        return eval(f"call({text})", scope)  # our own table


@dataclass
class Call:
    """A row and the arguments of one call of it."""

    op: object
    args: tuple
    named: dict

    def arguments(self, convert):
        """Arguments with `convert` applied to each Array."""
        return tree_map(convert, self.args), tree_map(convert, self.named)

    def arrays(self):
        found = []
        tree_map(found.append, (self.args, self.named))
        return found

    def run(self, library, convert=None, name=None):
        args, named = self.arguments(convert or (lambda a: a.tensor(library)))
        args, named = of_library(library, args), of_library(library, named)
        if is_random(self.op):
            library.manual_seed(0)
        return function(library, name or self.op.python_names[0])(*args, **named)

    def differentiable(self):
        """The arrays that the row has gradients for."""
        op, parameters = self.op, self.op.signature.parameters
        by_name = dict(zip((p.name for p in parameters), self.args)) | self.named
        if op.no_gradient or op.row.result == "bool" and not op.gradients:
            return []
        there = [g for g in op.gradients if not g.formula.text.startswith("missing_gradient")]
        wanted = [g.parameter.name for g in there] or list(by_name)
        found = []
        tree_map(found.append, [by_name[name] for name in wanted if name in by_name])
        return [array for array in found if array.differentiable]


def tree_map(convert, value, kind=Array):
    """`value` with `convert` applied to what is of `kind` in its tuples, lists and dicts."""
    if isinstance(value, kind):
        return convert(value)
    if isinstance(value, (tuple, list)):
        return type(value)(tree_map(convert, item, kind) for item in value)
    if isinstance(value, dict):
        return {key: tree_map(convert, item, kind) for key, item in value.items()}
    return value


def of_library(library, value):
    return tree_map(lambda dtype: getattr(library, dtype.name), value, DType)


def function(library, name):
    """The function that `name`, as rows have it, stands for; methods take their tensor first."""
    module, _, bare = name.rpartition(".")
    if (
        bare.startswith("_") and module != "Tensor" and library is rushlight
    ):  # for the Python layer alone
        return rushlight._C._functions[module.removeprefix("torch")][bare]
    if module == "Tensor":
        return getattr(library.Tensor, bare)
    for part in module.removeprefix("torch").strip(".").split("."):
        if part:
            if not hasattr(library, part):
                importlib.import_module(f"{library.__name__}.{part}")
            library = getattr(library, part)
    return getattr(library, bare)


# ---- samples from signatures

_REQUIRED = {
    "int": "1",
    "float": "0.5",
    "Scalar": "number",
    "bool": "True",
    "list[int]": "(2, 3)",
    "dim": "0",
}
_FULL = {"dim": "-1", "dims": "(0, 1)", "float": "0.5", "Scalar": "number", "int": "1"}


def _tensor_text(p, shape="2, 3"):
    if "mask" in p.name or p.name == "condition":
        return f"mask({shape})"
    if "index" in p.name or p.name == "indices":
        return f"index(2, {shape})"
    return f"x({shape})"


def _required_text(p, dim="0"):
    if p.is_tensor:
        return _tensor_text(p)
    if p.is_tensor_list:
        return f"[{_tensor_text(p)}, {_tensor_text(p)}]"
    if p.name.startswith("dim") and p.type == "list[int]":
        return f"({dim},)"
    if p.name.startswith("dim") and p.type == "int":
        return "1" if p.name == "dim1" else dim
    return _REQUIRED.get(p.type)


def _full_text(p):
    """A value other than the default, or None."""
    if p.name.startswith("dim") and p.type in ("int", "list[int]"):
        return None if p.name != "dim" else "-1" if p.type == "int" else "(1,)"
    not_varied = ("requires_grad", "pin_memory", "non_blocking", "sparse_grad")
    if p.type == "bool" and p.name not in not_varied:
        return str(p.default == "False")
    return _FULL.get(p.type) if p.type in ("Scalar",) else None


def derived_samples(op):
    parameters = op.signature.parameters
    required = [p for p in parameters if p.default is None]
    optional = [p for p in parameters if p.default is not None]
    texts = []
    for dim in ("0", "-1"):
        values = [_required_text(p, dim) for p in required]
        if None in values:
            return []
        texts.append(
            ", ".join(
                f"{p.name.rstrip('_')}={v}" if p.keyword_only else v
                for p, v in zip(required, values)
            )
        )
    full = [f"{p.name.rstrip('_')}={_full_text(p)}" for p in optional if _full_text(p)]
    if full:
        texts.append(", ".join([*filter(None, texts[:1]), *full]))
    if op.row.kind == "elementwise" and len(op.tensor_parameters) > 1:
        first, *others = required
        shapes = [_tensor_text(p, "3") if p.is_tensor else _required_text(p) for p in others]
        texts.append(
            ", ".join(
                [
                    _tensor_text(first),
                    *(f"{p.name}={s}" if p.keyword_only else s for p, s in zip(others, shapes)),
                ]
            )
        )
        if parameters[1].type == "Tensor | Number":
            texts.append(texts[0].replace("x(2, 3), x(2, 3)", "x(2, 3), number"))
    return list(dict.fromkeys(texts))


def texts_of(op):
    """The samples of a row; a sentence that says why, if it cannot be called here."""
    header = op.row.signature.partition("(")[0]  # scatter__reduce is not scatter_reduce
    return op.row.samples or SAMPLES.get(header) or SAMPLES.get(op.full_name) or derived_samples(op)


def plain_dtype(op):
    """float64 where the row takes it."""
    return "float64" if op.row.kind != "elementwise" or "float64" in op.row.dtypes else "int64"


def is_random(op):
    return op.table == "random"


PUBLIC = [op for op in ROWS if op.python_names and not isinstance(texts_of(op), str)]


def cases(rows):
    """(row, number of its sample) for pytest.mark.parametrize."""
    return [
        pytest.param(op, number, id=f"{op.full_name}-{number}")
        for op in rows
        for number in range(max(1, len(texts_of(op))))
    ]


def case(op, number, dtype=None, shape=None):
    texts = texts_of(op)
    assert texts, f"{op.row.where}: {op.full_name}: its signature gives no samples: fill the column"
    args, named = Maker(dtype or plain_dtype(op), shape).arguments(texts[number])
    return Call(op, args, named)


# ---- comparison, by NumPy: the library under test is no judge of itself

TOLERANCE = {
    "float16": 1e-3,
    "bfloat16": 1.6e-2,
    "float32": 1.3e-6,
    "float64": 1e-7,
    "complex64": 1.3e-6,
    "complex128": 1e-7,
}


def as_numpy(tensor):
    """The values of a tensor of any library that has torch's methods."""
    tensor = tensor.detach()
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().numpy()


def listed(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def dtype_name(tensor):
    return str(tensor.dtype).removeprefix("torch.")


def assert_same(actual, expected, exact=False):
    """Results with the same structure, dtypes, shapes and, up to rounding, values."""
    actual, expected = listed(actual), listed(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        if not hasattr(e, "shape"):
            assert type(a) is type(e) and (a == e or a != a and e != e), f"{a} is not {e}"
            continue
        assert tuple(a.shape) == tuple(e.shape), f"shape {tuple(a.shape)} is not {tuple(e.shape)}"
        assert dtype_name(a) == dtype_name(e), f"dtype {a.dtype} is not {e.dtype}"
        assert_values(as_numpy(a), as_numpy(e), 0 if exact else TOLERANCE.get(dtype_name(e), 0))


def assert_values(actual, expected, tolerance):
    absolute = 0 if tolerance == 0 else max(1e-5, tolerance) if tolerance > 1e-7 else 1e-7
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=absolute)
