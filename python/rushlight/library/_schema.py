"""Signatures of custom operations, and their text: `ns::name(Tensor x, int n=2) -> Tensor`."""

from __future__ import annotations

import ast
import enum
import inspect
import itertools
import operator
import re
import types
import typing
from collections.abc import Sequence

import rushlight
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rushlight.types import _dtype

_TOKEN = re.compile(
    r"\s*(->|::|\.\.\.|[A-Za-z_]\w*|-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|\"[^\"]*\"|'[^']*'"
    r"|[()\[\],=?!*.|])"
)


class Tag(enum.Enum):
    """What a definition may say about an operation; nothing here depends on it."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19


class AliasInfo:
    """What an annotation such as (a!) says of a tensor: whose memory it has, and is it written?"""

    def __init__(self, names: Sequence[str], is_write: bool) -> None:
        self.before_set, self.is_write = set(names), is_write


class Argument:
    """One argument, or one result, of an operation."""

    def __init__(
        self,
        name: str,
        type: str,
        alias_info: AliasInfo | None = None,
        kwarg_only: bool = False,
        default: Any = inspect._empty,
    ) -> None:
        self.name, self.type, self.alias_info, self.kwarg_only = name, type, alias_info, kwarg_only
        self._default = default
        self.convert = converter(type)

    def has_default_value(self) -> bool:
        """Can the argument be left out?"""
        return self._default is not inspect._empty

    @property
    def default_value(self) -> float | list[int] | _dtype:
        """Its value where it is left out; None also stands for "there is none".

        What is written as `int[2] padding=0` is [0, 0].
        """
        if not self.has_default_value() or not isinstance(self._default, (int, float)):
            return None if self._default is inspect._empty else self._default
        return self.convert(self._default) if "[" in self.type else self._default

    @property
    def is_write(self) -> bool:
        """Does the operation change it in place?"""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_of_tensors(self) -> bool:
        """Does it hold tensors?"""
        return self.type.startswith("Tensor")

    @property
    def is_list_of_tensors(self) -> bool:
        """Does it hold any number of tensors?"""
        return self.is_of_tensors and "[" in self.type

    def __str__(self) -> str:
        text = self.type
        if self.alias_info is not None:
            mark = "|".join(sorted(self.alias_info.before_set)) + "!" * self.is_write
            text = text.replace("Tensor", f"Tensor({mark})", 1)
        if self.name:
            text += f" {self.name}"
        return text + (f"={_written(self._default)}" if self.has_default_value() else "")


class FunctionSchema:
    """The name, arguments and results of an operation."""

    name: str
    overload_name: str
    arguments: Any
    returns: Any

    def __init__(self, name: str, overload_name: str, arguments: Any, returns: Any) -> None:
        self.name, self.overload_name = name, overload_name
        self.arguments, self.returns = arguments, returns

    @property
    def is_mutable(self) -> bool:
        """Does the operation change an argument in place?"""
        return any(argument.is_write for argument in self.arguments)

    def __str__(self) -> str:
        shown, starred = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not starred:
                shown.append("*")
                starred = True
            shown.append(str(argument))
        results = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            results = f"({results})"
        name = self.name + (f".{self.overload_name}" if self.overload_name else "")
        return f"{name}({', '.join(shown)}) -> {results}"

    __repr__ = __str__


def _written(value):
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return re.sub(r"\.0$", ".", repr(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return str(value)


# ---- values


def _tensor(value):
    if not isinstance(value, rushlight.Tensor):
        raise TypeError
    return value


def _float(value):
    if isinstance(value, (str, bytes, complex)):
        raise TypeError
    return float(value)


def _bool(value):
    return bool(operator.index(value)) if not hasattr(value, "dtype") else bool(value)


def _number(value):
    if isinstance(value, (bool, int, float, complex)):
        return value
    return value.item() if hasattr(value, "item") else _float(value)


def _instance(name):
    def convert(value):
        if not isinstance(value, getattr(rushlight, name)):
            raise TypeError
        return value

    return convert


def _str(value):
    if not isinstance(value, str):
        raise TypeError
    return value


_CONVERTERS = {
    "Tensor": _tensor, "int": operator.index, "SymInt": operator.index, "float": _float,
    "bool": _bool, "str": _str, "Scalar": _number, "complex": complex,
    "ScalarType": _instance("dtype"), "Layout": _instance("layout"),
    "MemoryFormat": _instance("memory_format"), "Generator": _instance("Generator"),
    "Device": lambda value: rushlight.device(value),
    "Any": lambda value: value, "t": lambda value: value,
}  # fmt: skip


def converter(type: str) -> Callable[..., Any]:
    """A function that turns a value into what an argument of the type holds, or raises."""
    if type.endswith("?"):
        inner = converter(type[:-1])
        return lambda value: None if value is None else inner(value)
    if type.endswith("]"):
        base, _, size = type[:-1].rpartition("[")
        inner, count = converter(base), int(size) if size else None

        def convert(value):
            if count is not None and not isinstance(value, (list, tuple)):
                return [inner(value)] * count
            if not isinstance(value, (list, tuple)):
                raise TypeError
            return [inner(one) for one in value]

        return convert
    return _CONVERTERS[type]


# ---- from text


class _Text:
    """Tokens of a schema, taken one by one."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.tokens = text, 0, []
        self.unnamed = itertools.count()  # for sets of aliases that have no name
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise RuntimeError(f"unexpected {text[at:].strip()[0]!r} in the schema {text!r}")
            self.tokens.append(match[1])
            at = match.end()
        self.tokens.append("")

    @property
    def next(self) -> str:
        return self.tokens[self.at]

    def take(self, wanted: str | None = None) -> str:
        token = self.next
        if wanted is not None and token != wanted:
            raise RuntimeError(
                f"expected {wanted} but found {token or 'its end'!r} in the schema {self.text!r}"
            )
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, token: str) -> bool:
        if self.next != token:
            return False
        self.at += 1
        return True

    def until(self, end: int) -> Iterator[Any]:
        """For each part of a list that `end` closes: the caller takes the part, this the comma."""
        while not self.accept(end):
            yield
            if self.next != end:
                self.take(",")


def parse_schema(text: str) -> FunctionSchema:
    """The signature that a text describes.

    Raises:
        RuntimeError: it describes none.
    """
    tokens = _Text(text)
    name = tokens.take()
    if tokens.accept("::"):
        name += "::" + tokens.take()
    overload = tokens.take() if tokens.accept(".") else ""
    arguments, kwarg_only = [], False
    tokens.take("(")
    for _ in tokens.until(")"):
        if tokens.accept("*"):
            kwarg_only = True
        else:
            arguments.append(_argument(tokens, kwarg_only))
    tokens.take("->")
    if tokens.accept("("):
        returns = [_result(tokens) for _ in tokens.until(")")]
    else:
        returns = [_result(tokens)]
    if tokens.next:
        raise RuntimeError(f"expected its end but found {tokens.next!r} in the schema {text!r}")
    return FunctionSchema(name, "" if overload == "default" else overload, arguments, returns)


def _type(tokens):
    if tokens.accept("("):  # a tuple of one, as infer_schema writes it
        type, alias = _type(tokens)
        tokens.take(")")
        return type, alias
    base, alias = tokens.take(), None
    if base not in _CONVERTERS:
        raise RuntimeError(
            f"unknown type specifier {base!r} in the schema {tokens.text!r}; the types are "
            f"{', '.join(_CONVERTERS)}"
        )
    if tokens.accept("("):
        names, is_write = [], False
        while not tokens.accept(")"):
            token = tokens.take()
            is_write = is_write or token == "!"
            if token not in ("!", "|", "->", "*"):
                names.append(token)
        alias = AliasInfo(names, is_write)
    elif tokens.accept("!"):  # written, and nothing has its memory
        alias = AliasInfo([f"${next(tokens.unnamed)}"], True)
    while tokens.next in ("?", "["):
        base += tokens.take()
        if base.endswith("["):
            if tokens.next != "]":
                base += tokens.take()
            base += tokens.take("]")
    return base, alias


def _argument(tokens, kwarg_only):
    type, alias = _type(tokens)
    name = tokens.take()
    if not name.isidentifier():
        raise RuntimeError(f"expected a name but found {name!r} in the schema {tokens.text!r}")
    default = inspect._empty
    if tokens.accept("="):
        default = _default(tokens, type)
    return Argument(name, type, alias, kwarg_only, default)


def _result(tokens):
    type, alias = _type(tokens)
    return Argument(tokens.take() if tokens.next.isidentifier() else "", type, alias)


def _default(tokens, type):
    value = _literal(tokens)
    if value is None:
        return None
    if isinstance(value, str) and not type.startswith(("str", "Device")):
        value = _REDUCTIONS[value] if value in _REDUCTIONS else getattr(rushlight, value, value)
    try:
        return converter(type)(value)
    except (TypeError, ValueError):
        raise RuntimeError(
            f"{value!r} is no default for a {type} in the schema {tokens.text!r}"
        ) from None


def _literal(tokens):
    if tokens.accept("["):
        return [_literal(tokens) for _ in tokens.until("]")]
    token = tokens.take()
    return token if token.isidentifier() and token not in _CONSTANTS else ast.literal_eval(token)


_REDUCTIONS = {"None_": 0, "Mean": 1, "Sum": 2}
_CONSTANTS = ("None", "True", "False")

# ---- from annotations

_NAMES = {int: "SymInt", float: "float", bool: "bool", str: "str"}
_NUMBER = {int, float, bool}


def _plain_name(annotation):
    if annotation is rushlight.Tensor:
        return "Tensor"
    if annotation is rushlight.dtype:
        return "ScalarType"
    if annotation is rushlight.device:
        return "Device"
    return _NAMES.get(annotation)


def _type_of(annotation):
    """How a schema writes the type; None if it cannot."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        if set(inside) == _NUMBER:
            return "Scalar"
        rest = [one for one in inside if one is not type(None)]
        if set(rest) == _NUMBER:
            return "Scalar?"
        inner = _type_of(rest[0]) if len(rest) == 1 and len(inside) == 2 else None
        return None if inner is None or inner.endswith("?") else inner + "?"
    if origin in (list, Sequence) and len(inside) == 1:
        inner = _type_of(inside[0])
        return None if inner is None or inner.endswith("]") else inner + "[]"
    return _plain_name(annotation)


_TYPES = (
    "Tensor, int, float, bool, str, torch.dtype, torch.device, Union[int, float, bool], and "
    "Optional and List or Sequence of these"
)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: Sequence[str] | set[str] | str,
    op_name: str | None = None,
    tags: Tag | Sequence[Tag] | None = (),
) -> str:
    """The schema of a function with type annotations, as text.

    Args:
        mutates_args: names of the arguments that it changes in place, or "unknown": any tensor.
        op_name: what to write before the arguments.

    Raises:
        ValueError: an annotation is missing, or there is no type for it in schemas.

    Example:
        >>> def scale(x: rushlight.Tensor, by: float = 2.0) -> rushlight.Tensor: ...
        >>> infer_schema(scale, mutates_args=())
        '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def fail(what):
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    try:
        evaluated = inspect.signature(prototype_function, eval_str=True)
    except Exception as error:
        fail(f"Unsupported type annotation, which cannot be evaluated: {error}.")
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must hold the names of the arguments that are changed, or be "
            f"'unknown', got {mutates_args!r}"
        )
    parts, starred = [], False
    for number, (name, parameter) in enumerate(evaluated.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_inferred(name, parameter, number, mutates_args, fail))
    unknown = set() if mutates_args == "unknown" else set(mutates_args) - set(evaluated.parameters)
    if unknown:
        fail(
            f"{unknown} in mutates_args were not found among the parameters: it holds names of "
            "arguments that are changed, or is 'unknown'."
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {_results(evaluated, fail)}"


def _inferred(name, parameter, number, mutates_args, fail):
    annotation = parameter.annotation
    if annotation is parameter.empty:
        fail(f"Parameter {name} must have a type annotation.")
    type = _type_of(annotation)
    if type is None:
        hint = ""
        if typing.get_origin(annotation) is tuple:
            hint = " We do not support Tuple inputs in schema: try List instead."
        fail(f"Parameter {name} has unsupported type {annotation}.{hint} The types are {_TYPES}.")
    mutated = mutates_args != "unknown" and name in mutates_args
    if mutated and not type.startswith("Tensor"):
        fail(f"Parameter {name} is in mutates_args, but is of a type that holds no Tensors")
    if mutated or mutates_args == "unknown" and type.startswith("Tensor"):
        type = type.replace("Tensor", f"Tensor(a{number}!)", 1)
    if parameter.default is parameter.empty:
        return f"{type} {name}"
    default = parameter.default
    if default is None or isinstance(default, (int, float, bool)):
        shown = repr(default)
    elif isinstance(default, (str, rushlight.device)):
        shown = f'"{default}"'
    elif isinstance(default, rushlight.dtype):
        shown = str(default).removeprefix("torch.")
    else:
        fail(
            f"Parameter {name} has an unsupported default value, {default!r}: numbers, strings, "
            "dtypes, devices and None can be written."
        )
    return f"{type} {name}={shown}"


def _results(signature, fail):
    annotation = signature.return_annotation
    if annotation is signature.empty:
        fail("No return type annotation was provided. Please add one.")
    if annotation is None:
        return "()"
    if typing.get_origin(annotation) is tuple:
        inside = typing.get_args(annotation)
        types = [_type_of(one) for one in inside]
        if len(types) == 1:
            types = [f"({types[0]})"] if types[0] else types
    else:
        inside, types = None, [_type_of(annotation)]
    for type in types:
        if type is None or type.endswith("?") or type in ("str", "ScalarType", "Device"):
            fail(
                f"Return has unsupported type {annotation}. The types are Tensor, List[Tensor], "
                "int, float, bool, Union[int, float, bool], and a Tuple of these."
            )
    return types[0] if inside is None else f"({', '.join(types)})"


set_module("rushlight", Tag)
