"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._probabilities import HasProbabilities
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _bernoulli_log_likelihood

__all__ = ["Geometric"]


class Geometric(HasProbabilities):
    """The number of failures before the first success: P(k) = (1 - p)^k p.

    Args:
        probs: p, in (0, 1], or else
        logits: log(p / (1 - p)).

    Example:
        >>> torch.distributions.Geometric(torch.tensor(0.25)).mean
        tensor(3.)
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support: Constraint = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        param = self._set_probabilities(probs, logits)
        Distribution.__init__(self, param.shape, validate_args=validate_args)
        checks = self._validate_args and probs is not None
        if checks and not rushlight._is_all_true(self.probs > 0):
            raise ValueError(
                f"Geometric: parameter probs of shape {tuple(param.shape)} must be positive:\n"
                f"{param}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return rushlight.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with rushlight.no_grad():
            tiny = rushlight.finfo(self.probs.dtype).tiny
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        value, probs = rushlight.broadcast_tensors(value, self.probs)
        certain = (probs == 1) & (value == 0)
        probs = probs.masked_fill(certain, 0)  # 0 * log1p(-0) instead of 0 * log1p(-1)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return -_bernoulli_log_likelihood(self.logits, self.probs) / self.probs
