"""Pictures of graphs, by the library pydot."""

from __future__ import annotations

import hashlib
import itertools

import rushlight
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import _format_arg, _get_qualified_name
from rushlight.fx.operator_schemas import normalize_function
from rushlight.fx.passes.shape_prop import TensorMetadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": '"AliceBlue"', "call_module": "LemonChiffon1", "get_param": "Yellow2",
    "get_attr": "LightGrey", "output": "PowderBlue",
}  # fmt: skip
# Of calls of functions and methods; which one, a hash of the target's name tells.
_COLORS_OF_CALLS = (
    "CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1",
    "LavenderBlush1", "LightSkyBlue", "MistyRose1", "MistyRose2", "PaleTurquoise2", "PeachPuff1",
    "Salmon", "Thistle1", "Thistle3", "Wheat1",
)  # fmt: skip
_STYLE = {"style": '"filled,rounded"', "fontcolor": "#000000"}


def _pydot():
    try:
        import pydot
    except ModuleNotFoundError:
        raise RuntimeError(
            "FxGraphDrawer needs the library pydot, which is not installed"
        ) from None
    return pydot


def _escaped(text):
    return text.replace("{", r"\{").replace("}", r"\}")


def _row(name, value):
    return f"|{name}={value}\\n"


class FxGraphDrawer:
    """Draws the graph of a module, and of the graph modules that it calls.

    Args:
        graph_module: the module.
        name: name of the picture; that of a called module's has its path behind.
        ignore_getattr: leave out the nodes that fetch attributes.
        ignore_parameters_and_buffers: leave out those of modules that are called.
        skip_node_names_in_args: show of arguments only the constants.
        parse_stack_trace: show the line of the program that made a node.
        dot_graph_shape: shape of the nodes, by default "record".
        normalize_args: show arguments with their names, and defaults.

    Raises: RuntimeError if the library pydot is not installed.
    """

    normalize_args: bool

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        self._library = _pydot()
        self._name, self.normalize_args = name, normalize_args
        self.dot_graph_shape: str = "record" if dot_graph_shape is None else dot_graph_shape
        self._ignore_getattr, self._ignore_state = ignore_getattr, ignore_parameters_and_buffers
        self._skip_names, self._with_lines = skip_node_names_in_args, parse_stack_trace
        self._dot_graphs = {name: self._to_dot(graph_module, name)}
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                called, of_it = graph_module.get_submodule(node.target), f"{name}_{node.target}"
                if isinstance(called, GraphModule):
                    self._dot_graphs[of_it] = self._to_dot(called, of_it)

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The picture as a `pydot.Dot`: of the module, or of one that it calls, by its path."""
        return self.get_submod_dot_graph(submod_name) if submod_name else self.get_main_dot_graph()

    def get_main_dot_graph(self) -> Any:
        """The picture of the module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """The picture of a graph module that it calls."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """All pictures, by name."""
        return self._dot_graphs

    # -- nodes -----------------------------------------------------------------------------------

    def _get_node_style(self, node):
        color = _COLORS.get(node.op)
        if color is None:
            name = node._pretty_print_target(node.target).encode()
            digest = hashlib.md5(name, usedforsecurity=False).hexdigest()
            color = _COLORS_OF_CALLS[int(digest[:8], 16) % len(_COLORS_OF_CALLS)]
        return {"shape": self.dot_graph_shape, "fillcolor": color, **_STYLE}

    def _typename(self, target):
        if isinstance(target, rushlight.nn.Module):
            return _escaped(rushlight.typename(target))
        return _escaped(target if isinstance(target, str) else _get_qualified_name(target))

    def _arguments(self, begin, end, texts):
        if self._skip_names:
            texts = [text for text in texts if "%" not in text]
        if not texts:
            return ""
        if len(texts) == 1:
            line_break = ""
        else:
            line_break = r"\l"
        inner = (r",\n" if line_break else ",").join(texts)
        after = r",\n" if line_break else ","
        return _escaped(f"{begin}{line_break}{inner}{after}{end}{line_break}")

    def _get_node_label(self, module, node):
        label = f"{{name=%{node.name}|op_code={node.op}\n"
        if node.op == "call_module":
            called = module.get_submodule(node.target)
            constants = (f"{c}: {getattr(called, c)}" for c in getattr(called, "__constants__", ()))
            label += rf"\n{self._typename(called)}\n|" + r"\n".join(constants) + r"\n"
        else:
            label += _row("target", self._typename(node.target))
            args, kwargs = self._given(node)
            listed = [_format_arg(a, max_list_len=8) for a in args]
            label += self._arguments("|args=(", ")", listed)
            named = [f"{k}: {_format_arg(v, max_list_len=8)}" for k, v in kwargs.items()]
            label += self._arguments("|kwargs={", "}", named)
            label += _row("num_users", len(node.users))
        label += self._tensor_meta_to_label(node.meta.get("tensor_meta"))
        if self._with_lines and node.stack_trace:
            label += _row("file", node.stack_trace.strip().splitlines()[-1])
        return label + "}"

    def _given(self, node):
        if self.normalize_args and node.op == "call_function":
            try:
                found = normalize_function(
                    node.target, node.args, node.kwargs, normalize_to_only_use_kwargs=True
                )
            except (RuntimeError, TypeError, ValueError):
                found = None  # what has no one signature is shown as it is called
            if found is not None:
                return found
        return node.args, node.kwargs

    def _tensor_meta_to_label(self, meta):
        if meta is None:
            return ""
        if isinstance(meta, TensorMetadata):
            return "".join(
                _row(name, value)
                for name, value in (
                    ("dtype", meta.dtype), ("shape", tuple(meta.shape)),
                    ("requires_grad", meta.requires_grad), ("stride", meta.stride),
                )
            )  # fmt: skip
        if isinstance(meta, dict):
            meta = meta.values()
        elif not isinstance(meta, (list, tuple)):
            raise RuntimeError(f"FxGraphDrawer: tensor_meta is a {type(meta).__name__}")
        return "".join(map(self._tensor_meta_to_label, meta))

    # -- graphs ----------------------------------------------------------------------------------

    def _to_dot(self, graph_module, name):
        picture = self._library.Dot(name, rankdir="TB")
        shown = [
            n for n in graph_module.graph.nodes if not (self._ignore_getattr and n.op == "get_attr")
        ]
        for node in shown:
            label = self._get_node_label(graph_module, node)
            picture.add_node(
                self._library.Node(node.name, label=label, **self._get_node_style(node))
            )
            if node.op == "call_module" and not self._ignore_state:
                called = graph_module.get_submodule(node.target)
                if not isinstance(called, GraphModule):
                    self._add_state(picture, node, called)
        for node in shown:
            for user in node.users:
                picture.add_edge(self._library.Edge(node.name, user.name))
        return picture

    def _add_state(self, picture, node, module):
        style = {"shape": self.dot_graph_shape, "fillcolor": "Salmon", **_STYLE}
        for name, tensor in itertools.chain(module.named_parameters(), module.named_buffers()):
            path = f"{node.name}.{name}"
            kind = "parameter" if isinstance(tensor, rushlight.nn.Parameter) else "buffer"
            label = rf"{{{path}|op_code=get_{kind}{tensor.dtype}{list(tensor.shape)}\n}}"
            picture.add_node(self._library.Node(path, label=label, **style))
            picture.add_edge(self._library.Edge(path, node.name))
