"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._implicit import gamma_cdf, standard_gamma
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.exp_family import ExponentialFamily

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """p(x) = rate^a x^(a - 1) exp(-rate x) / Gamma(a).

    Args:
        concentration: a.
        rate: reciprocal of the scale.

    Example:
        >>> torch.distributions.Gamma(torch.tensor(6.0), 2.0).mean
        tensor(3.)
    """

    arg_constraints: dict[str, Constraint] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support: Constraint = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._start(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # 0 is not in the range of the density's logarithm. Detached: the gradient stays.
        value.detach().clamp_(min=rushlight.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Any) -> Tensor:
        value = rushlight.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._check_sample(value)
        a, rate = self.concentration, self.rate
        return a.xlogy(rate) + (a - 1).xlogy(value) - rate * value - a.lgamma()

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()

    def cdf(self, value: Any) -> Tensor:
        self._check_sample(value)
        return gamma_cdf(self.concentration, self.rate * value)
