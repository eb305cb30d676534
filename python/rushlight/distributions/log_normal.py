"""The log-normal distribution."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.normal import Normal
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import ExpTransform
from rushlight.distributions.utils import _same_as

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """exp(x) for x of Normal(loc, scale).

    Args:
        loc: mean of the logarithm.
        scale: standard deviation of the logarithm.

    Example:
        >>> torch.distributions.LogNormal(torch.tensor(0.0), 1.0).mean
        tensor(1.6487)
    """

    arg_constraints: dict[str, Constraint] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Constraint = constraints.positive
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    loc: property = _same_as("base_dist.loc")
    scale: property = _same_as("base_dist.scale")

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
