"""Signatures of operations, and calls with their arguments bound to them."""

from __future__ import annotations

import inspect
import keyword
import numbers
import types
import typing
from typing import Any, NamedTuple

import rushlight
from rushlight._ignored import warn_program as _warn_program
from rushlight.library import _schema
from rushlight.library._operator import OpOverload, OpOverloadPacket as _Packet, _Builtin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.nn import Module

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]


class ArgsKwargsPair(NamedTuple):
    """Positional arguments, and those by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


# What the kinds of the table's parameters, and of schemas, are in annotations.
_TYPES = {
    "Tensor": rushlight.Tensor, "TensorList": list[rushlight.Tensor],
    "Tensor[]": list[rushlight.Tensor], "int": int, "Int": int, "SymInt": int, "float": float,
    "Float": float, "bool": bool, "Bool": bool, "str": str, "String": str,
    "Scalar": numbers.Number, "complex": complex, "int[]": list[int], "IntList": list[int],
    "SymInt[]": list[int], "float[]": list[float], "bool[]": list[bool], "ScalarType": int,
    "Dtype": int, "Device": rushlight.device, "Generator": rushlight.Generator,
}  # fmt: skip


def _annotation(kind, optional):
    found = _TYPES.get(kind, Any)
    return found | None if optional else found


def _kind_named(name, kind, before):
    """The kind of a parameter. A keyword of Python, as `from`, cannot be given by name, and so what
    is before it cannot either.
    """
    if not keyword.iskeyword(name):
        return kind
    before[:] = [p.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for p in before]
    return inspect.Parameter.POSITIONAL_ONLY


def _default_of(parameter):
    """What a parameter of the table is where it is left out: one number for all dims is a list."""
    from rushlight.export._table import MISSING

    default = parameter.default
    if default is MISSING:
        return inspect.Parameter.empty
    if parameter.length > 0 and isinstance(default, (int, float)):
        return [default] * parameter.length
    return list(default) if type(default) is tuple else default


def _of_row(row):
    """The signature of an operation of the table, as (signature, row)."""
    parameters = []
    for p in row.parameters:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if p.keyword_only:
            kind = inspect.Parameter.KEYWORD_ONLY
        kind = _kind_named(p.name, kind, parameters)
        parameters.append(
            inspect.Parameter(
                p.name,
                kind,
                annotation=_annotation(p.kind, p.optional),
                default=_default_of(p),
            )  # fmt: skip
        )
    returns = rushlight.Tensor if len(row.returns) == 1 else (rushlight.Tensor,) * len(row.returns)
    return inspect.Signature(parameters, return_annotation=returns)


def _of_schema(schema):
    """The signature of a custom operation."""
    parameters = []
    for argument in schema.arguments:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if argument.kwarg_only:
            kind = inspect.Parameter.KEYWORD_ONLY
        text = str(argument.type)
        kind = _kind_named(argument.name, kind, parameters)
        parameters.append(
            inspect.Parameter(
                "input" if argument.name == "self" else argument.name,
                kind,
                annotation=_annotation(text.rstrip("?"), text.endswith("?")),
                default=argument.default_value
                if argument.has_default_value()
                else inspect.Parameter.empty,
            )  # fmt: skip
        )
    return inspect.Signature(parameters)


def _rows_of(op):
    """The operations of the table that a function, or an operation of aten, may be."""
    from rushlight.export import _table

    if isinstance(op, OpOverload):
        row = getattr(op, "row", None)
        if row is not None:
            return [row]
        op = op.overloadpacket._function
    elif isinstance(op, _Packet):
        op = op._function
    name = _table._target_of_functions().get(op)
    if name is None:  # a function of the module whose operation is a method
        name = f"Tensor.{getattr(op, '__name__', '')}" if _is_function_of_torch(op) else ""
    return [_table.schema(key) for key in _table._targets().get(name, ())]


# What the kinds of the table's parameters are in schemas.
_KINDS = {
    "TensorOrNumber": "Tensor", "TensorList": "Tensor[]", "OptionalTensorList": "Tensor?[]",
    "Int": "int", "IntList": "int[]", "Float": "float", "FloatList": "float[]", "Bool": "bool",
    "String": "str", "DType": "ScalarType", "bool": "bool", "list[Tensor]": "Tensor[]",
}  # fmt: skip
# Functions of modules, whose first argument is not `self`.
_OF_INPUT = ("conv", "linear", "native_", "batch_norm", "layer_norm", "group_norm", "instance_norm",
             "rms_norm", "dropout", "alpha_dropout", "feature_", "bilinear", "grid_sampler",
             "binary_cross_entropy_with")  # fmt: skip


def _schema_of_builtin(op):
    """The schema of an operation of aten: of the row that the name of the overload says."""
    rows = _rows_of(op)
    overload = op.__name__.partition(".")[2]
    overload = "" if overload == "default" else overload
    form = overload.lower().partition("_")[0]
    row = next((r for r in rows if form and r.key.partition(".")[2] == form), None)
    row = rows[0] if row is None and rows else row
    name = op.overloadpacket.__name__
    writes = name.endswith("_") and not name.endswith("__")
    is_view = row is not None and row.kind == "view" and not writes
    arguments = _arguments_of_row(row, overload) if row is not None else _arguments_of(op._function)
    if arguments and name.startswith(_OF_INPUT):
        arguments[0].name = {"self": "input"}.get(arguments[0].name, arguments[0].name)
    alias = None
    if arguments and arguments[0].is_of_tensors and (writes or is_view):
        alias = arguments[0].alias_info = _schema.AliasInfo(("a",), writes)
    results = ("Tensor",) if row is None else row.returns
    results = () if results == ("None",) else results
    is_named = len(results) > 1
    returns = [
        _schema.Argument(r if is_named else "", "Tensor" if is_named else _KINDS.get(r, r), alias)
        for r in results
    ]
    return _schema.FunctionSchema(f"aten::{name}", overload, arguments, returns)


def _arguments_of_row(row, overload):
    from rushlight.export._table import MISSING

    found = []
    for place, p in enumerate(row.parameters):
        if p.name in ("requires_grad", "inplace", "size_average", "reduce"):
            continue  # of functions, not of operations
        kind = _KINDS.get(p.kind, p.kind)
        if p.length > 0:
            kind = f"{kind[:-1]}{p.length}]"
        default = list(p.default) if type(p.default) is tuple else p.default
        default = inspect.Parameter.empty if default is MISSING else default
        if p.name == "pin_memory":
            kind, default = "bool?", None
        kind += "?" * (p.optional and not kind.endswith("?"))
        name = "self" if place == 0 and p.name == "input" else p.name
        found.append(_schema.Argument(name, kind, None, p.keyword_only, default))
    tensors = [a for a in found[1:] if a.type == "Tensor" and not a.kwarg_only]
    if overload.endswith("Scalar") and tensors:
        tensors[-1].type = "Scalar"
    return found


def _arguments_of(function):
    """Of what is written in Python: by annotations, defaults and names."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = {"int": "int", "float": "float", "bool": "bool", "str": "str", "Sequence": "int[]"}
    names = {"dim": "int", "dtype": "ScalarType?", "layout": "Layout?", "device": "Device?",
             "memory_format": "MemoryFormat?", "size": "int[]", "eps": "float"}  # fmt: skip
    found = []
    for place, p in enumerate(parameters):
        base = str(p.annotation).partition("[")[0].partition(" ")[0]
        kind = kinds.get(base) or kinds.get(type(p.default).__name__) or names.get(p.name, "Tensor")
        name = "self" if place == 0 and p.name in ("x", "input") else p.name
        found.append(_schema.Argument(name, kind, None, p.kind is p.KEYWORD_ONLY, p.default))
    return found


def _is_function_of_torch(op):
    return getattr(rushlight, getattr(op, "__name__", " "), None) is op


def _schemas_of(op):
    """Schemas with their signatures, in the order in which calls try them; None if there are
    none.
    """
    if isinstance(op, OpOverload) and not isinstance(op, _Builtin) and op._schema is not None:
        return [(op._schema, _of_schema(op._schema))]
    if isinstance(op, _Packet) and not hasattr(op, "_function"):
        found = [getattr(op, name)._schema for name in op.overloads()]
        return [(schema, _of_schema(schema)) for schema in found]
    rows = _rows_of(op)
    return [(row, _of_row(row)) for row in rows] or None


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of an operation of torch, one for each of its overloads.

    Args:
        op: function such as `torch.add`, or one of `torch.ops`.
        return_schemas: return a pair, with the schemas besides.

    Returns:
        list[inspect.Signature], or None where none are known.

    Example:
        >>> from rushlight.fx.operator_schemas import get_signature_for_torch_op
        >>> [list(s.parameters) for s in get_signature_for_torch_op(torch.relu)]
        [['input']]
    """
    found = _schemas_of(op)
    if found is None:
        return (None, None) if return_schemas else None
    signatures = [signature for _, signature in found]
    return (signatures, [schema for schema, _ in found]) if return_schemas else signatures


def _binds(signature, args, kwargs):
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def check_for_mutable_operation(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise RuntimeError if a call would change one of its arguments."""
    found = _schemas_of(target)
    if kwargs.get("out") is not None:
        raise RuntimeError(f"{target}: out= is changed, and only functional code can be traced")
    matching = [schema for schema, s in found or () if _binds(s, args, kwargs)]
    if len(matching) != 1:
        return
    schema = matching[0]
    if getattr(schema, "is_mutable", False) or getattr(schema, "is_inplace", False):
        raise RuntimeError(
            f"Tried to trace mutable operation {schema}. FX only supports functional code, so "
            "operations that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


def create_type_hint(x: object) -> object:
    """The annotation of a list or tuple of types; what is neither stays as it is.

    Example:
        >>> from rushlight.fx.operator_schemas import create_type_hint
        >>> create_type_hint([int, int]), create_type_hint((int, str))
        (list[int], tuple[typing.Any, ...])
    """
    if not isinstance(x, (list, tuple)):
        return x

    def hint(element):
        return list[element] if isinstance(x, list) else tuple[element, ...]

    if not x:
        return hint(Any)
    try:
        base = x[0]
        for kind in x:
            if issubclass(kind, base):
                continue
            if not issubclass(base, kind):
                return hint(Any)
            base = kind
        return hint(base)
    except TypeError:
        _warn_program(f"create_type_hint: {x} holds what is no type")
        return x


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """May an argument of one type be given where a signature says another?"""
    if signature_type is argument_type:
        return True
    origin = typing.get_origin(signature_type)
    if origin in (typing.Union, types.UnionType) and signature_type != argument_type:
        return any(type_matches(t, argument_type) for t in typing.get_args(signature_type))
    if origin is list:
        element = typing.get_args(signature_type)[0]
        if argument_type is int and element is int:
            return True  # one number for several
        if not inspect.isclass(element):
            _warn_program(f"type_matches: lists in {signature_type} are not looked into")
            return False
        if typing.get_origin(argument_type) not in (list, tuple):
            return False
        given = [t for t in typing.get_args(argument_type) if t is not ...]
        return all(inspect.isclass(t) and issubclass(t, element) for t in given)
    if signature_type is int and argument_type is rushlight.dtype:
        return True
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    if inspect.isclass(signature_type) and inspect.isclass(argument_type):
        return issubclass(argument_type, signature_type)
    return False


def _types_fit(signature, arg_types, kwarg_types):
    try:
        bound = signature.bind(*(arg_types or ()), **(kwarg_types or {}))
    except TypeError:
        return False
    return all(
        type_matches(signature.parameters[name].annotation, kind)
        for name, kind in bound.arguments.items()
    )


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call, with defaults for those that are not given.

    Args:
        target: the function.
        args, kwargs: what it is called with.
        arg_types, kwarg_types: types of these, which choose one of several signatures.
        normalize_to_only_use_kwargs: give all by name.

    Returns:
        ArgsKwargsPair, or None where no signature fits, or one has *args or **kwargs.

    Raises: RuntimeError if several signatures fit, and types do not choose one.

    Example:
        >>> from rushlight.fx.operator_schemas import normalize_function
        >>> normalize_function(torch.flatten, (1,), normalize_to_only_use_kwargs=True).kwargs
        {'input': 1, 'start_dim': 0, 'end_dim': -1}
    """
    kwargs = kwargs or {}
    is_builtin = isinstance(target, (types.BuiltinFunctionType, OpOverload, _Packet))
    if not is_builtin and hasattr(target, "_op"):
        target = target._op
        is_builtin = isinstance(target, (OpOverload, _Packet))
    if not is_builtin:
        signature = inspect.signature(inspect.unwrap(target))
        if isinstance(target, rushlight._C.function) and "out" not in kwargs:
            kept = [p for p in signature.parameters.values() if p.name != "out"]
            signature = signature.replace(parameters=kept)
        return _normalized(signature, args, kwargs, normalize_to_only_use_kwargs)
    signatures = get_signature_for_torch_op(target) or []
    matching = [s for s in signatures if _binds(s, args, kwargs)]
    if len(matching) > 1:
        if arg_types is None and kwarg_types is None:
            listed = "\n".join(map(str, matching))
            raise RuntimeError(
                f"Tried to normalize arguments to {rushlight.typename(target)} but the schema "
                "match was ambiguous! Please provide argument types to the "
                f"normalize_arguments() call. Available schemas:\n{listed}"
            )
        matching = [s for s in signatures if _types_fit(s, arg_types, kwarg_types)]
    if not matching:
        return None
    return _normalized(matching[0], args, kwargs, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a layer of `torch.nn`, with defaults.

    Args:
        root: module that has the layer.
        target: its path.
        args, kwargs, normalize_to_only_use_kwargs: see `normalize_function`.

    Returns:
        ArgsKwargsPair, or None for modules of other kinds.

    Raises: RuntimeError if there is no such module.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(f"normalize_module: root has no module {target!r}") from None
    if getattr(rushlight.nn, type(module).__name__, None) is not type(module):
        return None
    signature = inspect.signature(inspect.unwrap(module.forward))
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _normalized(signature, args, kwargs, only_kwargs):
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in kinds for p in signature.parameters.values()):
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional = 0 if only_kwargs else len(args)
    values = list(bound.arguments.items())
    return ArgsKwargsPair(tuple(v for _, v in values[:positional]), dict(values[positional:]))
