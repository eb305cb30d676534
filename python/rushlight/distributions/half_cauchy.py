"""The absolute value of a Cauchy number."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor, inf
from rushlight.distributions._half import Half
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.utils import _same_as

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """|x| for x of Cauchy(0, scale).

    Args:
        scale: the median.

    Example:
        >>> torch.distributions.HalfCauchy(2.0).cdf(torch.tensor(2.0))
        tensor(0.5000)
    """

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Tensor:
        return rushlight.full_like(self.scale, inf)

    variance: property = _same_as("base_dist.variance")

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        value = rushlight.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return super().log_prob(value)
