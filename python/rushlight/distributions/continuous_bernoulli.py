"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor, where
from rushlight.distributions import constraints
from rushlight.distributions._probabilities import HasProbabilities
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import (
    _bernoulli_log_likelihood,
    clamp_probs,
    lazy_property,
    logits_to_probs,
)

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(HasProbabilities, ExponentialFamily):
    """Numbers of [0, 1] of density C(p) p^x (1 - p)^(1 - x).

    Args:
        probs: p, or else
        logits: log(p / (1 - p)).
        lims: between these values of p, Taylor series replace closed forms, which lose digits.

    Source: Loaiza-Ganem and Cunningham (2019).

    Example:
        >>> torch.distributions.ContinuousBernoulli(torch.tensor(0.5)).mean
        tensor(0.5000)
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support: Constraint = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        param = self._set_probabilities(probs, logits)
        self._lims = lims
        Distribution.__init__(self, param.shape, validate_args=validate_args)
        if probs is not None:
            self.__dict__["probs"] = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _by_region(self, closed_form, series):
        """closed_form(p) away from 1/2, and series(p - 1/2) near it."""
        probs = self.probs
        low, high = self._lims
        away = (probs <= low) | (probs > high)
        return where(away, closed_form(where(away, probs, low)), series(probs - 0.5))

    def _cont_bern_log_norm(self):
        """log C(p) = log(2 artanh(1 - 2p) / (1 - 2p))."""

        def closed_form(p):
            numerator = ((-p).log1p() - p.log()).abs().log()
            below = (-2.0 * where(p <= 0.5, p, 0.0)).log1p()
            above = (2.0 * where(p >= 0.5, p, 1.0) - 1.0).log()
            return numerator - where(p <= 0.5, below, above)

        return self._by_region(
            closed_form, lambda x: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x**2) * x**2
        )

    @property
    def mean(self) -> Tensor:
        return self._by_region(
            lambda p: p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log()),
            lambda x: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x,
        )

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        return self._by_region(
            lambda p: p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / ((-p).log1p() - p.log()) ** 2,
            lambda x: 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x**2) * x**2,
        )

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with rushlight.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rushlight.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        logits, value = rushlight.broadcast_tensors(self.logits, value)
        return _bernoulli_log_likelihood(logits, value) + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Tensor:
        self._check_sample(value)
        cdf = self._by_region(
            lambda p: (p**value * (1.0 - p) ** (1.0 - value) + p - 1.0) / (2.0 * p - 1.0),
            lambda x: value,
        )
        return where(value <= 0.0, 0.0, where(value >= 1.0, 1.0, cdf))

    def icdf(self, value: Any) -> Tensor:
        return self._by_region(
            lambda p: (
                ((-p + value * (2.0 * p - 1.0)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
            ),
            lambda x: value,
        )

    def entropy(self) -> Tensor:
        log_q, log_p = (-self.probs).log1p(), self.probs.log()
        return self.mean * (log_q - log_p) - self._cont_bern_log_norm() - log_q

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        low, high = self._lims
        away = (x <= low - 0.5) | (x > high - 0.5)
        safe = where(away, x, low - 0.5)
        closed_form = (safe.exp() - 1.0).abs().log() - safe.abs().log()
        return where(away, closed_form, 0.5 * x + x**2 / 24.0 - x**4 / 2880.0)
