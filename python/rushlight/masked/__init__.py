"""Reductions and normalisations that leave out elements: where `mask` is False, as if they were not
there.

A mask is a bool tensor that broadcasts to the input's shape; None keeps all. Where a mask leaves
nothing, the result is what the operation gives for nothing: 0 for a sum, -inf for a maximum, NaN
for a mean.

    >>> x, mask = rushlight.tensor([1.0, 2.0, 4.0]), rushlight.tensor([True, False, True])
    >>> rushlight.masked.mean(x, mask=mask).item()
    2.5
"""

from __future__ import annotations

import math

import rushlight
from rushlight._integers import integers as _integers, wrapped_dim as _wrapped_dim
from rushlight.masked._sparse import of_any_layout as _of_any_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor
    from rushlight.types import _dtype

__all__ = [
    "MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor",
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip


def _filled(name, input, mask, value):
    """The input with `value` where the mask leaves elements out."""
    if mask is None:
        return input
    if mask.dtype != rushlight.bool:
        raise TypeError(f"masked.{name}: expected mask to be a bool tensor, got {mask.dtype}")
    if mask.dim() > input.dim():
        raise IndexError(
            f"masked.{name}: a mask of shape {tuple(mask.shape)} does not broadcast to input of "
            f"shape {tuple(input.shape)}"
        )
    if rushlight.broadcast_shapes(mask.shape, input.shape) != input.shape:
        mask = mask.broadcast_to(input.shape)  # which says that it does not
    filling = rushlight.tensor(value, dtype=input.dtype, device=input.device)
    return rushlight.where(mask, input, filling)


def _dims(input, dim):
    """The dims that are meant, in order; None and () are all of them."""
    named = range(input.dim()) if dim is None else _integers(dim) or range(input.dim())
    count = max(input.dim(), 1)
    dims = sorted({_wrapped_dim(d, count) for d in named})
    if len(dims) < len(named):
        raise RuntimeError(f"masked: a dim appears multiple times in {dim}")
    return tuple(dims)


def _extreme(dtype, largest):
    """What is above or below all other numbers of the dtype."""
    if dtype.is_floating_point:
        return math.inf if largest else -math.inf
    if dtype is rushlight.bool:
        return largest
    info = rushlight.iinfo(dtype)
    return info.max if largest else info.min


def _whole(input, dtype):
    """The input in the dtype asked for; integers are summed and multiplied as int64."""
    if dtype is None:
        inexact = input.is_floating_point() or input.is_complex()
        return input if inexact else input.to(rushlight.int64)
    return input.to(dtype)


def _inexact(input, dtype):
    if dtype is not None:
        return input.to(dtype)
    inexact = input.is_floating_point() or input.is_complex()
    return input if inexact else input.to(rushlight.get_default_dtype())


@_of_any_layout
def sum(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Sum of the elements that the mask keeps."""
    input = _whole(input, dtype)
    return _filled("sum", input, mask, 0).sum(_dims(input, dim), bool(keepdim))


@_of_any_layout
def prod(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Product of the elements that the mask keeps."""
    result = _filled("prod", _whole(input, dtype), mask, 1)
    for d in reversed(_dims(input, dim)):
        result = result.prod(d, keepdim=bool(keepdim))
    return result


@_of_any_layout
def cumsum(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Cumulative sum along a dim; elements left out add nothing."""
    values = _whole(input, dtype)
    return _filled("cumsum", values, mask, 0).cumsum(dim, dtype=dtype or input.dtype)


@_of_any_layout
def cumprod(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Cumulative product along a dim; elements left out change nothing."""
    values = _whole(input, dtype)
    return _filled("cumprod", values, mask, 1).cumprod(dim, dtype=dtype or input.dtype)


@_of_any_layout
def amax(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Largest element that the mask keeps."""
    input = input if dtype is None else input.to(dtype)
    filled = _filled("amax", input, mask, _extreme(input.dtype, largest=False))
    return filled.amax(_dims(input, dim), bool(keepdim))


@_of_any_layout
def amin(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Smallest element that the mask keeps."""
    input = input if dtype is None else input.to(dtype)
    filled = _filled("amin", input, mask, _extreme(input.dtype, largest=True))
    return filled.amin(_dims(input, dim), bool(keepdim))


@_of_any_layout
def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Place of the largest element that the mask keeps, in the input's dtype."""
    input = input if dtype is None else input.to(dtype)
    filled = _filled("argmax", input, mask, _extreme(input.dtype, largest=False))
    return filled.argmax(dim, bool(keepdim)).to(input.dtype)


@_of_any_layout
def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Place of the smallest element that the mask keeps, in the input's dtype."""
    input = input if dtype is None else input.to(dtype)
    filled = _filled("argmin", input, mask, _extreme(input.dtype, largest=True))
    return filled.argmin(dim, bool(keepdim)).to(input.dtype)


def _count(input, dim, keepdim, mask):
    """How many elements each result is made of."""
    if mask is None:
        kept = rushlight.ones(input.shape, dtype=rushlight.int64, device=input.device)
    else:
        kept = mask if mask.shape == input.shape else mask.broadcast_to(input.shape)
    return kept.sum(_dims(input, dim), bool(keepdim), dtype=rushlight.int64)


@_of_any_layout
def mean(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Mean of the elements that the mask keeps; NaN of none."""
    input = _inexact(input, dtype)
    count = _count(input, dim, keepdim, mask)
    return sum(input, dim, keepdim=keepdim, mask=mask) / count


@_of_any_layout
def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Lower median along a dim of the elements that the mask keeps; of none NaN, or an error for
    integers."""
    input = input if dtype is None else input.to(dtype)
    if not input.is_floating_point():
        return _median_of_integers(input, dim, keepdim, mask)
    filled = _filled("median", input, mask, math.nan)
    if input.dim() == 0:
        return filled.clone()
    return filled.nanmedian(dim, bool(keepdim)).values


def _median_of_integers(input, dim, keepdim, mask):
    kept = rushlight.ones((), dtype=rushlight.bool, device=input.device) if mask is None else mask
    filled = _filled("median", input, kept, _extreme(input.dtype, largest=True))
    count = kept.broadcast_to(input.shape).sum(dim, keepdim=True)
    if not count.all():
        raise ValueError("masked.median: the mask keeps no element of a line, and integers have no "
                         "NaN; give dtype=rushlight.float64")  # fmt: skip
    found = filled.sort(dim).values.take_along_dim((count - 1) // 2, dim)
    return found if keepdim else found.squeeze(dim)


@_of_any_layout
def var(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Variance of the elements that the mask keeps: divided by their number - correction."""
    if unbiased is not None and correction is not None:
        raise ValueError("masked.var: give only one of unbiased and correction")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    input = _inexact(input, dtype)
    count = _count(input, dim, True, mask)
    difference = input - sum(input, dim, keepdim=True, mask=mask) / count
    total = sum(difference * difference.conj(), dim, keepdim=keepdim, mask=mask)
    count = (count if keepdim else count.reshape(total.shape)).to(total.real.dtype) - correction
    return (total / rushlight.maximum(count, count.new_zeros(()))).to(input.dtype)


@_of_any_layout
def std(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Standard deviation of the elements that the mask keeps; see `var`."""
    return var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    ).sqrt()


@_of_any_layout
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: int | tuple[int, ...] | None = None,
    *,
    keepdim: bool | None = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Vector norm of the elements that the mask keeps."""
    input = _inexact(input, dtype)
    filled = _filled("norm", input, mask, 0.0 if ord >= 0 else math.inf)
    return rushlight.linalg.vector_norm(filled, ord, _dims(input, dim), bool(keepdim))


@_of_any_layout
def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The elements that the mask keeps, divided by their norm (or eps); 0 for the others."""
    input = _inexact(input, dtype)
    size = norm(input, ord, dim, keepdim=True, mask=mask)
    size = rushlight.maximum(size, size.new_full((), eps))
    return _filled("normalize", input, mask, 0) / size


@_of_any_layout
def softmax(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Softmax along a dim over the elements that the mask keeps; 0 for the others."""
    return _filled("softmax", _inexact(input, dtype), mask, -math.inf).softmax(dim)


@_of_any_layout
def log_softmax(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Logarithm of `softmax`; -inf for the elements that the mask leaves out."""
    return _filled("log_softmax", _inexact(input, dtype), mask, -math.inf).log_softmax(dim)


@_of_any_layout
def softmin(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Softmax of -input over the elements that the mask keeps; 0 for the others."""
    return (-_filled("softmin", _inexact(input, dtype), mask, math.inf)).softmax(dim)


@_of_any_layout
def logsumexp(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    *,
    keepdim: bool = False,
    dtype: _dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Logarithm of the sum of exponentials of the elements that the mask keeps."""
    input = _inexact(input, dtype)
    filled = _filled("logsumexp", input, mask, -math.inf)
    return filled.logsumexp(_dims(input, dim), bool(keepdim))


@_of_any_layout
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: _dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), where what a mask leaves out adds nothing."""
    input, other = _inexact(input, dtype), _inexact(other, dtype)
    filled = _filled("logaddexp", input, input_mask, -math.inf)
    return rushlight.logaddexp(filled, _filled("logaddexp", other, other_mask, -math.inf))


_OF_TENSORS = ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor")


def __getattr__(name: str) -> object:
    if name == "_ops":
        import importlib

        return importlib.import_module("rushlight.masked._ops")
    if name in _OF_TENSORS:
        from rushlight.masked import _tensor

        value = globals()[name] = getattr(_tensor, name)
        return value
    raise AttributeError(f"module 'rushlight.masked' has no attribute {name!r}")
