"""The generalised Pareto distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor, inf, nan, where
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint, _Interval
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _same_as

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """P(x > t) = (1 + c z)^(-1 / c), with z = (t - loc) / scale; exp(-z) for c = 0.

    Args:
        loc: the least value.
        scale: the width.
        concentration: c; negative ones end the range at loc - scale / c.

    Example:
        >>> torch.distributions.GeneralizedPareto(0.0, 1.0, torch.tensor([0.0, 0.5])).mean
        tensor([1., 2.])
    """

    arg_constraints: dict[str, Constraint] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor,
        validate_args: Any = None,
    ) -> None:
        self._start(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> _Interval:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, where(self.concentration < 0, end, inf))

    def _z(self, x):
        return (x - self.loc) / self.scale

    def _by_concentration(self, exponential, power):
        """exponential() where c is 0, and power(c) elsewhere."""
        zero = self.concentration.isclose(rushlight.zeros_like(self.concentration))
        return where(zero, exponential, power(where(zero, 1.0, self.concentration)))

    @property
    def mean(self) -> Tensor:
        mean = self.loc + self.scale / (1 - self.concentration)
        return where(self.concentration < 1, mean, nan)

    mode: property = _same_as("loc")

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        variance = self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c))
        return where(c < 0.5, variance, nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rushlight.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        z = self._z(value)
        log_density = self._by_concentration(-z, lambda c: -(1 / c + 1) * (c * z).log1p())
        return log_density - self.scale.log()

    def log_survival_function(self, value: Any) -> Tensor:
        """Return log P(x > value)."""
        self._check_sample(value)
        z = self._z(value)
        return self._by_concentration(-z, lambda c: -(c * z).log1p() / c)

    def log_cdf(self, value: Any) -> Tensor:
        """Return log P(x <= value)."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Tensor:
        log_above = (-value).log1p()
        z = self._by_concentration(-log_above, lambda c: (-c * log_above).expm1() / c)
        return self.loc + self.scale * z

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
