"""Custom operations as functions of autograd.

An `autograd.Function` sees flat arguments and results, a formula those of the schema, among which
are lists of tensors.
"""

from __future__ import annotations

from rushlight.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor


class Formula:
    """A gradient as it was registered."""

    def __init__(
        self, backward: Callable[..., Any], setup_context: Callable[..., Any] | None
    ) -> None:
        self.backward, self.setup_context = backward, setup_context


class _Call:
    """One call: what to run on what, and how its flat arguments and results are grouped."""

    def __init__(self, op: Any, kernel: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.op, self.formula = op, op.gradient
        self.kernel, self.args, self.kwargs = kernel, args, kwargs
        self.groups = [
            len(value) if argument.is_list_of_tensors and value is not None else None
            for argument, value in zip(op._positional, args)
        ]

    def flat_arguments(self) -> list[Any]:
        """The positional arguments, lists of tensors spread out."""
        flat = []
        for value, size in zip(self.args, self.groups):
            flat.extend([value] if size is None else value)
        return flat

    def flat_results(self, output: Any) -> tuple[Any, ...]:
        """The results, lists spread out; remembers how they were grouped."""
        self.is_single = len(self.op._schema.returns) == 1 and not isinstance(output, tuple)
        values = [output] if self.is_single else output
        self.result_groups = [len(v) if isinstance(v, (list, tuple)) else None for v in values]
        flat = []
        for value, size in zip(values, self.result_groups):
            flat.extend([value] if size is None else value)
        return tuple(flat)

    def results(self, flat: Sequence[Any]) -> Tensor | tuple[Tensor, list[Tensor], int]:
        """What the caller gets, of the flat results."""
        grouped = _grouped(flat, self.result_groups)
        return grouped[0] if self.is_single else tuple(grouped)

    def flat_gradients(self, given: Sequence[Any] | Tensor) -> list[Any]:
        """For each flat argument, what the formula returns for it."""
        op, given = self.op, given if isinstance(given, tuple) else (given,)
        while len(given) > len(self.groups) and given[-1] is None:
            given = given[:-1]
        if len(given) > len(self.groups):
            raise RuntimeError(
                f"{op.name()}: its backward returned {len(given)} gradients for "
                f"{len(self.groups)} arguments"
            )
        flat = []
        for i, (argument, size) in enumerate(zip(op._positional, self.groups)):
            grad = given[i] if i < len(given) else None
            if grad is not None and not argument.is_of_tensors:
                raise RuntimeError(
                    f"{op.name()}: its backward returned a gradient for '{argument.name}', which "
                    f"is of type {argument.type}: None belongs there"
                )
            if size is None:
                flat.append(grad)
                continue
            grads = [None] * size if grad is None else list(grad)
            if len(grads) != size:
                raise RuntimeError(
                    f"{op.name()}: its backward returned {len(grads)} gradients for the {size} "
                    f"tensors of '{argument.name}'"
                )
            flat.extend(grads)
        return flat


def _grouped(flat, groups):
    rest = iter(flat)
    return [next(rest) if n is None else [next(rest) for _ in range(n)] for n in groups]


def _forward(ctx, call, *flat):
    op, formula = call.op, call.formula
    output = op.compute(call.kernel, call.args, call.kwargs)
    results = call.flat_results(output)
    ctx._call = call
    needed = _grouped(ctx.needs_input_grad[1:], call.groups)
    ctx.needs_input_grad = tuple(needed)
    if formula is not None and formula.setup_context is not None:
        given = {"inputs": tuple(call.args), "output": output}
        if op._keywords:
            given["keyword_only_inputs"] = call.kwargs
        formula.setup_context(ctx, **given)
    call.args = call.kwargs = call.kernel = None  # the formula has saved what it needs
    return results


def _backward(ctx, *grads):
    call = ctx._call
    if call.formula is None:
        raise RuntimeError(
            f"Trying to backward through {call.op} but no autograd formula was registered. "
            "register_autograd adds one."
        )
    return None, *call.flat_gradients(
        call.formula.backward(ctx, *_grouped(grads, call.result_groups))
    )


def differentiable(
    op: Any, kernel: Callable[..., Any], args: Any, kwargs: Any
) -> Tensor | tuple[Tensor, list[Tensor], int]:
    """Run the kernel as a node of the graph."""
    if op.node is None:
        name = f"GeneratedBackwardFor_{op.namespace}_{op._opname}_{op._overloadname}"
        members = {"forward": staticmethod(_forward), "backward": staticmethod(_backward)}
        op.node = type(name, (Function,), members)
    call = _Call(op, kernel, args, kwargs)
    flat = op.node.apply(call, *call.flat_arguments())
    return call.results(flat)
