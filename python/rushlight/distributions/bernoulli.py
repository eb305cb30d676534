"""The Bernoulli distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor, nan
from rushlight.distributions import constraints
from rushlight.distributions._probabilities import HasProbabilities
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import _bernoulli_log_likelihood, _same_as

__all__ = ["Bernoulli"]


class Bernoulli(HasProbabilities, ExponentialFamily):
    """1 with probability p, else 0.

    Args:
        probs: p, or else
        logits: log(p / (1 - p)).

    Example:
        >>> torch.distributions.Bernoulli(torch.tensor([0.25, 0.5])).variance
        tensor([0.1875, 0.2500])
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support: Constraint = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        param = self._set_probabilities(probs, logits)
        Distribution.__init__(self, param.shape, validate_args=validate_args)

    mean: property = _same_as("probs")

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs)
        return mode.masked_fill(self.probs == 0.5, nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with rushlight.no_grad():
            return self.probs.expand(self._extended_shape(sample_shape)).bernoulli()

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        return _bernoulli_log_likelihood(*rushlight.broadcast_tensors(self.logits, value))

    def entropy(self) -> Tensor:
        return -_bernoulli_log_likelihood(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return _range_of_values(2, self, expand)

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        return x.exp().log1p()


def _range_of_values(count, distribution, expand):
    """0 ... count - 1 along a new first dim."""
    param = distribution._param
    values = rushlight.arange(count, dtype=param.dtype, device=param.device)
    values = values.view((-1,) + (1,) * len(distribution.batch_shape))
    return values.expand((-1,) + tuple(distribution.batch_shape)) if expand else values
