"""Batch dims that count as part of the event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint, _IndependentConstraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _same_as, _sum_rightmost

_D = TypeVar("_D", bound=Distribution)

__all__ = ["Independent"]


class Independent(Distribution, Generic[_D]):
    """Another distribution whose last batch dims are independent elements of one event.

    Args:
        base_distribution: the other distribution.
        reinterpreted_batch_ndims: how many of its batch dims become event dims.

    Example:
        >>> base = torch.distributions.Normal(torch.zeros(2, 3), 1.0)
        >>> d = torch.distributions.Independent(base, 1)
        >>> d.batch_shape, d.event_shape
        (torch.Size([2]), torch.Size([3]))
    """

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                f"Independent: expected at most {len(batch)} reinterpreted_batch_ndims for batch "
                f"shape {tuple(batch)}, got {reinterpreted_batch_ndims}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        event_shape = batch[cut:] + base_distribution.event_shape
        super().__init__(batch[:cut], event_shape, validate_args=validate_args)

    has_rsample: property = _same_as("base_dist.has_rsample")

    @property
    def has_enumerate_support(self) -> bool:
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> _IndependentConstraint:
        support = self.base_dist.support
        more = self.reinterpreted_batch_ndims
        return constraints.independent(support, more) if more else support

    mean: property = _same_as("base_dist.mean")
    mode: property = _same_as("base_dist.mode")
    variance: property = _same_as("base_dist.variance")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError(
                "Independent: the support is a product of "
                f"{self.reinterpreted_batch_ndims} dims, which is not enumerated"
            )
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
