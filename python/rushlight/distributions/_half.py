"""The absolute value of a number that is symmetric about 0."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor, inf
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AbsTransform
from rushlight.distributions.utils import _same_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.distributions.distribution import Distribution


class Half(TransformedDistribution):
    """|x| for x of `base`, which has a scale: twice its density, on one side."""

    arg_constraints: dict[str, Constraint] = {"scale": constraints.positive}
    support: Constraint = constraints.nonnegative
    has_rsample = True

    def __init__(self, base: Distribution, validate_args: Any) -> None:
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    scale: property = _same_as("base_dist.scale")

    @property
    def mode(self) -> Any:
        return rushlight.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return log_prob.where(value >= 0, -inf)

    def cdf(self, value: Any) -> Tensor:
        self._check_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
