"""Observers in a graph: after results, before what needs another dtype, and shared ones."""

from __future__ import annotations

import builtins

import rushlight
from rushlight._absent_dtypes import qint8, qint32, quint8
from rushlight.ao.quantization.backend_config.backend_config import ObservationType
from rushlight.ao.quantization.fx._fusion import set_submodule
from rushlight.ao.quantization.fx._matching import Match
from rushlight.ao.quantization.fx._qconfigs import _bias_dtype, is_supported, placeholder
from rushlight.ao.quantization.observer import (
    NoopObserver,
    ReuseInputObserver,
    _is_activation_post_process,
    _PartialWrapper,
)
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.nn.utils import parametrize as _parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OBSERVED = (
    quint8, qint8, qint32, rushlight.float16, rushlight.uint8, rushlight.int8, rushlight.int16,
    rushlight.int32,
)  # fmt: skip
_FLOAT = placeholder(rushlight.float32)


class _Wanted:
    """The observers that a node wants: of its input, weight, bias and result."""

    def __init__(self, input=_FLOAT, weight=_FLOAT, bias=_FLOAT, output=_FLOAT):
        self.input, self.weight, self.bias, self.output = input, weight, bias, output


def _wanted_by(qconfig):
    activation = qconfig.activation()
    dynamic = getattr(activation, "is_dynamic", False)
    return _Wanted(
        qconfig.activation, qconfig.weight, placeholder(_bias_dtype(qconfig)),
        _FLOAT if dynamic else qconfig.activation,
    )  # fmt: skip


def _is_reuse(qconfig):
    activation = qconfig.activation
    while isinstance(activation, _PartialWrapper):
        activation = activation.p
    activation = getattr(activation, "func", activation)
    return activation is ReuseInputObserver or isinstance(activation, ReuseInputObserver)


class ObserverPlacer:
    """Puts observers into a graph, in place.

    Args:
        model: whose graph it is.
        matches: the match of each node that a pattern has.
        qconfigs: the qconfig of each node.
        indexes: for each function, which argument is the weight, and which the bias.
        quantized_inputs: the places of inputs that come quantized.
        custom: classes that stand for others while they are observed.
    """

    def __init__(
        self,
        model: GraphModule,
        matches: dict[Node, Match],
        qconfigs: dict[Node, Any],
        indexes: dict[Any, dict[str, int]],
        quantized_inputs: list[int],
        custom: dict[Any, Any],
    ) -> None:
        self.model, self.matches, self.qconfigs = model, matches, qconfigs
        self.indexes, self.custom = indexes, custom
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.observed: set[str] = set()  # names of the nodes that are quantized
        self.wanted: dict[Node, _Wanted] = {}
        inputs = [node for node in model.graph.nodes if node.op == "placeholder"]
        for place in quantized_inputs:
            self.wanted[inputs[place]] = _Wanted(output=placeholder(quint8))
        self._tensorless: dict[Node, bool] = {}

    def place(self) -> None:
        """Insert all observers."""
        nodes = list(self.model.graph.nodes)
        active = [
            node for node in nodes
            if node in self.matches and self.qconfigs.get(node) is not None
            and not self._has_no_tensors(node) and self._is_supported(node)
        ]  # fmt: skip
        for node in active:
            if self.matches[node].observation() is not ObservationType.INPUT_OUTPUT_NOT_OBSERVED:
                self.wanted[node] = _wanted_by(self.qconfigs[node])
        for node in active:
            self._observe(node)

    def _is_supported(self, node):
        match = self.matches[node]
        if match.config.observation_type is None:  # a custom module
            return True
        indexes = (
            self.indexes.get(match.root.target, {}) if match.root.op == "call_function" else {}
        )
        return is_supported(match, self.qconfigs[node], indexes)

    def _has_no_tensors(self, node):
        """Are all arguments numbers, as sizes are?"""
        if node not in self._tensorless:
            self._tensorless[node] = self._compute_tensorless(node)
        return self._tensorless[node]

    def _compute_tensorless(self, node):
        if node.op in ("placeholder", "get_attr", "call_module"):
            return False
        if node.op == "call_function" and node.target is builtins.getattr:
            return node.args[1] in ("ndim", "shape")
        if node.op == "call_method" and node.target == "size":
            return True
        return all(self._has_no_tensors(arg) for arg in node.all_input_nodes)

    def _observe(self, node):
        qconfig, match = self.qconfigs[node], self.matches[node]
        self.observed.add(node.name)
        self.observed.update(one.name for one in match.nodes)
        if node in self.wanted:
            self._observe_inputs(node)
        if node is not match.last:
            return
        new = self._observe_result(node)
        kind = (
            _parametrize.type_before_parametrizations(self.modules.get(node.target))
            if node.op == "call_module"
            else None
        )
        if new is not None:
            shared = match.observation() is ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
            if (shared and self._is_in_graph(node)) or _is_reuse(qconfig):
                if not self._share(node):
                    new.replace_all_uses_with(node)
                    self.model.graph.erase_node(new)
            if kind in self.custom:
                module = self.custom[kind].from_float(self.modules[node.target])
                set_submodule(self.model, node.target, module)
                self.modules[node.target] = module

    # -- inputs ----------------------------------------------------------------------------------

    def _observe_inputs(self, node):
        def observed(arg, place):
            if isinstance(arg, (list, tuple)):
                return type(arg)([observed(part, place) for part in arg])
            if not isinstance(arg, Node) or self._has_no_tensors(arg):
                return arg
            return self._observed_input(node, arg, place)

        node.args = tuple(observed(arg, place) for place, arg in enumerate(node.args))
        node.kwargs = {name: observed(arg, name) for name, arg in node.kwargs.items()}

    def _constructor(self, node, place):
        wanted = self.wanted[node]
        indexes = self.indexes.get(node.target, {}) if node.op == "call_function" else {}
        if place in (indexes.get("weight"), "weight"):
            return wanted.weight
        if place in (indexes.get("bias"), "bias"):
            return wanted.bias
        return wanted.input

    def _observed_input(self, node, arg, place):
        observer = self._constructor(node, place)()
        dtype = getattr(observer, "dtype", None)
        if getattr(observer, "is_dynamic", False):
            needed = place == 0
        elif _is_reuse(self.qconfigs[node]):
            needed = False
        else:
            before = self._result_dtype(arg)
            needed = (
                dtype in _OBSERVED
                and before in (*_OBSERVED, rushlight.float32)
                and dtype != before
                and not isinstance(observer, NoopObserver)
            )
        if not needed:
            return arg
        for user in arg.users:
            if user.op == "call_module":
                module = self.modules.get(user.target)
                if type(module) is type(observer) and module.dtype == dtype:
                    return user
        return self._insert(arg, observer)

    def _result_dtype(self, node):
        if node.op == "call_module" and _is_activation_post_process(self.modules.get(node.target)):
            return self.modules[node.target].dtype
        wanted = self.wanted.get(node)
        if wanted is None or (node not in self.matches and node.op != "placeholder"):
            return rushlight.float32
        return wanted.output().dtype

    def _insert(self, node, observer):
        count = 0
        while hasattr(self.model, f"activation_post_process_{count}"):
            count += 1
        name = f"activation_post_process_{count}"
        setattr(self.model, name, observer.train(self.model.training))
        self.modules[name] = observer
        with self.model.graph.inserting_after(node):
            return self.model.graph.create_node("call_module", name, (node,), {})

    # -- results ---------------------------------------------------------------------------------

    def _observe_result(self, node):
        wanted = self.wanted.get(node)
        if wanted is None:
            return None
        observer = wanted.output()
        if getattr(observer, "is_dynamic", False) or observer.dtype not in _OBSERVED:
            return None
        new = self._insert(node, observer)
        for user in list(node.users):
            if user is not new:
                user.replace_input_with(node, new)
        return new

    def _is_in_graph(self, node):
        """False where the first argument is an input of the model and stays what it is."""
        first = node.args[0] if node.args else None
        return not (
            isinstance(first, Node) and first.op == "placeholder"
            and self._result_dtype(node) in (quint8, rushlight.uint8)
        )  # fmt: skip

    def _observer_above(self, node):
        """The nearest observer that a node's first argument comes from."""
        while isinstance(node, Node):
            module = self.modules.get(node.target) if node.op == "call_module" else None
            if _is_activation_post_process(module):
                return node
            if node.op == "placeholder":
                return None
            node = next((arg for arg in node.args if isinstance(arg, Node)), None)
        return None

    def _share(self, node):
        """Let inputs and result have the first input's observer; False where there is none."""
        first = next((arg for arg in node.args if isinstance(arg, (Node, list, tuple))), None)
        parts = list(first) if isinstance(first, (list, tuple)) else [first]
        places = [self._observer_above(part) for part in parts]
        if not places or None in places:
            return False
        observer = self.modules[places[0].target]
        for place in [*places[1:], *node.users]:
            set_submodule(self.model, place.target, observer)
            self.modules[place.target] = observer
        return True
