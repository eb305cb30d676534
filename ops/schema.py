"""The columns of the op table. A row is one call of `elementwise`, `kernel`, `view` or `composite`.

A signature is a Python function header. Types: Tensor, list[Tensor], Scalar (any number), int, float,
bool, str, dtype, device, layout, memory_format, Generator, list[int], list[float]; `T | None`; `Tensor | Number`
(a number is wrapped); `list[int, 2]` (one number stands for two). `name__overload(...)` adds an overload
to `name`. Results: Tensor, bool, int, float, Scalar, dtype, None, list[Tensor], tuple[values, indices] (named outputs).
"""
import sys
from dataclasses import dataclass, field

BOOL = frozenset({"bool"})
INTEGRAL = frozenset({"uint8", "int8", "int16", "int32", "int64"})
FLOATING = frozenset({"float32", "float64"})  # float16 and bfloat16 compute in float32
COMPLEX = frozenset({"complex64", "complex128"})
REAL = INTEGRAL | FLOATING
NUMERIC = REAL | COMPLEX
ALL = NUMERIC | BOOL

TABLE = []


@dataclass
class Row:
    kind: str                  # elementwise, kernel, view or composite
    signature: str
    doc: str = ""
    names: tuple = None        # Python names; default ("torch.X", "Tensor.X")
    kernel: str = None         # elementwise: the formula of one element
    result: str = "common"     # elementwise: common, float (integers become floats), bool, real
    guard: str = None          # elementwise: a call that refuses arguments before all else
    dtypes: frozenset = ALL    # elementwise: the types the formula is compiled for
    grad: object = None        # {input: formula}, or a sentence that says why there is none; "a, b": one formula
                               # that returns an array, undefined where wants(a) or wants(b) is false;
                               # one that names so_far (dispatch/in_gradient.h) adds to it where it is defined
    impl: str = None           # C++ function of namespace rl::impl; default: the row's C++ name
    body: str = None           # composite: an expression of ops; default: a function of rl::composite
    inplace: bool = False      # also `name_`: a kernel takes, last, the tensor to write
    two_numbers: bool = False  # the function also takes numbers alone, and gives a tensor
    node: str = None           # the graph node's name; default: that of the op and "Backward0"
    out: object = False        # the function also takes out=, of the result's dtype; "cast": of any it can be cast to
    replay: bool = False       # view: sizes and strides do not tell how it was made
    samples: tuple = ()
    ref: str = None            # a NumPy or SciPy function, "numpy.tanh"
    where: str = field(default="", compare=False)


def _add(kind, signature, **columns):
    caller = sys._getframe(2)  # inspect.stack() would read the source of every frame: 4 s in all
    where = f"{caller.f_code.co_filename.rpartition('/')[2]}:{caller.f_lineno}"
    row = Row(kind, signature, where=where, **columns)
    TABLE.append(row)
    return row


def elementwise(signature, kernel, **columns):
    """One formula per element, broadcasting and type promotion included."""
    columns.setdefault("out", "cast")
    return _add("elementwise", signature, kernel=kernel, **columns)


def kernel(signature, **columns):
    """A function of rl::impl that computes without recording; `grad` says how to differentiate it."""
    return _add("kernel", signature, **columns)


def view(signature, **columns):
    """A function of rl::impl that returns another window on its first argument."""
    return _add("view", signature, **columns)


def composite(signature, body=None, **columns):
    """A combination of other ops, differentiable because they are."""
    return _add("composite", signature, body=body, **columns)
