"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._probabilities import HasProbabilities
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.utils import lazy_property
from rushlight.nn.functional import logsigmoid

__all__ = ["NegativeBinomial"]


class NegativeBinomial(HasProbabilities):
    """The number of successes before the r-th failure: P(k) ~ p^k (1 - p)^r.

    Args:
        total_count: r, nonnegative; need not be whole.
        probs: p, in [0, 1), or else
        logits: log(p / (1 - p)).

    Example:
        >>> torch.distributions.NegativeBinomial(3.0, torch.tensor(0.5)).mean
        tensor(3.)
    """

    arg_constraints: dict[str, Constraint] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support: Constraint = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        param = self._set_probabilities(probs, logits, total_count=total_count)
        self.total_count: Any = self.total_count.type_as(param)
        Distribution.__init__(self, param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self):
        """Its draws are the rates of the Poisson distribution of k."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with rushlight.no_grad():
            return rushlight.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        r = self.total_count
        unnormalized = r * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        normalizer = (1.0 + value).lgamma() + r.lgamma() - (r + value).lgamma()
        normalizer = normalizer.masked_fill(r + value == 0.0, 0.0)
        return unnormalized - normalizer
