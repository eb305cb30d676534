"""Stand-ins for values: what is done to them is recorded."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import dis
import enum
import inspect
import operator
import sys
from pathlib import Path

import rushlight
from rushlight import Tensor
from rushlight.fx import traceback
from rushlight.fx._names import OPERATORS, REFLECTED_OPERATORS, name_of_target
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, map_aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rushlight import Size
    from rushlight.nn.parameter import Parameter

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "MetaProxy",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

_LIBRARY = str(Path(rushlight.__file__).parent)


class TraceError(ValueError):
    """A value was asked for that only a run has."""


def _users_line():
    """Name, file and text of the line that runs in the innermost frame of the user's program."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame = frame.f_back
    if frame is None:
        return "the library itself"
    info = inspect.getframeinfo(frame)
    line = f": `{info.code_context[0].strip()}`" if info.code_context else ""
    return f"{info.function}, {info.filename}:{info.lineno}{line}"


class Scope:
    """Which module is being traced: its path, and its type."""

    module_path: str
    module_type: Any

    def __init__(self, module_path: str, module_type: Any) -> None:
        super().__init__()
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """A context in which a scope has the path and type of another one; entering gives the scope."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._previous = scope, copy.copy(scope)
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path = self._previous.module_path
        self._scope.module_type = self._previous.module_type


class TracerBase:
    """Records operations on proxies as nodes of `graph`."""

    graph: Graph
    scope: Scope | None = None
    module_stack: Any = None  # {path: (path, type)} of the modules being traced
    node_name_to_scope: Any = None  # {name of a node: (path, type) of the module it comes from}
    check_mutable_operations = False
    trace_asserts = False  # `assert proxy` becomes a node that checks it
    proxy_buffer_attributes = False
    param_shapes_constant = False
    record_stack_traces = False
    traced_func_name = "forward"

    def create_node(
        self,
        kind: str,
        target: Callable[..., Any] | str,
        args: Any,
        kwargs: Any,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Insert a node into the graph."""
        if kind == "call_function" and self.check_mutable_operations:
            from rushlight.fx.operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.scope is not None and self.node_name_to_scope is not None:
            self.node_name_to_scope[node.name] = self.scope.module_path, self.scope.module_type
        if traceback.has_preserved_node_meta():
            traceback._note(node)
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = _users_line()
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return the stand-in for a node's value."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Callable[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Insert a node, given arguments with proxies in them, and return its proxy."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """Return an argument in the form that nodes hold: nodes for proxies, and plain constants.

        Raises:
            NotImplementedError: a constant has a type that code cannot be generated for.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(type(a), "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(v) for v in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(v) for v in a]
        if isinstance(a, dict):
            keys = [self.create_arg(key) for key in a]
            if any(isinstance(key, Node) for key in keys):
                raise RuntimeError(
                    f"a key of a dict is traced, and keys cannot contain a Node in code: {keys}"
                )
            return {key: self.create_arg(value) for key, value in zip(keys, a.values())}
        if isinstance(a, slice):
            return slice(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*map(self.create_arg, (a.start, a.stop, a.step)))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if a is None or a is ... or isinstance(a, (*_CONSTANTS, Node, enum.Enum)) or callable(a):
            return a
        raise NotImplementedError(
            f"an argument of type {type(a).__name__} is no constant that code can be generated for"
        )

    def to_bool(self, obj: Proxy) -> bool:
        """Decide a branch on a proxy: raise TraceError, unless a subclass knows better."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow: "
            f"the program branches on {_described(obj)} in {_users_line()}"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Iterate over a proxy: raise TraceError, unless it is unpacked into a number of names."""
        raise TraceError(
            "Proxy object cannot be iterated: its length is not known while tracing. "
            f"The program iterates over {_described(obj)} in {_users_line()}"
        )

    def keys(self, obj: Proxy) -> Proxy:
        """Return the keys of a proxy, for `**proxy`."""
        return Attribute(obj, "keys")()


_CONSTANTS = (
    str,
    int,
    float,
    bool,
    complex,
    bytes,
    rushlight.dtype,
    rushlight.device,
    rushlight.layout,
    rushlight.memory_format,
)


def _described(proxy):
    return f"`{proxy.node.name}` ({proxy.node._pretty_target()})"


class GraphAppendingTracer(TracerBase):
    """Records into a graph that exists."""

    scope: Any
    module_stack: Any
    node_name_to_scope: Any

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """The value of a node: operators, methods, attributes and functions of it make new nodes."""

    __index__: Any
    __float__: Any

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer: GraphAppendingTracer | TracerBase = (
            GraphAppendingTracer(node.graph) if tracer is None else tracer
        )
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        if name in ("node", "tracer", "__deepcopy__", "__setstate__"):  # of a half-made object
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        # `a, b = proxy` tells how many there are, in the instruction that asks.
        frame = inspect.currentframe().f_back
        for instruction in dis.get_instructions(frame.f_code):
            if instruction.offset == frame.f_lasti and instruction.opname == "UNPACK_SEQUENCE":
                return (self[i] for i in range(instruction.argval))
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            message = _message_of_assertion(inspect.currentframe().f_back)
            if message is not None:
                self.tracer.create_proxy("call_function", rushlight._assert, (self, message), {})
                return True
        return self.tracer.to_bool(self)

    def keys(self) -> Proxy:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default: fx.wrap('len'), where the "
            f"module begins, has it recorded. The program asks for it in {_users_line()}"
        )

    def _as_number(self) -> Any:
        raise TraceError(
            f"the program needs a number for {_described(self)}, which only a run has, in "
            f"{_users_line()}"
        )

    __int__ = __float__ = __index__ = _as_number

    def __setitem__(self, index: int, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {})

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: tuple[type[Any], ...],
        args: tuple[Any, ...] | None = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        tracers = {}
        map_aggregate(
            (args, kwargs),
            lambda v: tracers.setdefault(v.tracer) if isinstance(v, Proxy) else None,
        )
        if len(tracers) != 1:
            raise RuntimeError(f"found {len(tracers)} tracers in the arguments of {func}")
        (tracer,) = tracers
        name = getattr(func, "__name__", None)
        if name == "__get__":  # a getter of a property of Tensor
            return tracer.create_proxy(
                "call_function", getattr, (args[0], func.__self__.__name__), {}
            )
        stem = name.strip("_")
        if name.startswith("__") and name.endswith("__"):
            for operation in (stem, f"{stem}_"):
                if operation in OPERATORS:
                    return tracer.create_proxy(
                        "call_function", getattr(operator, operation), args, kwargs
                    )
                if stem.startswith("r") and operation[1:] in OPERATORS:
                    function = getattr(operator, operation[1:])
                    return tracer.create_proxy("call_function", function, args[::-1], kwargs)
        if getattr(Tensor, name, None) is func:
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy("call_function", func, args, kwargs, name_of_target(func))


class MetaProxy(Proxy):
    """A proxy whose node knows what its value is on an example: functions are computed on
    `meta["val"]` of the arguments too.

    Args:
        fake_mode: context in which that is done, such as `torch.device("meta")`; None for none.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: tuple[type[Any], ...],
        args: tuple[Any, ...] | None = (),
        kwargs: dict[str, Any] | None = None,
    ) -> MetaProxy:
        args, kwargs = args or (), kwargs or {}
        known = next((a for a in args if isinstance(a, MetaProxy)), None)
        if known is None:
            raise AssertionError(f"MetaProxy: none among the arguments of {func}")
        proxy = super().__torch_function__(func, types, args, kwargs)
        values = map_aggregate(
            (args, kwargs), lambda v: v.node.meta["val"] if isinstance(v, Proxy) else v
        )
        with known.fake_mode if known.fake_mode is not None else contextlib.nullcontext():
            proxy.node.meta["val"] = func(*values[0], **values[1])
        return MetaProxy(proxy.node, proxy.tracer, known.fake_mode)


class ParameterProxy(Proxy):
    """The proxy of a parameter, whose shape is that of the parameter now."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        return self.param.shape

    def size(self, *dim: Any) -> Size:
        return self.param.size(*dim)

    def dim(self) -> int:
        return self.param.dim()

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def numel(self) -> int:
        return self.param.numel()

    nelement = numel


class Attribute(Proxy):
    """An attribute of a proxy: a method if it is called, else a value, recorded once it is used."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer: GraphAppendingTracer | TracerBase = root.tracer
        self._node = None

    @property
    def node(self) -> Node:
        if self._node is None:
            args = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, args, {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _define_operators():
    def forward(name):
        function = getattr(operator, name)

        def record(*args):
            return args[0].tracer.create_proxy("call_function", function, args, {})

        return record

    def reflected(name):
        function = getattr(operator, name)

        def record(self, other):
            return self.tracer.create_proxy("call_function", function, (other, self), {})

        return record

    for name in OPERATORS:
        setattr(Proxy, f"__{name.strip('_')}__", forward(name))
    for name in REFLECTED_OPERATORS:
        setattr(Proxy, f"__r{name.strip('_')}__", reflected(name))
    Proxy.__hash__ = object.__hash__
    Proxy.__abs__ = lambda self: self.tracer.create_proxy(
        "call_function", operator.abs, (self,), {}
    )


_define_operators()


_JUMPS = ("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE")


def _message_of_assertion(frame):
    """The message, "" by default, of the assert statement that a frame is in; None if it is in
    none, or the message is computed.
    """
    code = [i for i in dis.get_instructions(frame.f_code) if i.opname not in ("CACHE", "NOT_TAKEN")]
    rest = [i for i in code if i.offset >= frame.f_lasti]
    if rest and rest[0].opname in ("TO_BOOL", "COMPARE_OP"):  # which asks for a bool, from 3.13 on
        rest = rest[1:]
    if len(rest) < 3 or rest[0].opname not in _JUMPS:
        return None
    is_error = rest[1].opname == "LOAD_ASSERTION_ERROR" or (
        rest[1].opname == "LOAD_COMMON_CONSTANT" and rest[1].argval in (AssertionError, 0)
    )
    if not is_error:
        return None
    if rest[2].opname == "RAISE_VARARGS":
        return ""
    if rest[2].opname == "LOAD_CONST" and isinstance(rest[2].argval, str):
        following = {i.opname for i in rest[3:6]}
        if "RAISE_VARARGS" in following:
            return rest[2].argval
    return None
