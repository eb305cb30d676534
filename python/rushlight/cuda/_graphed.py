"""What `make_graphed_callables` makes of a callable."""

from __future__ import annotations

import rushlight
from rushlight.autograd.function import once_differentiable
from rushlight.cuda.graphs import CUDAGraph, graph
from rushlight.nn.modules.module import Module
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Graphed:
    """A callable with the graphs of its forward and its backward, and the memory they work in."""

    def __init__(self, function: Any, args: tuple[Any, ...], allow_unused: bool) -> None:
        self.function, self.allow_unused = function, allow_unused
        self.is_module = isinstance(function, Module)
        self.call = function.forward if self.is_module else function
        if self.is_module:
            _check_module(function)
        self.args, self.args_spec = tree_flatten(args)
        if not all(isinstance(arg, rushlight.Tensor) for arg in self.args):
            raise TypeError(
                "make_graphed_callables: sample_args must hold tensors alone, in tuples, lists or "
                "dicts"
            )
        parameters = tuple(function.parameters()) if self.is_module else ()
        self.inputs = (*self.args, *parameters)
        self.wanted = [t for t in self.inputs if t.requires_grad]

    def run(self) -> Any:
        outputs = tree_unflatten(self.args, self.args_spec)
        return self.call(*outputs)

    def warm_up(self, count: int) -> None:
        for _ in range(count):
            outputs = [t for t in tree_leaves(self.run()) if t.requires_grad]
            if outputs and self.wanted:
                self.differentiate(outputs, [rushlight.empty_like(t) for t in outputs])

    def differentiate(self, outputs: Any, grads: Any) -> Any:
        return rushlight.autograd.grad(outputs, self.wanted, grads, allow_unused=self.allow_unused)

    def capture_forward(self, pool: Any) -> None:
        self.forward_graph = CUDAGraph()
        with graph(self.forward_graph, pool=pool):
            self.outputs, self.outputs_spec = tree_flatten(self.run())

    def capture_backward(self, pool: Any) -> None:
        self.grads = [rushlight.empty_like(t) if t.requires_grad else None for t in self.outputs]
        outputs = [t for t in self.outputs if t.requires_grad]
        found = iter(())
        self.backward_graph = None
        if outputs and self.wanted:
            self.backward_graph = CUDAGraph()
            with graph(self.backward_graph, pool=pool):
                found = iter(self.differentiate(outputs, [g for g in self.grads if g is not None]))
        self.input_grads = [next(found, None) if t.requires_grad else None for t in self.inputs]
        self.outputs = [t.detach() for t in self.outputs]  # what backward needs is in the graph

    def replay(self, inputs: Any) -> tuple[Any, ...]:
        for own, given in zip(self.args, inputs):
            if own.data_ptr() != given.data_ptr():
                own.detach().copy_(given)
        self.forward_graph.replay()
        return tuple(t.detach() for t in self.outputs)

    def replay_backward(self, grads: Any) -> tuple[Any, ...]:
        for own, given in zip(self.grads, grads):
            if own is not None and own.data_ptr() != given.data_ptr():
                own.copy_(given)
        if self.backward_graph is not None:
            self.backward_graph.replay()
        return tuple(None if t is None else t.detach() for t in self.input_grads)

    def graphed(self) -> Any:
        """The function that replays, with the arguments and results of the callable."""
        whole = self

        class Replay(rushlight.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                outputs = whole.replay(inputs)
                ctx.mark_non_differentiable(*(t for t, g in zip(outputs, whole.grads) if g is None))
                return outputs

            @staticmethod
            @once_differentiable
            def backward(ctx: Any, *grads: Any) -> Any:
                return whole.replay_backward(grads)

        parameters = self.inputs[len(self.args) :]

        def call(*args: Any) -> Any:
            given, spec = tree_flatten(args)
            if spec != self.args_spec:
                raise TypeError(
                    "a graphed callable takes arguments like those that it was captured with"
                )
            return tree_unflatten(list(Replay.apply(*given, *parameters)), self.outputs_spec)

        if not self.is_module:
            return call
        return self.replace_forward(call)

    def replace_forward(self, call: Any) -> Any:
        module, original, training = self.function, self.call, self.function.training

        def forward(*args: Any) -> Any:
            # What was captured in training is not what evaluation computes, and the other way.
            return (call if module.training == training else original)(*args)

        module.forward = forward
        return module


def _check_module(module):
    hooks = (module._backward_hooks, module._forward_hooks, module._forward_pre_hooks)
    if any(map(len, hooks)):
        raise RuntimeError(
            "Modules must not have hooks registered at the time they are passed. However, "
            "registering hooks on modules after passing them through make_graphed_callables is "
            "allowed."
        )
    if any(t.requires_grad for t in module.buffers()):
        raise RuntimeError(
            "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only "
            "parameters may be trainable. All buffers must have ``requires_grad=False``."
        )
