"""Which module an operation of a recorded program is of: `meta["nn_module_stack"]` of its node."""

from __future__ import annotations

import contextlib

from rushlight import Tensor
from rushlight.export._symbols import is_symbol
from rushlight.export.exported_program import ModuleCallEntry, ModuleCallSignature
from rushlight.export.graph_signature import ConstantArgument, SymIntArgument, TensorArgument
from rushlight.fx._symbolic_trace import _Patcher
from rushlight.nn import Module
from rushlight.utils._pytree import tree_flatten, tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from rushlight.export._record import Recorder


def leaves_of(value: Any) -> list[Any]:
    """The leaves of what a module returned: a call of this is in graphs of unflattened programs."""
    return tree_leaves(value)


class ModuleCalls:
    """Notes the calls of a module's submodules while it is recorded.

    Args:
        recorder: holds the graph.
        root: the module.
        preserved: paths of the modules whose arguments and results are noted too.
    """

    def __init__(self, recorder: Recorder, root: Module, preserved: Collection[str]) -> None:
        self.recorder, self.preserved = recorder, preserved
        self._paths = {id(module): path for path, module in root.named_modules()}
        self._counts: dict[str, int] = {}
        self._sizes: dict[str, Any] = {}  # {name of a node: the number that it was}
        self.entries = [ModuleCallEntry(path) for path in self._paths.values() if path]

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """A context in which calls are noted."""
        own_call = Module.__call__

        def call(module, *args, **kwargs):
            path = self._paths.get(id(module))
            if path is None:
                return own_call(module, *args, **kwargs)
            return self._call(path, module, own_call, args, kwargs)

        with _Patcher() as patcher:
            patcher.patch_method(Module, "__call__", call)
            yield

    def _call(self, path, module, own_call, args, kwargs):
        count = self._counts.get(path, 0)
        self._counts[path] = count + 1
        name = f"{path}@{count}" if count else path
        graph = self.recorder.graph
        last = graph._root._prev
        result = own_call(module, *args, **kwargs)
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        node = graph._root._prev
        while node is not last and node is not graph._root:
            if node.op != "placeholder":
                inner = node.meta.get("nn_module_stack", {})
                node.meta["nn_module_stack"] = {name: (name, kind), **inner}
            node = node._prev
        if path in self.preserved:
            self._note_signature(name, args, kwargs, result)
        return result

    def _note_signature(self, name, args, kwargs, result):
        inputs, in_spec = tree_flatten((args, kwargs))
        outputs, out_spec = tree_flatten(result)
        signature = ModuleCallSignature(
            list(map(self._argument, inputs)), list(map(self._argument, outputs)), in_spec, out_spec
        )
        known = next((e for e in self.entries if e.fqn == name), None)
        if known is None:
            self.entries.append(ModuleCallEntry(name, signature))
        else:
            known.signature = signature

    def resolved(self) -> list[ModuleCallEntry]:
        """The entries, with constants for values that the graph does not compute after all: sizes
        that did not change, and None for what nothing uses.
        """
        names = {node.name for node in self.recorder.graph.nodes}

        def constant(argument):
            known = isinstance(argument, ConstantArgument) or argument.name in names
            return argument if known else ConstantArgument("", self._sizes.get(argument.name))

        for entry in self.entries:
            if entry.signature is not None:
                entry.signature.inputs = list(map(constant, entry.signature.inputs))
                entry.signature.outputs = list(map(constant, entry.signature.outputs))
        return self.entries

    def _argument(self, value):
        if isinstance(value, Tensor):
            return TensorArgument(self.recorder.node_of(value).name)
        if is_symbol(value):
            self._sizes[value.node.name] = value.hint
            return SymIntArgument(value.node.name)
        return ConstantArgument("", value)
