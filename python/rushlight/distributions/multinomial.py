"""The multinomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.constraints import Constraint, _Multinomial
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _same_as

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """How often each of K places comes up in n draws: P(x) = n! prod_k p_k^x_k / x_k!.

    Args:
        total_count: n, the same for the whole batch.
        probs: (..., K) nonnegative weights, normalised here, or else
        logits: (..., K) logarithms of weights.

    Example:
        >>> torch.distributions.Multinomial(8, torch.tensor([1.0, 1.0, 2.0])).mean
        tensor([2., 2., 4.])
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"Multinomial: total_count must be one int, got {type(total_count).__name__}"
            )
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> _Multinomial:
        return constraints.multinomial(self.total_count)

    probs: property = _same_as("_categorical.probs")
    logits: property = _same_as("_categorical.logits")
    param_shape: property = _same_as("_categorical.param_shape", doc="Shape of the probabilities.")

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        places = self._categorical.sample(Size((self.total_count,)) + Size(sample_shape))
        places = places.movedim(0, -1)
        counts = self.probs.detach().new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, places, rushlight.ones_like(places, dtype=counts.dtype))

    def entropy(self) -> Tensor:
        # E[log x_k!] sums over the binomial distribution of each count.
        n = rushlight.tensor(self.total_count)
        term = self.total_count * self._categorical.entropy() - (n + 1).lgamma()
        binomial = Binomial(self.total_count, self.probs)
        counts = binomial.enumerate_support(expand=False)[1:]
        weight = (binomial.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return term + weight

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        logits, value = rushlight.broadcast_tensors(self.logits, value)
        log_orders = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        logits = logits.masked_fill((value == 0) & (logits == -rushlight.inf), 0)
        return log_orders + (logits * value).sum(-1)
