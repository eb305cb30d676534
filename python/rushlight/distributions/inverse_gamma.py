"""The inverse gamma distribution."""

from __future__ import annotations

from rushlight import Tensor, inf
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import PowerTransform
from rushlight.distributions.utils import _same_as

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """1 / x for x of Gamma(concentration, rate).

    Args:
        concentration: shape of the gamma distribution.
        rate: its rate, the scale of this one.

    Example:
        >>> torch.distributions.InverseGamma(torch.tensor([1.0, 3.0]), 4.0).mean
        tensor([inf, 2.])
    """

    arg_constraints: dict[str, Constraint] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support: Constraint = constraints.positive
    has_rsample = True

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(base.rate.new_tensor(-1.0))
        super().__init__(base, inverse, validate_args=validate_args)

    concentration: property = _same_as("base_dist.concentration")
    rate: property = _same_as("base_dist.rate")

    @property
    def mean(self) -> Tensor:
        mean = self.rate / (self.concentration - 1)
        return mean.where(self.concentration > 1, inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        variance = self.rate.square() / ((a - 1).square() * (a - 2))
        return variance.where(a > 2, inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
