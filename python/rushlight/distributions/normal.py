"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import _same_as, _standard_normal

__all__ = ["Normal"]


class Normal(ExponentialFamily):
    """p(x) = exp(-z^2 / 2) / (scale sqrt(2 pi)), with z = (x - loc) / scale.

    Args:
        loc: the mean.
        scale: the standard deviation.

    Example:
        >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor([0.0, 1.0]))
        tensor([-0.9189, -1.4189])
    """

    mode: property
    mean: property

    arg_constraints: dict[str, Constraint] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Constraint = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._start(validate_args, loc=loc, scale=scale)

    mean = mode = _same_as("loc")
    stddev: property = _same_as("scale")

    @property
    def variance(self) -> Tensor:
        return self.scale**2

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with rushlight.no_grad():
            return rushlight.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        variance = self.scale**2
        half_log_2pi = math.log(math.sqrt(2 * math.pi))
        return -((value - self.loc) ** 2) / (2 * variance) - self.scale.log() - half_log_2pi

    def cdf(self, value: Any) -> Tensor:
        self._check_sample(value)
        return 0.5 * (1 + ((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)).erf())

    def icdf(self, value: Any) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self):
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()
