"""The Cauchy distribution."""

import math

import rushlight
from rushlight import inf, nan
from rushlight.distributions import constraints
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

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self._start(validate_args, loc=loc, scale=scale)

    @property
    def mean(self):
        return rushlight.full_like(self.loc, nan)

    mode = _same_as("loc")

    @property
    def variance(self):
        return rushlight.full_like(self.loc, inf)

    def rsample(self, sample_shape=()):
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z**2).log1p()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value):
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()
