"""A module whose forward is generated from a graph."""

import copy
import itertools
import linecache
from pathlib import Path

import rushlight
from rushlight.fx.graph import Graph, PythonCode
from rushlight.nn import Module, Parameter

__all__ = ["GraphModule"]

_numbers = itertools.count()


class _Source:
    """Gives tracebacks the lines of generated code, for as long as the code lives."""

    def __init__(self, source):
        self._source = source

    def get_source(self, name):
        return self._source


def _forward_from(code: PythonCode):
    """Compile generated code; errors in it show its lines."""
    filename = f"<rushlight.fx generated code {next(_numbers)}>"
    names = {**code.globals, "__name__": filename, "__loader__": _Source(code.src)}
    exec(compile(code.src, filename, "exec"), names)
    linecache.lazycache(filename, names)
    return names["forward"]


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


class GraphModule(Module):
    """A module that runs the Python code of its graph.

    Args:
        root: module, or dict by path, from which the attributes come that the graph names.
        graph: the graph; assign to `.graph`, or call `recompile` after changing it.
        class_name: name of the class in `print_readable`.

    Each has a class of its own, so that `forward` can be a method of it.
    """

    def __new__(cls, *args, **kwargs):
        kind = next(k for k in cls.__mro__ if "_is_own_class" not in vars(k))
        own = type(kind.__name__, (kind,), {"_is_own_class": True, "__module__": kind.__module__})
        return super().__new__(own)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        paths = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for path in paths:
                _copy_attribute(root, self, path)
        elif isinstance(root, dict):
            for path in sorted(set(paths), key=lambda p: p.count(".")):
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
        self.meta = {}

    @property
    def graph(self):
        """The graph; assigning one generates the code anew."""
        return self._graph

    @graph.setter
    def graph(self, graph):
        if not isinstance(graph, Graph):
            raise AssertionError(f"graph must be a Graph, got {type(graph).__name__}")
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self):
        """The generated source."""
        if "_code" not in self.__dict__:
            raise RuntimeError("code: nothing was generated yet; call recompile()")
        return self._code

    def recompile(self):
        """Generate the code of the graph anew, and return it."""
        code = self._graph.python_code(root_module="self")
        self.__dict__["_code"] = code.src
        type(self).forward = _forward_from(code)
        return code

    def add_submodule(self, target, m):
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

    def delete_submodule(self, target):
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

    def delete_all_unused_submodules(self):
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
                used.update(
                    f"{node.target}.{name}" for name, _ in called.named_modules() if name
                )
        for name, _ in list(self.named_modules()):
            if name and name not in used:
                self.delete_submodule(name)

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        """Print, and return, the code as a class with the classes of its graph modules inside."""
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

    def to_folder(self, folder, module_name="FxModule"):
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

    def __str__(self):
        return f"{super().__str__()}\n\n{self.code}\n\n# To see more debug info, please use `graph_module.print_readable()`"  # noqa: E501

    # -- copies ----------------------------------------------------------------------------------

    def _state(self):
        return {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}

    def __deepcopy__(self, memo):
        state, graph = copy.deepcopy(self._state(), memo), copy.deepcopy(self._graph, memo)
        return _rebuild(_public_class(self), type(self).__name__, state, graph)

    def __copy__(self):
        state, graph = copy.copy(self._state()), copy.deepcopy(self._graph)
        return _rebuild(_public_class(self), type(self).__name__, state, graph)

    def __reduce__(self):
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
