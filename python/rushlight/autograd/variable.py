"""`Variable`, the name that tensors with gradients had before they became one with `Tensor`.

`Variable(x)` gives a tensor. The flag `volatile`, for inference, is kept with its rules: it may not
be combined with `requires_grad`; an op with a single volatile input has volatile outputs, whatever
the flags of its other inputs; and a volatile result requires no gradient and saves nothing for
backward. What is changed in place by an op with a volatile input becomes volatile too. So a
volatile input is enough to evaluate a model without touching its parameters. `x.volatile = True`
marks a leaf; `x.data` of a volatile tensor is not volatile.
"""

from __future__ import annotations

import rushlight
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor


class _Engine:
    """The engine of backward passes, by the name under which programs ask it for more."""

    @staticmethod
    def queue_callback(callback: Callable[[], object]) -> None:
        """Call `callback` when the backward pass of this thread has ended without an error.

        Raises:
            RuntimeError: none runs.
        """
        _C.queue_callback(callback)

    @staticmethod
    def run_backward(
        tensors: Sequence[Tensor], grad_tensors: Sequence[Tensor | None], keep_graph: bool,
        create_graph: bool, inputs: Sequence[Tensor] = (), allow_unreachable: bool = False,
        accumulate_grad: bool = False,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """What `autograd.grad` and `autograd.backward` call: see these."""
        return _C.run_backward(
            tuple(tensors), tuple(grad_tensors), keep_graph, create_graph, tuple(inputs),
            allow_unreachable, accumulate_grad,
        )  # fmt: skip


class VariableMeta(type):
    """The class of `Variable`: every tensor is an instance of it."""

    _execution_engine = _Engine

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, rushlight.Tensor)


class Variable(metaclass=VariableMeta):
    """Return a leaf that shares the values of `data`.

    Args:
        data: a tensor.
        requires_grad: record the ops that use it.
        volatile: for inference only, see above.
    """

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Self:
        if data is None:
            data = rushlight.empty(0)
        if not isinstance(data, rushlight.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile and requires_grad:
            raise ValueError("a Variable can't be volatile and require a gradient at the same time")
        variable = data.detach()
        if variable.volatile or volatile:
            variable.volatile = volatile
        return variable.requires_grad_(requires_grad)
