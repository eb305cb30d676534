"""The absolute value of a Cauchy number."""

import rushlight
from rushlight import inf
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

    def __init__(self, scale, validate_args=None):
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    @property
    def mean(self):
        return rushlight.full_like(self.scale, inf)

    variance = _same_as("base_dist.variance")

    def log_prob(self, value):
        value = rushlight.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return super().log_prob(value)
