"""The F-distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor, nan
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Gamma

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The quotient of two chi-squared numbers, each divided by its degrees of freedom.

    Args:
        df1: degrees of freedom of the numerator.
        df2: degrees of freedom of the denominator.

    Example:
        >>> torch.distributions.FisherSnedecor(torch.tensor(1.0), torch.tensor(4.0)).mean
        tensor(2.)
    """

    arg_constraints: dict[str, Constraint] = {
        "df1": constraints.positive,
        "df2": constraints.positive,
    }
    support: Constraint = constraints.positive
    has_rsample = True

    def __init__(
        self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._start(validate_args, df1=df1, df2=df2)
        # Chi-squared divided by its df: the mean is 1.
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1 * 0.5, validate_args=False)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2 * 0.5, validate_args=False)

    @property
    def mean(self) -> Tensor:
        mean = self.df2 / (self.df2 - 2)
        return mean.masked_fill(self.df2 <= 2, nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, nan)

    @property
    def variance(self) -> Tensor:
        df1, df2 = self.df1, self.df2.masked_fill(self.df2 <= 4, nan)
        return 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        tiny = rushlight.finfo(self.df2.dtype).tiny
        above = self._gamma1.rsample(sample_shape)
        below = self._gamma2.rsample(sample_shape).clamp(min=tiny)
        return (above / below).clamp(min=tiny)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        half1, half2 = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        normalizer = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        power = half1 * ratio.log() + (half1 - 1) * value.log()
        return normalizer + power - (half1 + half2) * (ratio * value).log1p()
