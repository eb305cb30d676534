"""A module whose forward is generated from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import weakref
from pathlib import Path

import rushlight
from rushlight._ignored import warn_of
from rushlight.fx._names import GENERATED
from rushlight.fx.graph import Graph, PythonCode
from rushlight.nn import Module, Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

    from typing_extensions import Self

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]

_numbers = itertools.count()
_HOOKS = ("_create_node_hooks", "_erase_node_hooks", "_replace_hooks", "_deepcopy_hooks")


class _Source:
    """Gives tracebacks the lines of generated code."""

    def __init__(self, source: str) -> None:
        self._source = source

    def get_source(self, name: str) -> str:
        return self._source


def _forward_from(code: PythonCode):
    """Compile generated code; errors in it show its lines."""
    filename = f"{GENERATED}.{next(_numbers)}"
    names = {**code.globals, "__name__": filename, "__loader__": _Source(code.src)}
    exec(compile(code.src, filename, "exec"), names)
    forward = names.pop("forward")
    linecache.lazycache(filename, names)
    weakref.finalize(forward, linecache.cache.pop, filename, None)
    return forward


def _copy_attribute(source, target, path):
    """Give `target` what `source` has at a dotted path, making modules on the way."""
    *prefix, name = path.split(".")
    for part in prefix:
        source = getattr(source, part)
        if not hasattr(target, part):
            target.add_module(part, Module())
        target = getattr(target, part)
    _assign(target, name, getattr(source, name), source)


def _assign(target, name, value, source=None):
    if isinstance(value, rushlight.Tensor) and not isinstance(value, Parameter):
        hidden = source is not None and name in getattr(source, "_non_persistent_buffers_set", ())
        if name in target._buffers:
            target._buffers[name] = value
        else:
            target.register_buffer(name, value, persistent=not hidden)
    else:
        setattr(target, name, value)


_copy_attr = _copy_attribute


def _get_attr(model: Module, attr_name: str) -> Any:
    """What a module has at a dotted path."""
    value = model
    for name in attr_name.split("."):
        value = getattr(value, name)
    return value


_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class _CodeOnlyModule(Module):
    """A module with the attributes of another one."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


class GraphModule(Module):
    """A module that runs the Python code of its graph.

    Args:
        root: module, or dict by path, from which the attributes come that the graph names.
        graph: the graph; assign to `.graph`, or call `recompile` after changing it.
        class_name: name of the class in `print_readable`.

    Each has a class of its own, so that `forward` can be a method of it.
    """

    # Functions that are told of changes: of a new node, of one that is erased, of (old, new, user)
    # where a user takes another node, and of a deep copy of the module.
    _create_node_hooks: list[Any] = []
    _erase_node_hooks: list[Any] = []
    _replace_hooks: list[Any] = []
    _deepcopy_hooks: list[Any] = []

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        kind = next(k for k in cls.__mro__ if "_is_own_class" not in vars(k))
        own = type(kind.__name__, (kind,), {"_is_own_class": True, "__module__": kind.__module__})
        return super().__new__(own)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        paths = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training: bool = root.training
            for path in paths:
                _copy_attribute(root, self, path)
        elif isinstance(root, dict):
            for path in sorted(dict.fromkeys(paths), key=lambda p: p.count(".")):
                if path not in root:
                    raise RuntimeError(
                        f"GraphModule: the graph names {path!r}, which is not in root: {list(root)}"
                    )
                *prefix, name = path.split(".")
                target = self
                for part in prefix:
                    if not hasattr(target, part):
                        target.add_module(part, Module())
                    target = getattr(target, part)
                _assign(target, name, root[path])
        else:
            raise RuntimeError(
                f"GraphModule: root must be a Module or a dict, got {type(root).__name__}"
            )
        self.graph = graph
        self.meta: dict[Any, Any] = {}

    @property
    def graph(self) -> Graph:
        """The graph; assigning one generates the code anew."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"graph must be a Graph, got {type(graph).__name__}")
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The generated source."""
        if "_code" not in self.__dict__:
            raise RuntimeError("code: nothing was generated yet; call recompile()")
        return self._code

    def recompile(self) -> Any:
        """Generate the code of the graph anew, and return it."""
        code = self._graph.python_code(root_module="self")
        self.__dict__["_code"] = code.src
        shapes = getattr(self._graph._codegen, "pytree_info", None)
        if shapes is not None:  # the code names them
            self.__dict__["_in_spec"], self.__dict__["_out_spec"] = shapes[1:]
        type(self).forward = _forward_from(code)
        return code

    def add_submodule(self, target: str, m: Module) -> bool:
        """Install a module at a dotted path, with empty modules on the way.

        Returns:
            Whether it could: False if something on the way is no module.
        """
        *prefix, name = target.split(".")
        module = self
        for part in prefix:
            inner = getattr(module, part, None)
            if inner is None:
                inner = Module()
                module.add_module(part, inner)
            if not isinstance(inner, Module):
                return False
            module = inner
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a dotted path; return whether there was one."""
        *prefix, name = target.split(".")
        module = self
        for part in prefix:
            module = module._modules.get(part)
            if module is None:
                return False
        if not isinstance(module._modules.get(name), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that the graph neither calls nor reaches through."""
        used = set()
        for node in self._graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
            if node.op == "call_module":
                try:
                    called = self.get_submodule(node.target)
                except AttributeError:
                    continue  # the node names what is no longer there, as lint tells
                used.update(f"{node.target}.{name}" for name, _ in called.named_modules() if name)
        for name, _ in list(self.named_modules()):
            if name and name not in used:
                self.delete_submodule(name)

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:
        """Print, and return, the code as a class with the classes of its graph modules inside."""
        warn_of(
            "print_readable", "notes about values are their types and shapes, without colours",
            include_stride=include_stride, include_device=include_device, colored=colored,
        )  # fmt: skip
        text = self._readable(type(self).__name__)
        if print_output:
            print(text)
        return text

    def _readable(self, name):
        code = self._graph.python_code(root_module="self", verbose=True).src.strip("\n ")
        inner = [
            module._readable(f"{child}")
            for child, module in self.named_children()
            if isinstance(module, GraphModule)
        ]
        body = "\n".join([code, *(f"\n{text}" for text in inner)])
        indented = "\n".join(f"    {line}" if line.strip() else "" for line in body.split("\n"))
        return f"class {name}(torch.nn.Module):\n{indented}"

    def to_folder(self, folder: str | PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a package: module.py with the code, and its state."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        rushlight.save(self, folder / "graph_module.pt")
        (folder / "module.py").write_text(
            "import rushlight as torch\n"
            "from pathlib import Path\n\n\n"
            f"def {module_name}():\n"
            '    """The module as it was written."""\n'
            '    path = Path(__file__).parent / "graph_module.pt"\n'
            "    return torch.load(path, weights_only=False)\n\n\n"
            f'"""{self.code}"""\n'
        )
        (folder / "__init__.py").write_text("from .module import *\n")

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"  # noqa: E501

    # -- functions that are told of changes ------------------------------------------------------

    def _add_hook(self, kind, f):
        if not callable(f):
            raise AssertionError(f"{kind}: expected a function, got {type(f).__name__}")
        self.__dict__[kind] = [*getattr(self, kind), f]

    def _remove_hook(self, kind, f):
        hooks = list(getattr(self, kind))
        hooks.remove(f)
        self.__dict__[kind] = hooks

    def _register_create_node_hook(self, f: Any) -> None:
        self._add_hook("_create_node_hooks", f)

    def _unregister_create_node_hook(self, f: Any) -> None:
        self._remove_hook("_create_node_hooks", f)

    def _register_erase_node_hook(self, f: Any) -> None:
        self._add_hook("_erase_node_hooks", f)

    def _unregister_erase_node_hook(self, f: Any) -> None:
        self._remove_hook("_erase_node_hooks", f)

    def _register_replace_node_hook(self, f: Any) -> None:
        self._add_hook("_replace_hooks", f)

    def _unregister_replace_node_hook(self, f: Any) -> None:
        self._remove_hook("_replace_hooks", f)

    def _register_deepcopy_hook(self, f: Any) -> None:
        self._add_hook("_deepcopy_hooks", f)

    def _unregister_deepcopy_hook(self, f: Any) -> None:
        self._remove_hook("_deepcopy_hooks", f)

    # -- copies ----------------------------------------------------------------------------------

    def _state(self):
        left_out = ("_graph", "_code", *_HOOKS)
        return {k: v for k, v in self.__dict__.items() if k not in left_out}

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        kind = _public_class(self)
        new = memo[id(self)] = kind.__new__(kind)  # what it holds may hold it
        type(new).__name__ = type(self).__name__
        new.__dict__.update(copy.deepcopy(self._state(), memo))
        new.graph = copy.deepcopy(self._graph, memo)
        new.__dict__.update({kind: list(getattr(self, kind)) for kind in _HOOKS})
        for hook in self._deepcopy_hooks:
            hook(new)
        return new

    def __copy__(self) -> GraphModule:
        state, graph = copy.copy(self._state()), copy.deepcopy(self._graph)
        return _rebuild(_public_class(self), type(self).__name__, state, graph)

    def _replicate_for_data_parallel(self) -> GraphModule:
        replica = copy.copy(self)
        replica._is_replica = True
        return replica

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (_public_class(self), type(self).__name__, self._state(), self._graph)


def _public_class(module):
    """The class that a module's own class was made of."""
    return next(k for k in type(module).__mro__ if "_is_own_class" not in vars(k))


def _rebuild(kind, class_name, state, graph):
    new = kind.__new__(kind)
    type(new).__name__ = class_name
    new.__dict__.update(state)
    new.graph = graph
    return new


def reduce_graph_module(body: dict[str, Any], import_block: str) -> GraphModule:
    """Make a module of its attributes and its code, as files hold it that torch wrote.

    Args:
        body: its attributes; "_code" is the source of its forward.
        import_block: statements that import what the source names.
    """
    source = import_block + (body.get("_code") or body["code"])
    return _traced_again(_forward_from(PythonCode(source, {})), body)


def reduce_package_graph_module(
    importer: Any, body: dict[str, Any], generated_module_name: str
) -> GraphModule:
    """Make a module of its attributes and a module of Python with its forward.

    Args:
        importer: has `import_module`, such as the module importlib.
        body: its attributes.
        generated_module_name: the name of the module of Python.
    """
    return _traced_again(importer.import_module(generated_module_name).forward, body)


def _traced_again(forward, body):
    from rushlight.fx._symbolic_trace import Tracer

    class Root(_CodeOnlyModule):
        pass

    Root.forward = forward
    tracer_class = body.get("_tracer_cls") or Tracer

    class OfCode(tracer_class):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    root = Root(dict(body))
    graph = OfCode().trace(root, **body.get("_tracer_extras", {}))
    graph._tracer_cls = tracer_class
    traces = body.get("_graphmodule_graph_node_meta_stack_trace") or {}
    for node in graph.nodes:
        if traces.get(node.name) is not None:
            node.stack_trace = traces[node.name]
    module = GraphModule(root, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(module, name):
            setattr(module, name, value)
    return module
