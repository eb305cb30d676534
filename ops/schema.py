"""The columns of the op table. A row is one call of `elementwise`, `kernel`, `view`, `factory`,
`draw`, `step` or `composite`; of `function`, what formulas and bodies share.

A signature is a Python function header. Types: Tensor, list[Tensor], Scalar (any number), int,
float, Dim (an int that counts from the end of input's dims where negative), bool, str, dtype,
device, layout, memory_format, Generator, list[int], list[float]; `T | None`; `Tensor | Number` (a
number is wrapped); `list[int, 2]` (one number stands for two). `name__overload(...)` adds an
overload to `name`. Results: Tensor, bool, int, float, Scalar, dtype, None, list[Tensor],
tuple[values, indices] (named outputs).
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

# Why vmap computes an op example by example.
FIXED_DIMS = "loop: its dims have fixed places, which a dim of examples would change"
OWN_PLACES = "loop: each example reads or writes places of its own"
OWN_SIZES = "loop: the sizes of its result depend on the values of an example"

# Kinds of rows that need no gradient: made of ops that have one, or not of elements at all.
WITHOUT_GRADIENT = ("composite", "factory", "draw", "step", "function")

TABLE = []


@dataclass
class Row:
    kind: str  # elementwise, kernel, view, factory, draw, step, composite or function
    signature: str
    doc: str = ""
    names: tuple = None  # Python names; default ("torch.X", "Tensor.X")
    # The function that errors name, of a row that is a part of it; default: the row's own name
    # without "_kernel".
    called: str = None
    # elementwise: the formula of one element
    kernel: str = None
    # elementwise: common, float (integers become floats), bool, real
    result: str = "common"
    # a call that refuses arguments before all else
    guard: str = None
    # elementwise: a loss, whose node takes in the sum or the mean of its elements
    loss: bool = False
    # elementwise: the types the formula is compiled for
    dtypes: frozenset = ALL
    # elementwise of two tensors: there are also loops of which one operand is the same element all
    # along, as in x * column, and of arithmetic alone loops that widen and round 16-bit floats in
    # registers.
    constant_operands: bool = False
    # elementwise, of 16-bit floats: they are widened and rounded in registers. For short formulas:
    # to convert them in passes before and after takes longer than the formula.
    reduced_in_registers: bool = False
    # {input: formula}, or a sentence that says why there is none. "a, b": one formula that returns
    # an array, undefined where wants(a) or wants(b) is false. One that names `accumulated`
    # (dispatch/gradient_buffer.h) adds to it where it is defined.
    grad: object = None
    # Of several results: a gradient that does not come is undefined, not zeros.
    absent: bool = False
    # {output that the gradient reads: C++ condition of keeping a copy, so that it may be changed}
    copied: dict = field(default_factory=dict, hash=False)
    # kernel: what the result is to be, a call of rl::shape or OutputSpec{...}; of several results
    # an array. It sees sizes, strides and dtypes, never elements. view: a call of rl::window, which
    # says where the view looks.
    shape: str = None
    # kernel: the call of rl::launch that computes it; physical(x) where it takes any strides.
    # and reshaped(out, kept_sizes(...)) where it wants the dims that a reduction drops. `out=` goes
    # straight to it, for several results too. Without one, the body or a function of rl::impl of
    # the row's name does all of it.
    launch: str = None
    # composite, kernel, function: an expression of ops, or statements (gen/body.py); default of a
    # composite: a function of ops
    body: str = None
    states: str = None  # step: the lists of states that it updates, as C++
    # What the node keeps besides, for programs to read: arguments, "sizes(input)".
    keeps: tuple = ()
    # Also `name_`: a kernel takes, last, the tensor to write. "exact": of the result's dtype alone.
    inplace: object = False
    # A tensor with dims in place of a number is a wrong value (RuntimeError), not a wrong type.
    tensor_numbers: bool = False
    two_numbers: bool = False  # the function also takes numbers alone, and gives a tensor
    # The graph node's name; default: that of the op and "Backward0". In braces, C++ of the values
    # that the node keeps (autograd/node_name.h). Or {parameter: name}: by the first parameter whose
    # argument is a number rather than a tensor, with None for the rest; numbers are no inputs of
    # these nodes. Of a composite without a gradient of its own: the one node that its ops become
    # (autograd/joined_node.h).
    node: object = field(default=None, hash=False)
    inputs: tuple = None  # of such a composite: the tensors that the node has edges for; else all
    # The function also takes out=, of the result's dtype; "cast": of any it can be cast to;
    # "truth": bool or uint8; "fill": of any shape with as many elements.
    out: object = False
    named: bool = True  # several tensors are a named tuple to Python, else a plain one
    replay: bool = False  # view: sizes and strides do not tell how it was made
    # vmap's rule, where gen/rules.py infers none or another: "elementwise", "leading" (it takes any
    # dims before its own), "dim", "value" (a program cannot depend on it), "metadata", a rule of
    # func/_batching, or "loop: why there is none". For ops that only formulas of gradients call,
    # "spread_...": how their function takes a batch of gradients (dispatch/batched.h).
    batch: str = None
    # What its arguments become, of gen/rules.py AUTOCAST; default: nothing.
    autocast: str = None
    followed_if: str = None  # when the result is a view to autograd, in C++; default: always
    # Forward mode applies it to the tangent; default: what the gradient says.
    linear: bool = None
    # The operator that it is: a member of PyNumberMethods, and the methods that modes see for
    # tensor <op> other, other <op> tensor and tensor <op>= other.
    slot: tuple = None
    samples: tuple = ()
    ref: str = None  # a NumPy or SciPy function, "numpy.tanh"
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
    """A function of rl::impl that computes without recording; `grad` differentiates it."""
    return _add("kernel", signature, **columns)


def view(signature, **columns):
    """Another window on the first argument, which `shape` or a function of rl::impl describes."""
    return _add("view", signature, **columns)


def factory(signature, **columns):
    """A new tensor: `shape` says of which sizes, `launch` what is in it; nothing is set without."""
    return _add("factory", signature, **columns)


def draw(signature, **columns):
    """`launch` overwrites the first argument, whatever it held before: its gradient is 0."""
    return _add("draw", signature, **columns)


def composite(signature, body=None, **columns):
    """A combination of other ops, differentiable because they are; with `grad` it is one node."""
    return _add("composite", signature, body=body, **columns)


def step(signature, states, **columns):
    """An optimizer's step: `launch` updates the slots (dispatch/optim.h) that `states` fills."""
    return _add("step", signature, states=states, **columns)


def function(signature, body):
    """What formulas and bodies call: made of ops, but none itself, so nothing else knows it."""
    return _add("function", signature, body=body)
