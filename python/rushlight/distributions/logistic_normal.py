"""The logistic normal distribution."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.normal import Normal
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import StickBreakingTransform
from rushlight.distributions.utils import _same_as

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Points of the simplex: the stick-breaking transform of n - 1 normal numbers.

    Args:
        loc: (..., n - 1) means.
        scale: (..., n - 1) standard deviations.

    Example:
        >>> torch.distributions.LogisticNormal(torch.zeros(3), torch.ones(3)).event_shape
        torch.Size([4])
    """

    arg_constraints: dict[str, Constraint] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Constraint = constraints.simplex
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    loc: property = _same_as("base_dist.base_dist.loc")
    scale: property = _same_as("base_dist.base_dist.scale")
