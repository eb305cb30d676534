"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, ExpTransform
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import _same_as, broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """loc - scale log(-log(u)) for u uniform on (0, 1): p(z) = exp(-z - exp(-z)) / scale.

    Args:
        loc: the mode.
        scale: the width; z = (x - loc) / scale.

    Example:
        >>> torch.distributions.Gumbel(torch.tensor(1.0), 2.0).mean
        tensor(2.1544)
    """

    loc: Tensor
    scale: Tensor

    arg_constraints: dict[str, Constraint] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Constraint = constraints.real

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        finfo = rushlight.finfo(self.loc.dtype)
        low, high = rushlight.full_like(self.loc, finfo.tiny), 1 - finfo.eps
        base = Uniform(low, rushlight.full_like(self.loc, high), validate_args=False)
        minus_log = [ExpTransform().inv, AffineTransform(loc=0, scale=-1.0)]
        transforms = [
            *minus_log,
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    mode: property = _same_as("loc")

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
