"""Tracing of programs that ask for sizes: each proxy has a tensor on the meta device."""

from __future__ import annotations

import builtins
import functools

import rushlight
from rushlight import Tensor, nn
from rushlight._ignored import warn_program as _warn_program
from rushlight.fx import _symbolic_trace
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import map_aggregate
from rushlight.fx.proxy import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.fx.graph import Graph
    from rushlight.fx.node import Node

__all__ = [
    "MetaAttribute",
    "MetaDeviceAttribute",
    "MetaProxy",
    "MetaTracer",
    "embedding_override",
    "functional_relu_override",
    "gen_constructor_wrapper",
    "manual_meta_overrides",
    "nn_layernorm_override",
    "proxys_to_metas",
    "symbolic_trace",
    "torch_abs_override",
    "torch_nn_relu_override",
    "torch_relu_override",
    "torch_where_override",
]


def embedding_override(self: nn.Embedding, input: Tensor) -> Tensor:
    """What an embedding gives, on the meta device."""
    return rushlight.empty(*input.shape, self.weight.shape[-1], device="meta")


def nn_layernorm_override(self: nn.LayerNorm, input: Tensor) -> Tensor:
    """What a layer norm gives, on the meta device."""
    del self
    return input


def torch_relu_override(x: Tensor) -> Tensor:
    """What `torch.relu` gives, on the meta device."""
    return x


def torch_nn_relu_override(self: nn.ReLU, x: Tensor) -> Tensor:
    """What `nn.ReLU` gives, on the meta device."""
    del self
    return x


def functional_relu_override(x: Tensor, inplace: bool = False) -> Tensor:
    """What `relu` of nn.functional gives, on the meta device.

    Raises: AssertionError in place.
    """
    if inplace:
        raise AssertionError("relu: inplace=True is not followed on the meta device")
    return x


def torch_where_override(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """What `torch.where` gives, on the meta device."""
    return condition.to("meta") + x.to("meta") + y.to("meta")


def torch_abs_override(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """What `torch.abs` gives, on the meta device.

    Raises: AssertionError with `out`.
    """
    if out is not None:
        raise AssertionError("abs: out= is not followed on the meta device")
    return input


# What to compute with on the meta device, in place of functions and of types of modules.
manual_meta_overrides: dict[Any, Any] = {
    nn.Embedding: embedding_override,
    nn.LayerNorm: nn_layernorm_override,
    rushlight.relu: torch_relu_override,
    nn.functional.relu: functional_relu_override,
    nn.ReLU: torch_nn_relu_override,
    rushlight.where: torch_where_override,
    rushlight.abs: torch_abs_override,
}


def gen_constructor_wrapper(
    target: Callable[..., Any],
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function that is recorded where a proxy is among its arguments, and the function itself."""

    @functools.wraps(target)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        proxies: list[Proxy] = []
        map_aggregate((args, kwargs), lambda v: proxies.append(v) if isinstance(v, Proxy) else v)
        if not proxies:
            return target(*args, **kwargs)
        return proxies[-1].tracer.create_proxy("call_function", target, args, kwargs)

    return wrapper, target


class MetaProxy(Proxy):
    """A proxy that knows its sizes and dtype, where it has a tensor on the meta device."""

    def install_tensor_meta(self, tensor_meta: Any) -> None:
        """Give it the tensor."""
        self._tensor_meta = tensor_meta

    def _meta(self):
        return self.__dict__.get("_tensor_meta")

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or one of them."""
        args = () if dim is None else (dim,)
        if self._meta() is not None:
            return self._meta().size(*args)
        return self.tracer.create_proxy("call_method", "size", (self, *args), {})

    def dim(self) -> Any:
        """The number of dims."""
        if self._meta() is not None:
            return self._meta().dim()
        return self.tracer.create_proxy("call_method", "dim", (self,), {})

    def _attribute(self, name):
        if self._meta() is not None:
            return getattr(self._meta(), name)
        return self.tracer.create_proxy("call_function", builtins.getattr, (self, name), {})

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self._attribute("shape")

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self._attribute("dtype")

    @property
    def device(self) -> MetaDeviceAttribute:
        """The device, which is recorded."""
        return MetaDeviceAttribute(self, "device")

    def __getattr__(self, name: str) -> Any:
        if name in ("node", "tracer", "_tensor_meta", "__deepcopy__", "__setstate__"):
            raise AttributeError(name)
        return MetaAttribute(self, name)


class MetaAttribute(MetaProxy):
    """An attribute of a proxy, recorded once it is used."""

    root: Any
    attr: str
    tracer: Any

    def __init__(self, root: MetaProxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """The node, made when it is asked for."""
        if self._node is None:
            args = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, args, {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class MetaDeviceAttribute(MetaAttribute):
    """The device of a proxy."""


def proxys_to_metas(v: Any) -> Any:
    """The meta tensor of a proxy; other values as they are.

    Raises: AssertionError if the proxy has none.
    """
    if isinstance(v, MetaDeviceAttribute):
        return "meta"
    if not isinstance(v, Proxy):
        return v
    meta = v._meta() if isinstance(v, MetaProxy) else None
    if meta is None:
        raise AssertionError(f"{v} has no tensor on the meta device")
    return meta


class MetaTracer(_symbolic_trace.Tracer):
    """Records programs that branch on sizes.

    `trace` takes {name of an argument: tensor on the meta device}.
    """

    allow_insert_stateless_mods: bool = True
    _TORCH_METHODS_TO_PATCH: list[str] = ["arange", "zeros", "ones", "full_like", "eye"]

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> MetaProxy:
        """Insert a node, and compute on the meta device what it gives."""
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if kind == "placeholder":
            if target in self.meta_args:
                proxy.install_tensor_meta(self.meta_args[target])
            return proxy
        if kind not in ("call_function", "call_method", "call_module", "get_attr"):
            return proxy
        if target in self.orig_fns and "device" in kwargs:
            kwargs["device"] = "meta"
        try:
            given, named = map_aggregate((args, kwargs), proxys_to_metas)
            proxy.install_tensor_meta(self._computed(kind, target, given, dict(named)))
        except Exception as error:  # the program is recorded nevertheless
            _warn_program(f"MetaTracer: {kind} {target} gives no sizes: {error}")
        return proxy

    def _computed(self, kind, target, args, kwargs):
        if kind == "call_function":
            return manual_meta_overrides.get(target, target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        self._disable_module_getattr = True
        try:
            if kind == "get_attr":
                value = self.root
                for part in target.split("."):
                    value = getattr(value, part)
                return value.to("meta")
            module = self.root.get_submodule(target)
            override = manual_meta_overrides.get(type(module))
            if override is not None:
                return override(module, *args, **kwargs)
            return self._called_on_meta(module, args, kwargs)
        finally:
            self._disable_module_getattr = False

    def _called_on_meta(self, module, args, kwargs):
        named = [*module.named_parameters(), *module.named_buffers()]
        state = {name: value.to("meta") for name, value in named}
        self._is_calling = True  # the module is called, not recorded
        try:
            return rushlight.func.functional_call(module, state, args, kwargs)
        finally:
            self._is_calling = False

    _is_calling = _disable_module_getattr = False

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """See `Tracer.getattr`."""
        if self._disable_module_getattr:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """See `Tracer.call_module`."""
        if self._is_calling:
            return forward(*args, **kwargs)
        self.orig_forward: Callable[..., Any] = forward
        return super().call_module(m, forward, args, kwargs)

    def path_of_module(self, mod: nn.Module) -> str:
        """The path of a module; one without parameters that the root does not have becomes its."""
        try:
            return super().path_of_module(mod)
        except NameError:
            stateless = not [*mod.parameters(), *mod.buffers()]
            if not (self.allow_insert_stateless_mods and stateless):
                raise
            path = self.get_fresh_qualname(f"{type(mod).__name__.lower()}_")
            self.root.add_module(path, mod)
            return path

    def proxy(self, node: Node) -> MetaProxy:
        """The proxy of a node."""
        return MetaProxy(node, self)

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        meta_args: dict[str, Tensor],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """Record a module or function.

        Args:
            root: the module or function.
            meta_args: {name of an argument: tensor on the meta device}.
            concrete_args: values of arguments that are to be constants, by name.
        """
        if not isinstance(meta_args, dict):
            raise AssertionError(f"MetaTracer: meta_args must be a dict, got {meta_args!r}")
        self.meta_args = meta_args
        originals = {name: getattr(rushlight, name) for name in self._TORCH_METHODS_TO_PATCH}
        self.orig_fns: set[Any] = set(originals.values())
        for name, function in originals.items():
            setattr(rushlight, name, gen_constructor_wrapper(function)[0])
        try:
            graph = super().trace(root, concrete_args)
        finally:
            for name, function in originals.items():
                setattr(rushlight, name, function)
        graph._tracer_extras = {"meta_args": meta_args}
        return graph


def symbolic_trace(
    root: nn.Module | Callable[..., Any],
    meta_args: dict[str, Tensor] | None = None,
    concrete_args: dict[str, Any] | None = None,
) -> GraphModule:
    """Record a module or function, and return a module with its graph; see `MetaTracer.trace`."""
    tracer = MetaTracer()
    graph = tracer.trace(root, meta_args, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
