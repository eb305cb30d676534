"""Custom operations: what `torch.ops.ns.name` is, and how a call of it finds what to run.

An `OpOverload` has a schema and whatever has been registered for it: kernels by kind of device, a
gradient, a rule for vmap. A call binds its arguments to the schema, chooses the kernel by the
tensors among them, and records a node of the graph, an `autograd.Function`, where one is needed.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import types
import weakref

import rushlight
from rushlight import _C, Tensor
from rushlight.autograd.graph import increment_version
from rushlight.library._gradient import differentiable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight.library._schema import FunctionSchema

EVERY_DEVICE, COMPOSITE, AUTOGRAD = "every device", "composite", "autograd"

_below = threading.local()  # .autograd: does the thread run a kernel of the key Autograd?


class BelowAutograd:
    """A context in which operations skip their Autograd kernels and record nothing."""

    def __enter__(self) -> Self:
        self._outer = getattr(_below, "autograd", False)
        _below.autograd = True
        self._no_grad = rushlight.no_grad()
        self._no_grad.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        _below.autograd = self._outer
        self._no_grad.__exit__(*exception)


class OpOverload:
    """One operation with one signature."""

    namespace: str
    kernels: dict[Any, Any]
    fake: Any
    gradient: Any
    casts: dict[Any, Any]
    batching_rule: Any
    node: Any
    disabled: set[Any]
    original: Any

    def __init__(self, namespace: str, name: str, overload: str = "") -> None:
        self.namespace, self._opname, self._overloadname = namespace, name, overload or "default"
        self.__name__: str = f"{name}.{self._overloadname}"
        self.__qualname__ = self.__name__
        self.__module__ = f"torch.ops.{namespace}"
        self._schema = None  # until it is defined: kernels may come first
        self._tags = []
        self.kernels, self.fake, self.gradient, self.casts = {}, None, None, {}
        self.batching_rule = self.node = None
        self.is_opaque = False  # by custom_op: what its kernels do is never recorded
        self.disabled, self.original = set(), None  # kinds of devices; what runs on them instead

    def define(self, schema: FunctionSchema, tags: Sequence[Any] = ()) -> None:
        """Give the operation its signature."""
        self._schema, self._tags = schema, list(tags)
        self._positional = [a for a in schema.arguments if not a.kwarg_only]
        self._keywords = [a for a in schema.arguments if a.kwarg_only]

    # ---- what programs ask

    def name(self) -> str:
        """ns::name.overload"""
        return f"{self.namespace}::{self._opname}" + (
            f".{self._overloadname}" if self._overloadname != "default" else ""
        )

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All signatures of the name."""
        return packet(self.namespace, self._opname)

    _overloadpacket = overloadpacket

    @property
    def tags(self) -> Any:
        """What the definition says about the operation."""
        return self._tags

    def has_kernel_for_dispatch_key(self, key: str) -> bool:
        """Is there a kernel registered for that key?"""
        return place_of(str(key).removeprefix("DispatchKey.")) in self.kernels

    @property
    def __wrapped__(self) -> Any:
        """A function made of other operations, if that is what the operation is."""
        if COMPOSITE not in self.kernels:
            raise AttributeError("__wrapped__")
        return self.kernels[COMPOSITE]

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return overload, (self.namespace, self._opname, self._overloadname)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    # ---- a call

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self.bind(args, kwargs)
        tensors = (*_tensors([*args, *kwargs.values()]), *_that_take_over(args, kwargs))
        if _C._has_torch_function(tensors):
            return _C._handle_torch_function(self, tensors, tuple(args), kwargs)
        return self._dispatch(args, kwargs, tensors)

    def bind(self, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """The values for all arguments of the schema, in a list and a dict."""
        if len(args) > len(self._positional):
            self._refuse(
                f"expected at most {len(self._positional)} argument(s) but received "
                f"{len(args) + len(kwargs)} argument(s)"
            )
        left = dict(kwargs)
        values = [
            self._value(argument, args[place], place)
            if place < len(args)
            else self._named(argument, left)
            for place, argument in enumerate(self._positional)
        ]
        named = {argument.name: self._named(argument, left) for argument in self._keywords}
        if left:
            name = next(iter(left))
            twice = any(argument.name == name for argument in self._positional)
            self._refuse(
                f"got multiple values for argument '{name}'"
                if twice
                else f"Unknown keyword argument '{name}'"
            )
        return values, named

    def _named(self, argument, left):
        if argument.name in left:
            return self._value(argument, left.pop(argument.name), None)
        if not argument.has_default_value():
            self._refuse(f"is missing value for argument '{argument.name}'")
        return argument.default_value

    def _value(self, argument, value, place):
        try:
            return argument.convert(value)
        except (TypeError, ValueError, RuntimeError):
            where = "" if place is None else f"\nPosition: {place}"
            self._refuse(
                f"Expected a value of type '{argument.type}' for argument '{argument.name}' but "
                f"instead found type '{type(value).__name__}'.{where}\nValue: {value}"
            )

    def _refuse(self, what):
        raise RuntimeError(f"{self.name()}() {what}\nDeclaration: {self._schema}")

    def _dispatch(self, args, kwargs, tensors):
        device = "cpu"
        if tensors:
            kinds = {t.device.type for t in tensors}
            device = "meta" if "meta" in kinds else tensors[0].device.type
        if device in self.casts and rushlight.is_autocast_enabled(device):
            return self._cast_and_run(device, args, kwargs)
        above = not getattr(_below, "autograd", False)
        if above and AUTOGRAD in self.kernels:
            return self.kernels[AUTOGRAD](*args, **kwargs)
        kernel = self._kernel(device)
        if kernel is self.kernels.get(COMPOSITE):
            return kernel(*args, **kwargs)
        needed = _C._records() and any(t.requires_grad for t in tensors)
        if needed and above:
            self._check_writes(args, kwargs)
            if self._schema.returns and (self.is_opaque or self.gradient is not None):
                return differentiable(self, kernel, args, kwargs)
        if needed and self.is_opaque:
            with rushlight.no_grad():
                return self.compute(kernel, args, kwargs)
        return self.compute(kernel, args, kwargs)

    def _kernel(self, device):
        if device in self.kernels:
            return self.original if device in self.disabled else self.kernels[device]
        if device == "meta":
            if self.fake is not None:
                return self.fake
            if self.is_opaque and not self._schema.returns:
                return _change_nothing  # it writes elements, which a meta tensor does not have
            if self.is_opaque:
                raise RuntimeError(
                    f"There was no fake impl registered for {self.name()}, which tensors on the "
                    "meta device need. Please use register_fake to add one."
                )
        for place in (EVERY_DEVICE, COMPOSITE):
            if place in self.kernels:
                return self.kernels[place]
        raise NotImplementedError(
            f"Could not run '{self.name()}' with arguments from the '{device.upper()}' backend: it "
            f"has kernels for {sorted(self.kernels) or 'no device'}"
        )

    def compute(
        self, kernel: Callable[..., Any], args: Any, kwargs: Any
    ) -> Tensor | int | tuple[Tensor, list[Tensor], int]:
        """Run a kernel, and see to what it may and must do to its arguments."""
        result = kernel(*args, **kwargs)
        if self.is_opaque:
            self._check_results(result, args, kwargs)
        for argument, value in self._values(args, kwargs):
            if argument.is_write:
                increment_version(list(_tensors([value])))
        return result

    def _values(self, args, kwargs):
        yield from zip(self._positional, args)
        for argument in self._keywords:
            yield argument, kwargs[argument.name]

    def _check_writes(self, args, kwargs):
        for argument, value in self._values(args, kwargs):
            if argument.is_write and any(t.requires_grad for t in _tensors([value])):
                raise RuntimeError(
                    f"{self.name()} changes '{argument.name}' in place, which requires a gradient, "
                    "and has none: call it under torch.no_grad(), or give it a detached tensor"
                )

    def _check_results(self, result, args, kwargs):
        returns = self._schema.returns
        if len(returns) == 1 and not isinstance(result, tuple):
            results = [result]
        else:
            results = [] if result is None else list(result)
        if len(results) != len(returns):
            raise RuntimeError(
                f"{self.name()} returned {len(results)} value(s), its schema says {len(returns)}: "
                f"{self._schema}"
            )
        for value, declared in zip(results, returns):
            try:
                declared.convert(value)
            except (TypeError, ValueError):
                raise RuntimeError(
                    f"{self.name()} returned {value!r}, its schema says {declared.type}: unable to "
                    f"cast {type(value).__name__} to {declared.type}"
                ) from None
        taken = {_memory(t) for t in _tensors([*args, *kwargs.values()])} - {0}
        for t in _tensors(results):
            memory = _memory(t)
            if memory in taken:
                raise RuntimeError(
                    f"{self.name()}: The output of this custom operator shares memory with an "
                    "input or with another output; return its clone()"
                )
            taken |= {memory} - {0}

    def _cast_and_run(self, device, args, kwargs):
        dtype = self.casts[device]

        def cast(value):
            if isinstance(value, Tensor) and value.is_floating_point():
                return value if value.dtype is rushlight.float64 else value.to(dtype)
            return [cast(one) for one in value] if isinstance(value, list) else value

        with rushlight.autocast(device, enabled=False):
            return self(*map(cast, args), **{name: cast(v) for name, v in kwargs.items()})


def _change_nothing(*args, **kwargs):
    return None


_PLAIN = (Tensor, int, float, complex, str, list, tuple, dict, type(None))


def _that_take_over(args, kwargs):
    """Those among the arguments that are no tensors, as fx.Proxy, and have __torch_function__."""
    return tuple(
        value
        for value in (*args, *kwargs.values())
        if not isinstance(value, _PLAIN) and hasattr(type(value), "__torch_function__")
    )


def _tensors(values):
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _memory(tensor):
    return 0 if tensor.device.type == "meta" else tensor.untyped_storage().data_ptr()


_KEYS = {
    "": EVERY_DEVICE, "default": EVERY_DEVICE, "CompositeExplicitAutograd": EVERY_DEVICE,
    "CompositeImplicitAutograd": COMPOSITE, "Autograd": AUTOGRAD, "AutogradCPU": AUTOGRAD,
}  # fmt: skip


def place_of(key: str) -> str:
    """Where a kernel for a dispatch key, or a kind of device, is kept."""
    return _KEYS.get(key, key.lower())


# ---- all operations, by name


class OpOverloadPacket:
    """The operations of one name: the call chooses the first whose signature fits."""

    __name__: str

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self.__name__ = namespace, name
        self.__module__ = f"torch.ops.{namespace}"
        self._qualified_op_name = f"{namespace}::{name}"
        self._overloads = {}

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("_overloads", {}).get(name)
        if found is None or found._schema is None:
            raise AttributeError(
                f"The underlying op of '{self._namespace}.{self.__name__}' has no overload name "
                f"'{name}'"
            )
        return found

    def overloads(self) -> list[str]:
        """The names of the signatures."""
        return [name for name, one in self._overloads.items() if one._schema is not None]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.overloads())

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __reduce__(self) -> tuple[Any, ...]:
        return packet, (self._namespace, self.__name__)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        candidates = [self._overloads[name] for name in self.overloads()]
        for candidate in candidates[:-1]:
            try:
                candidate.bind(args, kwargs)
            except RuntimeError:
                continue
            return candidate(*args, **kwargs)
        return candidates[-1](*args, **kwargs)


class _Builtin(OpOverload):
    """An operation of the library itself, by the name that it has in torch.ops.aten."""

    def __init__(self, packet_of_it: _BuiltinPacket, overload: str) -> None:
        super().__init__("aten", packet_of_it.__name__, overload)
        del self._schema
        self._packet, self._function = packet_of_it, packet_of_it._function

    @functools.cached_property
    def _schema(self) -> FunctionSchema:
        """Made of the row of the table, when it is asked for."""
        made = importlib.import_module("rushlight.fx.operator_schemas")
        return made._schema_of_builtin(self)

    @property
    def overloadpacket(self) -> _BuiltinPacket:
        """All signatures of the name."""
        return self._packet

    _overloadpacket = overloadpacket

    def __call__(self, /, *args: Any, **kwargs: Any) -> Tensor:
        if others := _that_take_over(args, kwargs):
            return _C._handle_torch_function(self, others, args, kwargs)
        dispatch = sys.modules.get("rushlight._dispatch")  # there once it may be needed
        if dispatch is not None:
            tensors = tuple(_tensors([*args, *kwargs.values()]))
            if _C._has_torch_function(tensors):
                return _C._handle_torch_function(self, tensors, args, kwargs)
            return dispatch.compute(self, args, kwargs)
        return self._function(*args, **kwargs)


class _BuiltinPacket(OpOverloadPacket):
    """A function of the library, which finds by itself which signature is meant."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        super().__init__("aten", name)
        self._function = function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        table = importlib.import_module("rushlight.export._table")
        value = table.named(self.__name__, name)  # what graphs have
        if value is None:
            value = _Builtin(self, "" if name == "default" else name)
        setattr(self, name, value)
        return value

    def overloads(self) -> Any:
        """The names of the signatures that have been asked for."""
        return [name for name, value in vars(self).items() if isinstance(value, _Builtin)]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Tensor:
        if others := _that_take_over(args, kwargs):
            return _C._handle_torch_function(self, others, args, kwargs)
        return self._function(*args, **kwargs)


def _builtin(name):
    written = importlib.import_module("rushlight.library._forward").FUNCTIONS.get(name)
    if written is not None:
        return written
    for prefix in ("", "linalg_", "special_", "fft_"):
        table = _C._functions.get(prefix.rstrip("_"), {})
        if name.startswith(prefix) and name.removeprefix(prefix) in table:
            return table[name.removeprefix(prefix)]
    found = _C._functions["nn.functional"].get(name) or getattr(Tensor, name, None)
    if found is None and not name.startswith("__"):
        prefix, _, inner = name.partition("_")
        of_module = inner and prefix in ("fft", "linalg")
        found = getattr(getattr(rushlight, prefix), inner, None) if of_module else None
        found = found or getattr(rushlight, name, None)
        if isinstance(found, types.FunctionType):
            return found
        found = importlib.import_module("rushlight.library._backward").FUNCTIONS.get(name)
    return found


class Namespace(types.ModuleType):
    """The operations of one library of operations: torch.ops.name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self.__file__ = "torch.ops"
        self._name, self._packets = name, {}

    def packet(self, name: str) -> OpOverloadPacket:
        """The operations of a name, which need not be defined yet."""
        return self._packets.setdefault(name, OpOverloadPacket(self._name, name))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            if self._name == "profiler" and name.startswith("_record_function_"):
                importlib.import_module("rushlight.profiler.operations").install(self)
                return getattr(self, name)
            found = self.__dict__["_packets"].get(name)
            if found is not None and found.overloads():
                return found
            if self._name == "aten" and (function := _builtin(name)) is not None:
                value = _BuiltinPacket(name, function)
                setattr(self, name, value)
                return value
        raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        return [name for name, found in self._packets.items() if found.overloads()]


NAMESPACES = {}


def namespace(name: str) -> Any:
    """The namespace of a name; made if it is new."""
    if name not in NAMESPACES:
        NAMESPACES[name] = Namespace(name)
    return NAMESPACES[name]


def packet(namespace_name: str, name: str) -> OpOverloadPacket:
    """torch.ops.ns.name, defined or not."""
    return namespace(namespace_name).packet(name)


def overload(namespace_name: str, name: str, overload_name: str = "default") -> OpOverload:
    """torch.ops.ns.name.overload, defined or not."""
    overload_name = overload_name or "default"
    found = packet(namespace_name, name)._overloads
    if overload_name not in found:
        found[overload_name] = OpOverload(namespace_name, name, overload_name)
    return found[overload_name]


def by_name(qualified: str) -> OpOverload:
    """The operation of ns::name or ns::name.overload, defined or not."""
    parts = qualified.split("::")
    if len(parts) != 2:
        raise ValueError(
            f"Expected `namespace::name` as the name of an operation, got {qualified!r}"
        )
    name, _, which = parts[1].partition(".")
    return overload(parts[0], name, which)


def while_alive(owner: Any, undo: Callable[..., Any]) -> None:
    """Call `undo()` when `owner` is gone."""
    if owner is not None:
        owner._undo.append(undo)


def finalizer(owner: Any, undo: Sequence[Callable[..., Any]]) -> Any:
    """Undo, when `owner` dies, what is in the list then."""

    def run():
        while undo:
            undo.pop()()

    return weakref.finalize(owner, run)
