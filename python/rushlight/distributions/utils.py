"""What distributions share: parameters that broadcast, and probabilities given as logits."""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn.functional import binary_cross_entropy_with_logits, softmax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

    from rushlight.distributions.gamma import Gamma

euler_constant: float = 0.57721566490153286060


def broadcast_all(*values: Tensor | float) -> tuple[Tensor, ...]:
    """Return the values as tensors of their common shape.

    Args:
        values: tensors and numbers; a number takes the dtype and the device of the first tensor, or
            the defaults.

    Raises:
        ValueError: a value is neither a tensor nor a number.
    """
    for value in values:
        if not isinstance(value, (Tensor, numbers.Number)):
            raise ValueError(
                f"broadcast_all: expected tensors and numbers, got {type(value).__name__}"
            )
    tensors = [value for value in values if isinstance(value, Tensor)]
    dtype = tensors[0].dtype if tensors else rushlight.get_default_dtype()
    device = tensors[0].device if tensors else None
    values = [
        v if isinstance(v, Tensor) else rushlight.tensor(v, dtype=dtype, device=device)
        for v in values
    ]
    shape = rushlight.broadcast_shapes(*(v.shape for v in values))
    return tuple(v if v.shape == shape else v.expand(shape) for v in values)


def _standard_normal(shape, dtype, device=None):
    zeros = rushlight.zeros(shape, dtype=dtype, device=device)
    return rushlight.normal(zeros, rushlight.ones_like(zeros))


def _sum_rightmost(value, dims):
    """Sum the last `dims` dims."""
    return value.reshape(value.shape[: value.dim() - dims] + (-1,)).sum(-1) if dims else value


def _same_as(path, doc=None):
    """A property that is another attribute, such as "loc" or "base_dist.mean"."""
    get = operator.attrgetter(path)
    return property(lambda self: get(self), doc=doc)


def clamp_probs(probs: Tensor) -> Tensor:
    """Return the probabilities, at least eps and at most 1 - eps of their dtype."""
    eps = rushlight.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities: the sigmoid of each if `is_binary`, or softmax of the last dim."""
    return logits.sigmoid() if is_binary else softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return log(p / (1 - p)) if `is_binary`, or log(p), with p kept away from 0 and 1."""
    probs = clamp_probs(probs)
    return probs.log() - (-probs).log1p() if is_binary else probs.log()


def _bernoulli_log_likelihood(logits, value):
    """log p for value 1 and log(1 - p) for value 0, exact in both tails."""
    return -binary_cross_entropy_with_logits(logits, value, reduction="none")


class lazy_property:
    """A method that is called on the first access; its result then is an attribute."""

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance: Any, owner: Any = None) -> Self | Tensor | Gamma:
        if instance is None:
            return self
        with rushlight.enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements on and below diagonal `diag` of (..., n, n) as (..., k), row by row."""
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"tril_matrix_to_vec: diag {diag} is not in [{-size}, {size - 1}]")
    row, column = rushlight.tril_indices(size, size, diag)
    return mat[..., row, column]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return the lower triangular (..., n, n) whose elements up to diagonal `diag` are (..., k).

    Raises:
        ValueError: k elements do not fill a triangle.
    """
    # k = n (n + 1) / 2 + (elements that diag adds), solved for n.
    count = vec.shape[-1]
    discriminant = (1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)
    size = (-(1 + 2 * diag) + discriminant**0.5) / 2
    if abs(size - round(size)) > rushlight.finfo(vec.dtype).eps:
        raise ValueError(f"vec_to_tril_matrix: {count} elements do not fill a triangle")
    size = round(size)
    row, column = rushlight.tril_indices(size, size, diag)
    matrix = vec.new_zeros(vec.shape[:-1] + (size, size))
    matrix[..., row, column] = vec
    return matrix
