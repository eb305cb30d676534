"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._probabilities import HasProbabilities
from rushlight.distributions.bernoulli import _range_of_values
from rushlight.distributions.constraints import Constraint, _IntegerInterval
from rushlight.distributions.distribution import Distribution
from rushlight.nn.functional import logsigmoid

__all__ = ["Binomial"]


class Binomial(HasProbabilities):
    """The number of successes in n trials: P(k) = n! / (k! (n - k)!) p^k (1 - p)^(n - k).

    Args:
        total_count: n.
        probs: p, or else
        logits: log(p / (1 - p)).

    Example:
        >>> torch.distributions.Binomial(10, torch.tensor([0.0, 0.5])).mean
        tensor([0., 5.])
    """

    arg_constraints: dict[str, Constraint] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        param = self._set_probabilities(probs, logits, total_count=total_count)
        self.total_count: Any = self.total_count.type_as(param)
        Distribution.__init__(self, param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> _IntegerInterval:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with rushlight.no_grad():
            return rushlight.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        n, logits = self.total_count, self.logits
        log_orders = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return value * logits + log_orders + n * logsigmoid(-logits)

    def entropy(self) -> Tensor:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(
                "Binomial: the entropy is implemented for equal total_count only, "
                f"got {self.total_count}"
            )
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(
                "Binomial: the support is enumerated for equal total_count only, "
                f"got {self.total_count}"
            )
        return _range_of_values(1 + count, self, expand)
