"""Custom Functions with `generate_vmap_rule`: all examples in one call of each of their methods."""

from __future__ import annotations

import rushlight
from rushlight.autograd.function import Function, FunctionCtx
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.func._vmap import Level


class _ContextOfOne(FunctionCtx):
    """What the methods of the Function take for their context: it knows one example."""

    materialize_grads = True
    to_save: Sequence[Any] = ()
    saved_for_forward: Sequence[Any] = ()
    dirty_tensors: Sequence[Any] = ()
    non_differentiable: Sequence[Any] = ()
    saved_tensors: Sequence[Any] = ()
    needs_input_grad: Sequence[bool] = ()


class _Mapped(Function):
    """A Function of the examples of all arguments, whose methods run inside of the level."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *values: Any) -> Any:
        return call.forward(ctx, values)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *ctx.call.backward(ctx, grads)


class _MappedWithJvp(_Mapped):
    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        return ctx.call.jvp(ctx, tangents)


class _Call:
    """One call of a Function inside of a level of vmap."""

    def __init__(self, level: Level, cls: Any, args: Any) -> None:
        self._level, self._cls = level, cls
        self.is_mapped = [level.examples(a) is not None for a in args]
        self.values = self._examples(args)  # what is in lists has no gradient
        self._sizes = [one.shape if m else None for one, m in zip(args, self.is_mapped)]
        self._one = _ContextOfOne()

    def _examples(self, values):
        return [v if (f := self._level.examples(v)) is None else f for v in values]

    def _one_of_each(self, values, mapped):
        return [
            self._level.batched_tensor(v) if m and isinstance(v, rushlight.Tensor) else v
            for v, m in zip(values, mapped)
        ]

    def forward(self, ctx, values):
        args = tuple(self._one_of_each(values, self.is_mapped))
        output = self._level.run_inside(self._cls.forward, args, {})
        self._level.run_inside(self._cls.setup_context, (self._one, args, output), {})
        one = self._one
        if one.dirty_tensors:
            raise NotImplementedError(
                f"vmap: {self._cls.__name__} changes arguments in place (mark_dirty): write its "
                "vmap method"
            )
        outputs, self.output_structure = tree_flatten(output)
        self.is_output_mapped = [self._level.examples(o) is not None for o in outputs]
        self._is_saved_mapped = [
            [self._level.examples(t) is not None for t in saved]
            for saved in (one.to_save, one.saved_for_forward)
        ]
        ctx.call = self
        ctx.save_for_backward(*self._examples(one.to_save))
        ctx.save_for_forward(*self._examples(one.saved_for_forward))
        ctx.mark_non_differentiable(*self._examples(one.non_differentiable))
        ctx.set_materialize_grads(one.materialize_grads)
        one.to_save = one.saved_for_forward = one.non_differentiable = ()
        return tuple(self._examples(outputs))

    def backward(self, ctx, grads):
        self._restore(ctx, self._is_saved_mapped[0])
        self._one.needs_input_grad = tuple(ctx.needs_input_grad[1:])
        name = "backward" if self._cls.backward is not Function.backward else "vjp"
        found = self._run(getattr(self._cls, name), grads, self.is_output_mapped)
        return [self._gradient(g, size) for g, size in zip(found, self._sizes)]

    def jvp(self, ctx, tangents):
        self._restore(ctx, self._is_saved_mapped[1])
        found = self._run(self._cls.jvp, tangents, self.is_mapped)
        return tuple(
            self._level.all_examples(t) if m and t is not None else t
            for t, m in zip(found, self.is_output_mapped)
        )

    def _restore(self, ctx, mapped):
        self._one.saved_tensors = tuple(self._one_of_each(ctx.saved_tensors, mapped))

    def _run(self, method, given, mapped):
        found = self._level.run_inside(method, (self._one, *self._one_of_each(given, mapped)), {})
        self._one.saved_tensors = ()
        return found if isinstance(found, tuple) else (found,)

    def _gradient(self, gradient, size):
        """That of an argument; of a mapped one, an example has this size, to which it is summed."""
        if gradient is None:
            return None
        examples = self._level.examples(gradient)
        if size is None:  # the argument is the same for all
            return gradient if examples is None else examples.sum(0)
        found = self._level.all_examples(gradient)
        if gradient.shape == size:
            return found
        missing = gradient.dim() - len(size)
        return found.sum_to_size(len(found), *[1] * missing, *size).reshape(len(found), *size)


def apply_mapped(level: Level, cls: Any, args: Any) -> Any:
    """The outputs of a Function for all examples of a level, each as one of them."""
    call = _Call(level, cls, args)
    function = _Mapped if cls.jvp is Function.jvp else _MappedWithJvp
    found = function.apply(call, *call.values)
    outputs = call._one_of_each(found, call.is_output_mapped)
    return tree_unflatten(outputs, call.output_structure)
