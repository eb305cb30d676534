"""The operations of the op table as graphs name them: which one a call is, and with what arguments.

A function of Python may be several operations, of which its arguments choose one. `resolve` finds
it by the rules of the argument parser, so that a graph holds one operation with one signature, and
its arguments in the order of that signature.
"""

import ast
import functools
import numbers
from dataclasses import dataclass

import rushlight
from rushlight import Tensor
from rushlight._numpy_names import NUMPY_NAMES
from rushlight._op_schemas import SCHEMAS, TARGETS
from rushlight._set_module import function_of_core
from rushlight.library import _operator

MISSING = object()  # a parameter that has no default


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation."""

    name: str
    kind: str  # "Tensor", "IntList", ... as src/bind/args.h has them
    optional: bool
    default: object
    keyword_only: bool
    length: int  # one number stands for that many; -1: it does not


@dataclass(frozen=True)
class Schema:
    """An operation's signature."""

    key: str
    parameters: tuple
    returns: tuple  # ("Tensor",), names of several tensors, ("list[Tensor]",), ("bool",), ...
    kind: str  # elementwise, kernel, view, composite or inplace

    @property
    def is_inplace(self):
        """Does it change its first argument?"""
        return self.kind == "inplace" or self.key.split(".")[0].endswith("_")

    def index(self, name):
        """The place of a parameter, -1 for none."""
        for place, p in enumerate(self.parameters):
            if p.name == name:
                return place
        return -1

    def __str__(self):
        parts, star = [], False
        for p in self.parameters:
            if p.keyword_only and not star:
                parts.append("*")
                star = True
            text = f"{p.kind}{'?' * p.optional} {p.name}"
            parts.append(text if p.default is MISSING else f"{text}={p.default}")
        return f"{self.key}({', '.join(parts)}) -> {', '.join(self.returns)}"


def _default(text):
    if text in ("inf", "-inf"):
        return float(text)
    return ast.literal_eval(text)


def _parameter(text, keyword_only):
    head, equals, default = text.partition("=")
    name, _, kind = head.partition(":")
    optional = kind.endswith("?")
    kind, bracket, length = kind.rstrip("?").partition("[")
    value = _default(default) if equals else MISSING
    optional = optional or value is None
    return Parameter(name, kind, optional, value, keyword_only,
                     int(length[:-1]) if bracket else -1)  # fmt: skip


@functools.cache
def schemas():
    """The signatures of all operations as text, by key."""
    found = {}
    for line in SCHEMAS.split("\n")[1:-1]:
        key, _, text = line.partition("|")
        found[key] = text.removesuffix("+")
        if text.endswith("+"):
            name, dot, overload = key.partition(".")
            found[f"{name}_{dot}{overload}"] = text.rpartition("|")[0] + "|inplace"
    return found


@functools.cache
def schema(key):
    """The signature of an operation; KeyError if there is none of the name."""
    parameters, returns, kind = schemas()[key].split("|")
    found, keyword_only = [], False
    for text in parameters.split(";") if parameters else ():
        if text == "*":
            keyword_only = True
        else:
            found.append(_parameter(text, keyword_only))
    return Schema(key, tuple(found), tuple(returns.split(",")), kind)


@functools.cache
def _targets():
    found = {}
    for module, words in TARGETS.items():
        for word in words.split():
            name, _, keys = word.partition("=")
            found[f"{module}.{name}"] = (keys or name).split(",")
    return found


@functools.cache
def _names_of_keys():
    names = {}
    for name, keys in _targets().items():
        for key in keys:
            if key not in names or names[key].startswith("Tensor."):
                names[key] = name
    return names


@functools.cache
def _target_of_functions():
    found = {}
    for name in _targets():
        function = function_of_core(name)
        found[function] = name
    return found


class TableOperation(_operator._Builtin):
    """An operation of the table with one signature: `torch.ops.aten.add.default`."""

    def __init__(self, packet, overload, row, function):
        super().__init__(packet, overload)
        self.row = row
        self._function = function

    @property
    def key(self):
        """The name under which files have it."""
        return self.row.key

    def __reduce__(self):
        return operation, (self.row.key,)


def _slice(x, dim=0, start=None, end=None, step=1):
    return x[(*(slice(None),) * (dim % x.dim()), slice(start, end, step))]


def _index(x, indices):
    return x[tuple(slice(None) if i is None else i for i in indices)]


def _linear_rectified(x, weight, bias, rectified):
    y = rushlight.nn.functional.linear(x, weight, bias)
    return rushlight.relu(y) if rectified else y


_SPELLED_OTHERWISE = {"slice": _slice, "index": _index, "linear.rectified": _linear_rectified}


# Losses and elu, which graphs call with the arguments of rows, dispatch modes with those of torch's
# operation: a reduction that is a number, the scale.
_TWO_FORMS = {"mse_loss", "smooth_l1_loss", "huber_loss", "functional_elu"}


def _with_two_forms(name, function):
    from rushlight.library._forward import FUNCTIONS

    def choose(*args, **kwargs):
        of_torch = len(args) > 2 and type(args[2]) in (int, float)
        return (FUNCTIONS[name] if of_torch else function)(*args, **kwargs)

    return choose


def _has_name(key):
    return key in schemas() and key in _names_of_keys()


# Of the forms with an argument `inplace`, those that are other operations with and without it.
_PLAIN = {"functional_relu": "relu", "functional_celu": "celu", "functional_selu": "selu"}


@functools.cache
def operation(key):
    """The target of a node for an operation of the table."""
    row = schema(key)
    name, _, overload = key.partition(".")
    function = _SPELLED_OTHERWISE.get(key)
    if function is None:
        if key not in _names_of_keys():
            raise KeyError(key)
        function = function_of_core(_names_of_keys()[key])
    plain = name.removeprefix("functional_")
    if plain != name and not _has_name(plain):
        name = plain
    if key in _TWO_FORMS:
        function = _with_two_forms(name, function)
    aten = _operator.namespace("aten")
    try:
        packet = getattr(aten, name)
    except AttributeError:
        packet = _operator._BuiltinPacket(name, function)
        setattr(aten, name, packet)
    found = TableOperation(packet, overload, row, function)
    setattr(packet, overload or "default", found)
    return found


def named(name, overload):
    """The operation that is `torch.ops.aten.NAME.OVERLOAD`, or None."""
    key = name if overload == "default" else f"{name}.{overload}"
    for found in (key, f"functional_{key}"):
        if found in schemas() and (found in _SPELLED_OTHERWISE or found in _names_of_keys()):
            return operation(found)
    return None


def is_operation(target):
    """Is a node's target an operation of the table?"""
    return isinstance(target, TableOperation)


def target_name(function):
    """The name under which the table has a Python function or method: "torch.add"; None if not."""
    try:
        return _target_of_functions().get(function)
    except TypeError:  # it cannot be hashed
        return None


# ---- which operation a call is


def _is_int(v):
    if isinstance(v, bool):
        return False
    return isinstance(v, numbers.Integral) or hasattr(type(v), "__index__")


def _is_number(v):
    return isinstance(v, numbers.Number)


def _is_tensor(v):
    return isinstance(v, Tensor)


def _is_real(v):
    if isinstance(v, bool):
        return True
    return isinstance(v, numbers.Real) or (_is_tensor(v) and v.dim() == 0)


class Concrete:
    """What the parser asks of arguments that are values."""

    is_tensor = staticmethod(_is_tensor)
    is_number = staticmethod(_is_number)
    is_int = staticmethod(lambda v: _is_int(v) and not _is_tensor(v))
    is_real = staticmethod(_is_real)
    is_bool = staticmethod(lambda v: isinstance(v, bool))
    is_scalar = staticmethod(lambda v: _is_number(v) or (_is_tensor(v) and v.dim() == 0))


def _accepts(p, v, ask):
    if v is None:
        return p.optional
    kind = p.kind
    if kind == "Tensor":
        return ask.is_tensor(v)
    if kind == "TensorOrNumber":
        return ask.is_tensor(v) or ask.is_number(v)
    if kind == "Scalar":
        return ask.is_scalar(v)
    if kind == "Int":
        return ask.is_int(v)
    if kind == "Float":
        return ask.is_real(v)
    if kind == "Bool":
        return ask.is_bool(v)
    if kind == "String":
        return isinstance(v, str)
    if kind == "DType":
        return isinstance(v, (rushlight.dtype, type)) and (
            isinstance(v, rushlight.dtype) or v in (float, int, bool, complex)
        )
    if kind == "Device":
        return isinstance(v, (rushlight.device, str)) or ask.is_int(v)
    if kind == "Layout":
        return isinstance(v, rushlight.layout)
    if kind == "MemoryFormat":
        return isinstance(v, rushlight.memory_format)
    if kind == "Generator":
        return isinstance(v, rushlight.Generator)
    if kind == "IntList":
        if p.length > 0 and ask.is_int(v):
            return True
        return isinstance(v, (list, tuple)) and all(map(ask.is_int, v))
    if kind == "FloatList":
        if p.length > 0 and ask.is_real(v):
            return True
        return isinstance(v, (list, tuple)) and all(map(ask.is_real, v))
    if kind == "TensorList":
        return isinstance(v, (list, tuple)) and all(map(ask.is_tensor, v))
    if kind == "OptionalTensorList":
        return isinstance(v, (list, tuple)) and all(i is None or ask.is_tensor(i) for i in v)
    raise AssertionError(f"kind {kind}")


def _bind(row, args, kwargs, ask, also=None):
    """The values of the parameters in order, MISSING where not given; None if they do not fit."""
    values = [MISSING] * len(row.parameters)
    positional = [i for i, p in enumerate(row.parameters) if not p.keyword_only]
    listed = next((i for i in positional if row.parameters[i].kind == "IntList"), None)
    if (
        listed is not None
        and listed == positional[-1]
        and len(args) > listed
        and ask.is_int(args[listed])
        and (len(args) > listed + 1 or row.parameters[listed].length < 0)
    ):
        args = (*args[:listed], tuple(args[listed:]))  # view(2, 3)
    if len(args) > len(positional):
        return None
    for place, value in zip(positional, args):
        values[place] = value
    for name, value in kwargs.items():
        place = row.index(name)
        if place < 0:
            place = next(
                (i for i, p in enumerate(row.parameters) if name in NUMPY_NAMES.get(p.name, ())), -1
            )
        if place < 0 or values[place] is not MISSING:
            return None
        values[place] = value
    for p, value in zip(row.parameters, values):
        if value is MISSING:
            if p.default is MISSING:
                return None
        elif not (also is not None and also(p, value)) and not _accepts(p, value, ask):
            return None
    return values


_DTYPES = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}


def _plain_value(p, value):
    """Devices and dtypes as such, where others may stand for them."""
    if p.kind == "Device" and isinstance(value, (str, int)):
        return rushlight.device(value)
    if p.kind == "DType" and isinstance(value, type):
        return getattr(rushlight, _DTYPES[value])
    return value


def resolve(name, args, kwargs, ask=Concrete, also=None):
    """(schema, values of its parameters, MISSING where not given) of a call; None if none fits.

    Args:
        name: of the function, as `target_name` gives it.
        args, kwargs: what it is called with.
        ask: what tells the kinds of arguments.
        also: (parameter, value) -> whether a value of another kind fits.
    """
    for key in _targets()[name]:
        row = schema(key)
        values = _bind(row, args, kwargs, ask, also)
        if values is not None:
            values = [_plain_value(p, v) for p, v in zip(row.parameters, values)]
            plain = _PLAIN.get(key)
            if plain is not None:
                row = schema(plain + "_" * (values[-1] is True))
                values = values[: len(row.parameters)]
            return row, values
    return None


def arguments(row, values):
    """The values as a call has them: (args, kwargs), without what is not given or the default."""
    args, kwargs, by_name = [], {}, False
    for p, value in zip(row.parameters, values):
        plain = value is MISSING or (
            type(value) is type(p.default) and not _is_tensor(value) and value == p.default
        )
        if p.keyword_only:
            if not plain:
                kwargs[p.name] = value
        elif plain and p.default is not MISSING:
            by_name = True  # the ones that follow are given by their names
        elif by_name:
            kwargs[p.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs
