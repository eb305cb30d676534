"""The Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor, inf, nan
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _same_as

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """p(x) = 1 / (pi scale (1 + z^2)), with z = (x - loc) / scale.

    Args:
        loc: the median.
        scale: half of the width at half height.

    Example:
        >>> torch.distributions.Cauchy(0.0, 1.0).cdf(torch.tensor(1.0))
        tensor(0.7500)
    """

    arg_constraints: dict[str, Constraint] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Constraint = constraints.real
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._start(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return rushlight.full_like(self.loc, nan)

    mode: property = _same_as("loc")

    @property
    def variance(self) -> Tensor:
        return rushlight.full_like(self.loc, inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z**2).log1p()

    def cdf(self, value: Any) -> Tensor:
        self._check_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
