"""Student's t-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight import Tensor, inf, nan
from rushlight.distributions import constraints
from rushlight.distributions.chi2 import Chi2
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _same_as, _standard_normal

__all__ = ["StudentT"]


class StudentT(Distribution):
    """p(x) ~ (1 + z^2 / df)^(-(df + 1) / 2), with z = (x - loc) / scale.

    Args:
        df: degrees of freedom.
        loc: the centre.
        scale: the width.

    Example:
        >>> torch.distributions.StudentT(torch.tensor([1.0, 3.0])).mean
        tensor([nan, 0.])
    """

    arg_constraints: dict[str, Constraint] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Constraint = constraints.real
    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self._start(validate_args, df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, nan)

    mode: property = _same_as("loc")

    @property
    def variance(self) -> Tensor:
        df = self.df
        variance = self.scale.pow(2) * df / (df - 2)
        return variance.masked_fill(df <= 2, inf).masked_fill(df <= 1, nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * noise * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def _log_normalizer(self):
        df = self.df
        return (
            0.5 * (df.log() + math.log(math.pi)) + (0.5 * df).lgamma() - (0.5 * (df + 1)).lgamma()
        )

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        z = (value - self.loc) / self.scale
        density = -0.5 * (self.df + 1.0) * (z**2.0 / self.df).log1p()
        return density - self.scale.log() - self._log_normalizer()

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1)
        digammas = half.digamma() - (0.5 * self.df).digamma()
        return self.scale.log() + half * digammas + self._log_normalizer()
