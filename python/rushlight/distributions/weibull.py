"""The Weibull distribution."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, PowerTransform
from rushlight.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """scale x^(1 / k) for x exponential of rate 1: P(x <= t) = 1 - exp(-(t / scale)^k).

    Args:
        scale: the quantile of 1 - 1 / e.
        concentration: k.

    Example:
        >>> torch.distributions.Weibull(torch.tensor(2.0), torch.tensor(1.0)).mean
        tensor(2.)
    """

    scale: Tensor
    concentration: Tensor

    arg_constraints: dict[str, Constraint] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support: Constraint = constraints.positive

    def __init__(
        self,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal: Tensor = self.concentration.reciprocal()
        base = Exponential(rushlight.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        second = (1 + 2 * self.concentration_reciprocal).lgamma().exp()
        squared_first = (2 * (1 + self.concentration_reciprocal).lgamma()).exp()
        return self.scale.pow(2) * (second - squared_first)

    def entropy(self) -> Tensor:
        reciprocal = self.concentration_reciprocal
        return euler_constant * (1 - reciprocal) + (self.scale * reciprocal).log() + 1
