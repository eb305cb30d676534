"""The absolute value of a normal number."""

from __future__ import annotations

import math

from rushlight import Tensor
from rushlight.distributions._half import Half
from rushlight.distributions.normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """|x| for x of Normal(0, scale).

    Args:
        scale: standard deviation of x.

    Example:
        >>> torch.distributions.HalfNormal(torch.tensor(1.0)).mean
        tensor(0.7979)
    """

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
