"""What programs ask of traced and scripted modules and functions beside calling them."""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import types
import typing

import rushlight
from rushlight.fx import Node
from rushlight.jit._interpreted import Interpreted, MissingProgram
from rushlight.jit._type_comments import hints_of
from rushlight.library._schema import Argument, FunctionSchema
from rushlight.utils._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.fx import Graph


class ConstMap:
    """The constants of a program, by name."""

    def __init__(self, const_mapping: dict[str, Any]) -> None:
        self.const_mapping = const_mapping

    def __getattr__(self, attr: str) -> Any:
        if attr.startswith("__"):
            raise AttributeError(attr)
        return self.const_mapping[attr]


class ScriptMembers:
    """Members of both ScriptModule and ScriptFunction."""

    graph: Graph
    code: str

    @property
    def inlined_graph(self) -> Graph:
        """The graph, in which nothing is a call of another function or module."""
        return self.graph

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """Call it with these arguments, and return the graph that ran."""
        graph = self.graph  # or the reason why there is none
        self(*args, **kwargs)
        return graph

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """Return what `save` writes to a file."""
        buffer = io.BytesIO()
        self.save(buffer, _extra_files=_extra_files)
        return buffer.getvalue()

    def get_debug_state(self) -> Any:
        """Refused: graphs run operation by operation, without plans that could be shown."""
        raise NotImplementedError(
            f"{type(self).__name__}.get_debug_state: graphs run operation by operation; there are "
            "no plans of an executor"
        )


class ModuleMembers(ScriptMembers):
    """Members of ScriptModule."""

    @property
    def original_name(self) -> str:
        """The name of the class that the module was made of."""
        source = self.__dict__.get("_script_source")
        if source is not None:
            return type(source).__name__
        return self.__dict__.get("_original_name", "ScriptModule")

    @property
    def code_with_constants(self) -> tuple[str, ConstMap]:
        """The program as Python source, and its constants by name."""
        code = self.code
        return code, ConstMap(dict(self._program.constants))

    @property
    def _c(self) -> ScriptObject:
        return ScriptObject(self)

    def define(self, src: str) -> None:
        """Add methods, given as source code, which run as Python.

        Args:
            src: definitions of functions, whose first argument is the module.

        Raises:
            RuntimeError: the source is not only that.
        """
        src = textwrap.dedent(src)
        try:
            functions = ast.parse(src).body
        except SyntaxError as error:
            raise RuntimeError(f"ScriptModule.define: {error}") from error
        if not functions or not all(isinstance(f, ast.FunctionDef) for f in functions):
            raise RuntimeError("ScriptModule.define: expected definitions of functions alone")
        names: dict[str, Any] = {"torch": rushlight, "Tensor": rushlight.Tensor}
        names.update({n: getattr(typing, n) for n in ("Dict", "List", "Optional", "Tuple")})
        exec(compile(src, "<ScriptModule.define>", "exec"), names)
        owner = self.__dict__.get("_script_source") or self  # whose submodules can be called
        for function in functions:
            self.__dict__[function.name] = types.MethodType(names[function.name], owner)

    def forward_magic_method(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the method of that name, as `len` calls `__len__`."""
        own = getattr(self, method_name)
        if getattr(own, "__func__", None) is getattr(type(self), method_name, own):
            raise NotImplementedError(f"ScriptModule.{method_name}: the module does not define it")
        return own(*args, **kwargs)


class _ScriptArgument(Argument):
    """An argument of a type that operations need not know."""

    def __init__(self, name: str, type: str, default: Any = inspect.Parameter.empty) -> None:
        self.name, self.type, self.alias_info, self.kwarg_only = name, type, None, False
        self._default = default


class FunctionMembers(ScriptMembers):
    """Members of ScriptFunction."""

    @property
    def name(self) -> str:
        """The name of the function that it was made of."""
        return self.original.__name__

    @property
    def qualified_name(self) -> str:
        """The name, as programs of TorchScript write it."""
        return f"__torch__.{self.name}"

    @property
    def schema(self) -> FunctionSchema:
        """The types of the arguments and the results.

        Raises:
            CompilationError: one has a type that TorchScript does not know.
        """
        hints = hints_of(self.original)
        arguments = [
            _ScriptArgument(name, _text(hints.get(name, rushlight.Tensor)), p.default)
            for name, p in inspect.signature(self.original).parameters.items()
        ]
        result = self._result_type() if "return" not in hints else _text(hints["return"])
        return FunctionSchema(self.name, "", arguments, [_ScriptArgument("", result)])

    def _result_type(self):
        if isinstance(self, Interpreted):
            raise MissingProgram(
                f"{self.name}: the type of the result is known of compiled functions, or where it "
                "is annotated"
            )
        program = self._module._program
        last = next(n for n in reversed(program.graph.nodes) if n.op == "output")
        names = [_type_of_result(leaf) for leaf in tree_leaves(last.args[0])]
        spec = program.out_spec
        return names[0] if spec.is_leaf() else f"({', '.join(names)})"


def _type_of_result(leaf):
    if not isinstance(leaf, Node):  # a number that the program always returns
        return _text(type(leaf))
    kind = leaf.meta.get("type") or "Tensor"
    return "Tensor[]" if kind == "tensors" else kind if isinstance(kind, str) else "Any"


def _text(hint):
    """A type as schemas write it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint is type(None):
        return "NoneType"
    if hint in _NAMES:
        return _NAMES[hint]
    if origin is list:
        return f"{_text(inner[0])}[]"
    if origin is tuple:
        return f"({', '.join(map(_text, inner))})"
    if origin is dict:
        return f"Dict({_text(inner[0])}, {_text(inner[1])})"
    if origin in (typing.Union, types.UnionType) and type(None) in inner and len(inner) == 2:
        return f"{_text(next(h for h in inner if h is not type(None)))}?"
    raise MissingProgram(f"jit: there is no type {hint} in schemas")


_NAMES: dict[Any, str] = {
    rushlight.Tensor: "Tensor", int: "int", float: "float", bool: "bool", str: "str",
    complex: "complex", rushlight.device: "Device", rushlight.dtype: "int",
}  # fmt: skip


class ScriptObject:
    """A traced or scripted module with its attributes by name, as the core of torch shows it."""

    def __init__(self, module: Any) -> None:
        self._module = module

    @property
    def qualified_name(self) -> str:
        """The name of the class, as programs of TorchScript write it."""
        return f"__torch__.{self._module.original_name}"

    @property
    def code(self) -> str:
        """The program as Python source."""
        return self._module.code

    @property
    def code_with_constants(self) -> tuple[str, ConstMap]:
        """The program as Python source, and its constants by name."""
        return self._module.code_with_constants

    def children(self) -> list[ScriptObject]:
        """The modules inside of it."""
        return [ScriptObject(child) for child in self._module.children()]

    def apply(self, fn: Callable[[ScriptObject], Any]) -> None:
        """Call a function with the modules inside of it, and then with itself."""
        self._module.apply(lambda module: fn(ScriptObject(module)))

    def hasattr(self, name: str) -> bool:
        """Is there an attribute of that name?"""
        return hasattr(self._module, name)

    def getattr(self, name: str) -> Any:
        """Return the attribute of that name."""
        return getattr(self._module, name)

    def setattr(self, name: str, value: Any) -> None:
        """Set the attribute of that name."""
        setattr(self._module, name, value)

    def get_debug_state(self) -> Any:
        """Refused: graphs run operation by operation, without plans that could be shown."""
        return self._module.get_debug_state()

    def save(self, filename: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write the program to a file: see `torch.jit.save`."""
        self._module.save(filename, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """Return what `save` writes to a file."""
        return self._module.save_to_buffer(_extra_files)

    def dump_to_str(self, code: bool = True, attrs: bool = True, params: bool = True) -> str:
        """Return what the module is made of, as text.

        Args:
            code: with the source of forward.
            attrs: with what buffers hold, and not their names alone.
            params: with what parameters hold.
        """
        lines = [f"module {self.qualified_name} {{"]
        for title, members, shown in (
            ("parameters", self._module.named_parameters(), params),
            ("attributes", self._module.named_buffers(), attrs),
        ):
            lines.append(f"  {title} {{")
            for name, value in members:
                text = f"    {name} = {value!r}" if shown else f"    {name}"
                lines += text.replace("\n", "\n    ").split("\n")
            lines.append("  }")
        if code:
            body = textwrap.indent(self.code.strip(), "    ").split("\n")
            lines += ["  methods {", *body, "  }"]
        return "\n".join([*lines, "}"]) + "\n"

    def dump(self, code: bool = True, attrs: bool = True, params: bool = True) -> None:
        """Print what `dump_to_str` returns."""
        print(self.dump_to_str(code, attrs, params), end="")


# The name that it has in `torch`, whose `torch.jit.ScriptModule` is another class.
ScriptModule = ScriptObject
ScriptObject.__name__ = ScriptObject.__qualname__ = "ScriptModule"
