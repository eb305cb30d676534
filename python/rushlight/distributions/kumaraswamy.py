"""The Kumaraswamy distribution."""

from __future__ import annotations

import rushlight
from rushlight import Tensor, nan
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, PowerTransform
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Like the beta distribution, with the closed form P(x <= t) = 1 - (1 - t^a)^b.

    Args:
        concentration1: a.
        concentration0: b.

    Example:
        >>> torch.distributions.Kumaraswamy(torch.tensor(1.0), torch.tensor(1.0)).mean
        tensor(0.5000)
    """

    concentration1: Tensor
    concentration0: Tensor

    arg_constraints: dict[str, Constraint] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support: Constraint = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros = rushlight.zeros_like(self.concentration0)
        base = Uniform(zeros, rushlight.ones_like(zeros), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n):
        """E[x^n] = b B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        place = 1 + n / a
        return (b.log() + place.lgamma() + b.lgamma() - (place + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)).pow(a.reciprocal())
        return mode.masked_fill((a < 1) | (b < 1), nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
