"""One operation of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.fx._names import IN_PLACE_OPERATORS, printed_name, qualified_name
from rushlight.fx.immutable_collections import immutable_dict, immutable_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.fx.graph import Graph
    from rushlight.nn.modules.module import Module

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")

# Functions that do something besides returning a value.
_side_effectful_functions = {rushlight._assert}
_EFFECTS = {"_record_function_enter", "_record_function_enter_new", "_record_function_exit"}


Target = Callable | str  # for annotations
Argument = Any


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as one that dead-code elimination keeps; usable as a decorator.

    Raises: TypeError for what cannot be called, which no node can name.
    """
    if not callable(fn):
        raise TypeError(f"has_side_effect: expected a function, got {type(fn).__name__}")
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Any) -> Any:
    """Return `a` with `fn` of all in it that is not a tuple, list, dict or slice."""
    if isinstance(a, tuple):
        mapped = [map_aggregate(v, fn) for v in a]
        return type(a)(*mapped) if hasattr(a, "_fields") else tuple(mapped)
    if isinstance(a, list):
        return immutable_list([map_aggregate(v, fn) for v in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Any) -> Any:
    """Return `a` with `fn` of all nodes in it."""
    return map_aggregate(a, lambda v: fn(v) if isinstance(v, Node) else v)


class Node:
    """An operation, known by its `op`, with a `target` that says which.

    - placeholder: an argument of the function; the target is its name, args its default.
    - get_attr: an attribute of the module; the target is its dotted path.
    - call_function: a call of the target.
    - call_module: a call of the submodule at the target's path.
    - call_method: a call of args[0]'s method of the target's name.
    - output: what is returned, args[0].

    `users` holds the nodes that use this one, in order; `meta` is for whatever passes note.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: Any,
        kwargs: Any,
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise ValueError(f"Node: op must be one of {', '.join(OPS)}, got {op!r}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node: the target of call_function must be callable, got {type(target).__name__}"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(f"Node: the target of {op} must be a str, got {type(target).__name__}")
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Any, Any] = {}
        self.meta: dict[Any, Any] = {}
        self._input_nodes = {}
        self._args, self._kwargs = (), {}
        self._prev = self._next = self
        self._erased = False
        self._set(args, kwargs)

    def normalized_arguments(
        self,
        root: Module,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """Return the arguments of a call as its target names them, with those left out.

        Args:
            root: the module whose submodules are called.
            arg_types, kwarg_types: which signature of an operation is meant, if there are several.
            normalize_to_only_use_kwargs: all of them by name.

        Returns: an `ArgsKwargsPair`, or None if it is not known which signature is called.
        """
        from rushlight.fx.operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types,
                normalize_to_only_use_kwargs,
            )  # fmt: skip
        if self.op == "call_module":
            return normalize_module(
                root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs
            )
        return None

    # -- arguments -------------------------------------------------------------------------------

    @property
    def args(self) -> Any:
        """Positional arguments, with nodes for computed ones."""
        return self._args

    @args.setter
    def args(self, args: Any) -> Any:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> Any:
        """Keyword arguments, with nodes for computed ones."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Any) -> Any:
        self._set(self._args, kwargs)

    def _set(self, args, kwargs):
        if not isinstance(args, (tuple, list)) or not isinstance(kwargs, dict):
            raise TypeError(f"Node {self.name}: args must be a tuple and kwargs a dict")
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = {}

        def use(node):
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args = map_arg(tuple(args), use)
        self._kwargs = map_arg(dict(kwargs), use)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace positional argument `idx`."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert a positional argument before `idx`."""
        if not 0 <= idx <= len(self._args):
            raise IndexError(f"insert_arg: index {idx} is not in [0, {len(self._args)}]")
        args = list(self._args)
        args.insert(idx, arg)
        self.args = tuple(args)

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replace or add a keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Put one node for another in the arguments."""

        def replaced(node):
            return new_input if node is old_input else node

        self._set(map_arg(self._args, replaced), map_arg(self._kwargs, replaced))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let all users, or those for which `delete_user_cb` is true, use another node instead.

        Returns:
            The users that were changed.
        """
        if propagate_meta:
            for key, value in self.meta.items():
                replace_with.meta.setdefault(key, value)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        observed = getattr(self.graph.owning_module, "_replace_hooks", ())
        for user in changed:
            for hook in observed:
                hook(old=self, new=replace_with.name, user=user)
            user.replace_input_with(self, replace_with)
        return changed

    # -- place in the graph ----------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move node `x` to just before this one."""
        if x is self:
            return
        if x.graph is not self.graph:
            raise ValueError(f"prepend: node {x.name} belongs to another graph")
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move node `x` to just after this one."""
        if x is not self:
            self._next.prepend(x)

    def _remove_from_list(self):
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self

    # -- questions -------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that made the node, if a tracer recorded them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: Any) -> str | None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node does something besides computing its value."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            owner = self.graph.owning_module
            module = owner.get_submodule(self.target) if owner is not None else None
            return bool(getattr(module, "_is_impure", False))
        if self.op == "get_attr":
            return False
        if self.target in _side_effectful_functions:
            return True
        if getattr(self.target, "__name__", "").partition(".")[0] in _EFFECTS:  # of a profiler
            return True
        if impure_random and getattr(self.target, "_nondeterministic_seeded", False):
            return True
        if self._kwargs.get("out") is not None or self._kwargs.get("inplace") is True:
            return True
        if hasattr(self.target, "_opname"):  # of torch.ops: "copy_", of the overload copy_.default
            name = self.target._opname
        else:
            name = self.target if isinstance(self.target, str) else self.target.__name__
        if getattr(self.target, "__module__", None) == "_operator":
            return name == "setitem" or name in IN_PLACE_OPERATORS
        return name.endswith("_") and not name.endswith("__")  # a method that works in place

    def _pretty_target(self):
        return printed_name(self.target)

    def _pretty_print_target(self, target: Any) -> str:
        return printed_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
    ) -> str:
        """Return the node as the line that stands for it in the printed graph.

        Args:
            placeholder_names: list to which a placeholder's name goes.
            maybe_return_typename: list whose first element becomes the output's annotation.
        """
        if self.op == "output":
            if self.type is not None and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_name(self.type)}"
            return f"return {self.args[0]}"
        rest = ""
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.target)
            rest = f"(default={self.args[0]})" if self.args else ""
        elif self.op != "get_attr":
            args, kwargs = (_with_percents(value) for value in (self.args, self.kwargs))
            rest = f"(args = {args}, kwargs = {kwargs})"
        kind = f"{type_name(self.type)} " if self.type is not None else ""
        target = f"{self.op}[target={self._pretty_target()}]"
        return f"%{self.name} : {kind}[num_users={len(self.users)}] = {target}{rest}"

    def __repr__(self) -> str:
        return self.name


def type_name(kind: str) -> str:
    """The written form of an annotation."""
    if not isinstance(kind, type):
        return kind if isinstance(kind, str) else repr(kind)
    if kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}".replace("rushlight.", "torch.", 1)


def _with_percents(value):
    """The printed form of arguments, nodes with a percent sign."""
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = zip(value._fields, map(_with_percents, value))
        return f"{type(value).__name__}({', '.join('='.join(pair) for pair in named)})"
    if isinstance(value, tuple):
        inner = ", ".join(map(_with_percents, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(map(_with_percents, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_with_percents(v)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        parts = ", ".join(map(_with_percents, (value.start, value.stop, value.step)))
        return f"slice({parts})"
    return str(value)


_get_qualified_name = qualified_name


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """The printed form of an argument; of a long list, the first elements."""
    if isinstance(arg, list) and len(arg) > max_list_len:
        shown = ", ".join(_with_percents(v) for v in arg[: int(max_list_len)])
        return f"[{shown}, ...[total_len={len(arg)}]]"
    return _with_percents(arg)
