"""The Poisson distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import _same_as

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """The number of independent events: P(k) = rate^k exp(-rate) / k!.

    Args:
        rate: the mean, nonnegative.

    Example:
        >>> torch.distributions.Poisson(torch.tensor(4.0)).stddev
        tensor(2.)
    """

    arg_constraints: dict[str, Constraint] = {"rate": constraints.nonnegative}
    support: Constraint = constraints.nonnegative_integer

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._start(validate_args, rate=rate)

    mean: property = _same_as("rate")

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    variance: property = _same_as("rate")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with rushlight.no_grad():
            return rushlight.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (self.rate.log(),)

    def _log_normalizer(self, x):
        return x.exp()
