"""Noting the shapes and dtypes of all values without computing them."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import map_aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.node import Node

__all__ = ["FakeTensorProp"]


def _without_data(value):
    return map_aggregate(value, lambda v: v.to("meta") if isinstance(v, Tensor) else v)


class FakeTensorProp(Interpreter):
    """Runs a graph on tensors of the meta device and notes them in `meta["val"]` of the nodes.

    Args:
        module: the module; its parameters stay where they are.
        mode: None: there are no fake modes.

    Raises: NotImplementedError for another mode.

    Example:
        >>> from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp
        >>> traced = torch.fx.symbolic_trace(nn.Linear(4, 2))
        >>> FakeTensorProp(traced).propagate(torch.rand(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(self, module: GraphModule, mode: Any = None) -> None:
        if mode is not None:
            raise NotImplementedError(
                "FakeTensorProp: there are no fake modes; without one, tensors are of the meta "
                "device"
            )
        super().__init__(module)

    def call_module(self, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the result of a submodule with its parameters on the meta device."""
        module = self.fetch_attr(target)
        named = [*module.named_parameters(), *module.named_buffers()]
        state = {name: _without_data(value) for name, value in named}
        return rushlight.func.functional_call(module, state, args, kwargs)

    def get_attr(self, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module, a tensor on the meta device."""
        return _without_data(super().get_attr(target, args, kwargs))

    def run_node(self, n: Node) -> Any:
        with rushlight.device("meta"):
            result = super().run_node(n)
        if result is not None:
            n.meta["val"] = map_aggregate(
                result, lambda v: v if isinstance(v, (Tensor, int, float, bool)) else None
            )
        return result

    def propagate(self, *args: Any) -> Any:
        """Run on the meta twins of the arguments and return the output."""
        return self.propagate_dont_convert_inputs(*_without_data(args))

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run on arguments that are of the meta device."""
        return self.run(*args)
