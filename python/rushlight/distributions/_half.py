"""The absolute value of a number that is symmetric about 0."""

import math

import rushlight
from rushlight import inf
from rushlight.distributions import constraints
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AbsTransform
from rushlight.distributions.utils import _same_as


class Half(TransformedDistribution):
    """|x| for x of `base`, which has a scale: twice its density, on one side."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, base, validate_args):
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    scale = _same_as("base_dist.scale")

    @property
    def mode(self):
        return rushlight.zeros_like(self.scale)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return log_prob.where(value >= 0, -inf)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
