"""Gradients of tensors of carried dtypes: the history of such a tensor is that of its numbers.

A float of 8 bits, or a complex32, that needs a gradient has `_history`: its numbers, as an
ordinary tensor that operations record. A gradient that reaches it is rounded to the dtype, as one
of that dtype would be.
"""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._carried._codecs import bits_of, numbers_of
from rushlight._carried._tensor import CarriedTensor, make, plain
from rushlight.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Rounded(Function):
    """The numbers that a dtype has for these."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor, dtype: Any) -> Tensor:
        ctx.dtype, ctx.came_as = dtype, numbers.dtype
        return numbers_of(bits_of(numbers, dtype), dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        rounded = numbers_of(bits_of(grad, ctx.dtype), ctx.dtype)
        return rounded.to(ctx.came_as), None


def history_of(tensor: Any) -> Tensor | None:
    """The recorded numbers of a carried tensor that needs a gradient."""
    return tensor.__dict__.get("_history") if isinstance(tensor, CarriedTensor) else None


def follow(made: CarriedTensor, source: Tensor) -> CarriedTensor:
    """Have a tensor that was made of `source` record that, if `source` needs a gradient."""
    needed = source.requires_grad and rushlight._C._records()
    if needed and (made.dtype.is_floating_point or made.dtype.is_complex):
        made._history = _Rounded.apply(source.expand(made.shape), made.dtype)
    return made


def require(tensor: CarriedTensor, wanted: bool) -> CarriedTensor:
    """`Tensor.requires_grad_`."""
    if wanted and not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    known = history_of(tensor)
    if known is not None:
        known.requires_grad_(wanted)
    elif wanted:
        tensor._history = numbers_of(plain(tensor), tensor.dtype).requires_grad_()
    return tensor


def attribute(name: str, tensor: CarriedTensor) -> Any:
    """An attribute that autograd knows, of a tensor with a history."""
    value = getattr(tensor._history, name)
    if name != "grad" or value is None:
        return value
    return make(bits_of(value, tensor.dtype), tensor.dtype)


def set_grad(tensor: CarriedTensor, grad: Tensor | None) -> None:
    """`Tensor.grad = grad`."""
    known = history_of(tensor)
    if grad is None:
        if known is not None:
            known.grad = None
        return
    if known is None:
        raise NotImplementedError(
            f"grad of a tensor of {tensor.dtype} that requires none: set requires_grad first"
        )
    if not isinstance(grad, Tensor):
        raise TypeError(f"grad: expected a Tensor or None, got {type(grad).__name__}")
    if grad.dtype != tensor.dtype or grad.shape != tensor.shape:
        raise RuntimeError(
            f"grad: expected {tensor.dtype} of shape {tuple(tensor.shape)}, got {grad.dtype} of "
            f"shape {tuple(grad.shape)}"
        )
    known.grad = numbers_of(plain(grad), grad.dtype)


def call(func: Callable[..., Any], args: Any, kwargs: Any, each: Callable[..., Any]) -> Any:
    """Do a function on the elements, and once more on the recorded numbers for its gradient."""
    with rushlight.no_grad():
        result = func(*args, **kwargs)
    given = each(recorded, list(args)), each(recorded, kwargs)
    if isinstance(result, Tensor):
        return _with_history(result, func(*given[0], **given[1]))
    if isinstance(result, (list, tuple)) and any(isinstance(part, Tensor) for part in result):
        parts = map(_with_history, result, func(*given[0], **given[1]))
        return type(result)(parts)
    return result


def recorded(tensor: Any) -> Any:
    """The numbers of a carried tensor, with their history; others as they are."""
    known = history_of(tensor)
    if known is not None:
        return known
    return numbers_of(plain(tensor), tensor.dtype) if isinstance(tensor, CarriedTensor) else tensor


def _with_history(result, numbers):
    if not isinstance(result, Tensor) or not numbers.requires_grad:
        return result
    if isinstance(numbers, CarriedTensor):
        return numbers
    if isinstance(result, CarriedTensor):
        return follow(result, numbers)
    return numbers.to(result.dtype, copy=True)
