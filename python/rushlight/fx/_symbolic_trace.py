"""Recording of a module or function by running it on stand-ins for its arguments."""

from __future__ import annotations

import builtins
import collections
import functools
import inspect
import itertools
import math
from types import CodeType, FunctionType

import rushlight
from rushlight import Tensor
from rushlight._core_names import ScriptObject  # noqa: F401 (torch has it here)
from rushlight._ignored import warn_program
from rushlight._set_module import home_of
from rushlight.fx import proxy as proxies
from rushlight.fx._names import GENERATED, function_modules, is_of_rushlight
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.proxy import (
    ParameterProxy,
    Proxy,
    Scope,
    ScopeContextManager,
    TracerBase,
)
from rushlight.nn import Module, Parameter
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable
    from typing import Any

__all__ = ["PH", "PHBase", "ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap"]

HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def compatibility(is_backward_compatible):
    """Decorates a function of which torch promises that it will, or may not, stay as it is."""

    def mark(function):
        function._backward_compatible = is_backward_compatible
        return function

    return mark


class PHBase:
    """Marks a place in concrete_args that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()

# What a constant is compared with when the recorded program runs.
_COMPARED = (bool, int, float, complex, str, rushlight.dtype, rushlight.device)

_tracing = 0  # how many tracers run


def is_fx_tracing() -> bool:
    """Return whether a program is being recorded."""
    return _tracing > 0


is_fx_symbolic_tracing = is_fx_tracing

# ---- functions that are recorded as one call -----------------------------------------------------

_wrapped_fns_to_patch = {}  # (id of a module's globals, name) -> the globals
_WRAPPED = "_wrapped_names"  # a global of generated code: what it wrapped


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Record calls of a function as calls, not its body.

    Call it at module scope, or decorate a function with it.

    Args:
        fn_or_name: the function, or its name in the calling module, such as "len".

    Example:
        >>> _ = torch.fx.wrap("len")
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(f"wrap: expected a function or its name, got {fn_or_name!r}")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>" and not frame.f_code.co_filename.startswith("<doctest"):
        raise NotImplementedError(f"wrap({name!r}) must be called at the top level of a module")
    if frame.f_code.co_filename.startswith(GENERATED):  # in globals that live as long as the code
        frame.f_globals.setdefault(_WRAPPED, []).append(name)
    else:
        _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _find_proxy(args, kwargs):
    found = []

    def look(value):
        if isinstance(value, Proxy):
            found.append(value)

    proxies.map_aggregate((args, kwargs), look)
    return found[0] if found else None


def _recording(function):
    """`function`, recorded if an argument is a proxy."""
    if getattr(function, "_records_calls_of", None) is not None:
        return function

    @functools.wraps(function)
    def record(*args, **kwargs):
        traced = _find_proxy(args, kwargs)
        if traced is None:
            return function(*args, **kwargs)
        call = traced.tracer.create_proxy("call_function", function, args, kwargs)
        if not is_of_rushlight(function):  # whose calls are recorded wherever they stand
            call.node.meta["is_wrapped"] = True
        return call

    record._records_calls_of = function
    return record


class ProxyableClassMeta(type):
    """A metaclass: constructing an instance from proxies is recorded as a call of the class."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        traced = _find_proxy(args, kwargs)
        if traced is None:
            return super().__call__(*args, **kwargs)
        return traced.tracer.create_proxy("call_function", cls, args, kwargs)


class _Patcher:
    """A context in which entries of namespaces are replaced; they are put back at its end."""

    _MISSING = object()

    def __init__(self) -> None:
        self._done = []
        self._visited = set()

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Any,
              deduplicate: bool = True) -> None:  # fmt: skip
        """Replace frame_dict[name]: once, or with deduplicate=False again each time."""
        if not deduplicate or self._is_first("entry", frame_dict, name):
            self._done.append((frame_dict, name, frame_dict.get(name, self._MISSING)))
            frame_dict[name] = new_fn

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Replace cls.name: once, or with deduplicate=False again each time."""
        if not deduplicate or self._is_first("member", cls, name):
            self._done.append((cls, name, vars(cls).get(name, self._MISSING)))
            setattr(cls, name, new_fn)

    def visit_once(self, thing: Any) -> bool:
        """Return whether this was not called with the thing before."""
        return self._is_first("visit", thing)

    def _is_first(self, kind, thing, *name):
        key = (kind, id(thing), *name)
        new = key not in self._visited
        self._visited.add(key)
        return new

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *exception: object) -> None:
        while self._done:
            owner, name, value = self._done.pop()
            if isinstance(owner, dict):
                if value is self._MISSING:
                    del owner[name]
                else:
                    owner[name] = value
            elif value is self._MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        Module._quicken()


def _autowrap_check(patcher, frame_dict, function_ids):
    """Have calls of these functions recorded that a namespace holds."""
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if id(value) in function_ids and not name.startswith("__"):
                patcher.patch(frame_dict, name, _recording(value))


def _patch_wrapped(patcher, namespace, name):
    original = namespace.get(name, getattr(builtins, name, None))
    if original is None:
        raise NameError(f"wrap({name!r}): the module has no such function")
    patcher.patch(namespace, name, _recording(original))


def _patch_wrapped_functions(patcher):
    """Have calls of the functions that `wrap` was given recorded."""
    for (_, name), namespace in list(_wrapped_fns_to_patch.items()):
        _patch_wrapped(patcher, namespace, name)


def _patch_body(patcher, function_ids, namespace):
    """Have calls recorded that a body makes by its globals, those of generated code too."""
    for name in namespace.get(_WRAPPED, ()):
        _patch_wrapped(patcher, namespace, name)
    _autowrap_check(patcher, namespace, function_ids)


# As they are when nothing is traced: for tracers that patch these by themselves.
_orig_module_call = Module.__call__
_orig_module_getattr = Module.__getattr__


def _python_functions(module):
    """The public functions of a module that are Python: these do not record calls by themselves."""
    return [
        value
        for name, value in vars(module).items()
        if not name.startswith("_") and isinstance(value, FunctionType)
    ]


# They take sizes, of which no tensor is among the arguments.
_FACTORIES = (
    "arange", "empty", "empty_strided", "eye", "full", "linspace", "logspace", "ones", "rand",
    "randint", "randn", "randperm", "tril_indices", "triu_indices", "zeros",
)  # fmt: skip

# Of `rushlight`: they take what they are given as it is, or are asked about proxies.
_RUN_AS_THEY_ARE = {
    rushlight.is_tensor,
    rushlight.is_storage,
    rushlight.typename,
    rushlight.compile,
}


def _annotation_of(function, name):
    """What a function says of an argument, or of its result ("return"), or None. Those of
    rushlight's own layers are for type checkers alone: texts with names that only those can find.
    """
    function = inspect.unwrap(function)
    kind = getattr(function, "__annotations__", {}).get(name)
    own = home_of(function).partition(".")[0] == "rushlight"
    return None if own and isinstance(kind, str) else kind


class Tracer(TracerBase):
    """Records the forward of a module, or a function, as a graph.

    Args:
        autowrap_modules: modules whose functions are recorded as calls.
        autowrap_functions: further such functions.
        param_shapes_constant: take the shapes of parameters as they are now, so that programs may
            branch on them.

    Subclasses decide which modules are leaves, recorded as one call: `is_leaf_module`.
    """

    root: Module | None

    def __init__(
        self,
        autowrap_modules: tuple[Any, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        functions = [*autowrap_functions]
        for module in autowrap_modules:
            functions += [
                f for n, f in vars(module).items() if not n.startswith("_") and callable(f)
            ]
        for name, module in rushlight._HOME.items():
            if module.startswith(("_", "functional")):
                getattr(rushlight, name)  # now loaded, it is found in the namespace
        for module in function_modules():
            functions += _python_functions(module)
        functions = [f for f in functions if f not in _RUN_AS_THEY_ARE]
        functions += [rushlight._assert, *(getattr(rushlight, name) for name in _FACTORIES)]
        self._autowrapped = functions  # alive, so that their ids are their own
        self._autowrap_function_ids = set(map(id, functions))
        self._autowrap_search = [*autowrap_modules, *function_modules()]
        self.param_shapes_constant = param_shapes_constant
        self.root = None
        self.module_stack: OrderedDict[Any, Any] = collections.OrderedDict()
        self.scope: Scope = Scope("", None)
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self._paths: dict[int, str] = {}
        self._constants: dict[int, tuple[str, Tensor]] = {}

    # -- what subclasses may change --------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether calls of a module are recorded as one: the modules of nn, by default."""
        ours = m.__module__.startswith(("rushlight.nn", "torch.nn"))
        if type(m).__module__ in ("rushlight.jit", "torch.jit"):  # a script has no source
            return True
        return ours and not isinstance(m, rushlight.nn.Sequential)

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record the call of a module: as one node if it is a leaf, else by calling `forward`."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            repeats = sum(key.partition("@")[0] == path for key in self.module_stack)
            key = f"{path}@{repeats}" if repeats else path  # a module in a call of itself
            self.module_stack[key] = path, type(m)
            try:
                if not self.is_leaf_module(m, path):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", path, args, kwargs)
            finally:
                del self.module_stack[key]

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return what an attribute of a module is while tracing: a proxy, if it is a parameter."""
        kinds = [(Parameter, self.root.named_parameters)]
        if self.proxy_buffer_attributes:
            kinds.append((Tensor, self.root.named_buffers))
        for kind, members in kinds:
            if not isinstance(attr_val, kind):
                continue
            for name, value in members():
                if value is attr_val:
                    if name not in parameter_proxy_cache:
                        options = {}  # which a tracer's own create_proxy need not take
                        takes = inspect.signature(self.create_proxy).parameters
                        if self.param_shapes_constant and "proxy_factory_fn" in takes:
                            factory = functools.partial(self._parameter_proxy, name, value)
                            options["proxy_factory_fn"] = factory
                        parameter_proxy_cache[name] = self.create_proxy(
                            "get_attr", name, (), {}, **options
                        )
                    return parameter_proxy_cache[name]
        return attr_val

    def _parameter_proxy(self, name, value, node):
        return ParameterProxy(self, node, name, value)

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name that the root has no attribute of."""
        count = 0
        while hasattr(self.root, f"{prefix}{count}"):
            count += 1
        return f"{prefix}{count}"

    def path_of_module(self, mod: Module) -> str:
        """Return the dotted path of a submodule of the root."""
        path = self._paths.get(id(mod))
        if path is not None:
            return path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError(f"{type(mod).__name__} is not installed as a submodule of the root")

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, Tensor):
            return self._attribute_of(a)
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if isinstance(type(a), ProxyableClassMeta):
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)  # made before tracing, or of nothing that is traced
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, FunctionType) and getattr(a, "_records_calls_of", None) is not None:
            a = a._records_calls_of
        return super().create_arg(a)

    def _attribute_of(self, tensor):
        """The node of the attribute that holds a tensor; a constant becomes a new attribute."""
        for name, value in (*self.root.named_parameters(), *self.root.named_buffers()):
            if value is tensor:
                return self.create_node("get_attr", name, (), {})
        path = self._constants.get(id(tensor), (None,))[0]
        if path is None:
            path = self.get_fresh_qualname("_tensor_constant")
            setattr(self.root, path, tensor)
            self._constants[id(tensor)] = path, tensor
        return self.create_node("get_attr", path, (), {})

    # -- tracing ---------------------------------------------------------------------------------

    def trace(
        self,
        root: Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> Graph:
        """Record `root` and return the graph.

        Args:
            root: a module or a function.
            concrete_args: values of arguments that are to be constants, by name, or all of them as
                a tuple. A value may be a container, of which what is `fx.PH` stays an input.
        """
        if isinstance(root, Module):
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in "
                    f"{type(root).__name__}"
                )
            self.root, function = root, getattr(type(root), self.traced_func_name)
        else:
            self.root, function = Module(), root
        self._paths = {id(m): name for name, m in self.root.named_modules()}
        self._constants = {
            id(value): (f"{prefix}.{name}" if prefix else name, value)
            for prefix, module in self.root.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, Tensor)
        }
        self.graph: Graph = Graph(tracer_cls=type(self))
        self.scope, self.node_name_to_scope = Scope("", None), {}
        self.module_stack = collections.OrderedDict()
        returns = _annotation_of(function, "return")
        root_globals = getattr(inspect.unwrap(function), "__globals__", {})
        function, args = self.create_args_for_root(
            function, isinstance(root, Module), concrete_args or {}
        )
        global _tracing
        _tracing += 1
        try:
            with _Patcher() as patcher:
                self._patch(patcher, root_globals)
                result = function(*args)
                result = self.create_arg(result)
                self.create_node("output", "output", (result,), {}, type_expr=returns)
        finally:
            _tracing -= 1
            self._paths, self._constants = {}, {}
        return self.graph

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Return the function and its arguments: proxies, and the concrete ones.

        *args and **kwargs become one proxy each, so the function that is called has no stars.
        Where concrete arguments are containers, it is a function of their leaves.
        """
        function = inspect.unwrap(root_fn)
        signature = inspect.signature(function)
        # As the code has them: positional and keyword-only ones, then those with stars.
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        names = sorted(signature.parameters, key=lambda n: signature.parameters[n].kind in kinds)
        if is_module and (not names or signature.parameters[names[0]].kind in kinds):
            raise RuntimeError(
                f"{type(self.root).__name__}.forward: self must be an argument of its own"
            )
        names = names[1:] if is_module else names
        if (
            concrete_args
            and isinstance(concrete_args, tuple)
            and self._only_stars(signature, names)
        ):
            inputs = [
                self.create_proxy("placeholder", f"input_{place}", (), {})
                for place in range(len(concrete_args))
            ]
            for proxy, given in zip(inputs, concrete_args, strict=True):
                if isinstance(given, PHBase):
                    vars(proxy.node).update(vars(given))
            return root_fn, [*([self.root] if is_module else []), *inputs]
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"concrete_args: {len(concrete_args)} values for {len(names)} arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        concrete_args = concrete_args or {}
        unknown = set(concrete_args) - set(names)
        if unknown:
            raise ValueError(f"concrete_args names {sorted(unknown)}, not arguments of {names}")
        args, given, stars = [], [], False
        for name in names:
            parameter = signature.parameters[name]
            star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(
                parameter.kind, ""
            )
            stars = stars or bool(star) or parameter.kind is parameter.KEYWORD_ONLY
            default = () if parameter.default is parameter.empty else (parameter.default,)
            given.append(f"{star}{name}")
            if name in concrete_args:
                args.append(self._concrete(name, default, concrete_args[name]))
            else:
                kind = _annotation_of(function, name)
                made = self.create_proxy("placeholder", given[-1], default, {}, type_expr=kind)
                args.append(made)
        own = [self.root] if is_module else []
        function = _without_stars(function, len(own) + len(args)) if stars else root_fn
        leaves, spec = tree_flatten(args)
        if all(child.is_leaf() for child in spec.children()):
            return function, [*own, *args]
        return self._of_leaves(function, own, given, spec), leaves

    @staticmethod
    def _only_stars(signature, names):
        kinds = {signature.parameters[name].kind for name in names}
        return inspect.Parameter.VAR_POSITIONAL in kinds and kinds <= {
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        }

    def _of_leaves(self, function, own, names, in_spec):
        """A function of the leaves of the arguments that returns the leaves of the result."""
        from rushlight.fx._pytree_codegen import PytreeCodeGen, PytreeInfo

        codegen = PytreeCodeGen(PytreeInfo(names, in_spec, None))
        self.graph.set_codegen(codegen)

        def flat(*leaves):
            out, spec = tree_flatten(function(*own, *tree_unflatten(leaves, in_spec)))
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=spec)
            return out

        return flat

    def _concrete(self, name, default, tree):
        """A tree of values, which are constants from now on, with proxies where it has PH."""
        places = itertools.count(1)

        def constant(value):
            given = self.create_proxy("placeholder", f"{name}_{next(places)}", default, {})
            if isinstance(value, PHBase):
                vars(given.node).update(vars(value))
                return given
            message = f"{name} has been specialized to have value {value} but got another value"
            if isinstance(value, _COMPARED):
                self.create_proxy("call_function", rushlight._assert, (given == value, message), {})
            elif value is None:
                self.create_proxy("call_function", _assert_is_none, (given, message), {})
            else:
                warn_program(
                    "Was not able to add assertion to guarantee correct input "
                    f"{name}: the recorded program has the {type(value).__name__} that was given",
                )
            return value

        return tree_map(constant, tree)

    def _patch(self, patcher, root_globals):
        """Let modules, their parameters and wrapped functions be recorded."""
        own_call, own_getattr, cache = Module.__call__, Module.__getattr__, {}

        def call(module, *args, **kwargs):
            def forward(*args, **kwargs):
                return own_call(module, *args, **kwargs)

            body = getattr(type(module).forward, "__globals__", {})
            _patch_body(patcher, self._autowrap_function_ids, body)
            return self.call_module(module, forward, args, kwargs)

        def attribute(module, name):
            return self.getattr(name, own_getattr(module, name), cache)

        patcher.patch_method(Module, "__call__", call)
        patcher.patch_method(Module, "__getattr__", attribute)
        _patch_wrapped_functions(patcher)
        for module in self._autowrap_search:
            _autowrap_check(patcher, vars(module), self._autowrap_function_ids)
        _patch_body(patcher, self._autowrap_function_ids, root_globals)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new


def _assert_is_none(value, message):
    assert value is None, message


def _without_stars(function, count):
    """The function with all `count` parameters positional: *args is given as one object."""
    code: CodeType = function.__code__
    code = code.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~HAS_VARSTUFF,
    )
    # Parameters come in the code as: positional, keyword-only, *args, **kwargs.
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
) -> GraphModule:
    """Record a module or function and return a module that does the same, with its graph.

    Args:
        root: an `nn.Module` or a function.
        concrete_args: values of arguments that are to be constants, by name.

    Raises:
        TraceError: the program branches on a value that only a run has; the message names the line.

    Example:
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> print(traced.code.strip())
        def forward(self, x):
            relu = torch.relu(x);  x = None
            add = relu + 1;  relu = None
            return add
        >>> traced(torch.tensor([-1.0, 2.0]))
        tensor([1., 3.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
