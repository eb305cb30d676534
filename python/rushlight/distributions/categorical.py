"""The categorical distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Size, Tensor, nan
from rushlight.distributions import constraints
from rushlight.distributions._probabilities import HasProbabilities
from rushlight.distributions.bernoulli import _range_of_values
from rushlight.distributions.constraints import Constraint, _IntegerInterval
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _same_as

__all__ = ["Categorical"]


def _normalized(self, probs, logits):
    """The given probabilities, normalised to sum 1 along the last dim, as keyword arguments."""
    name = type(self).__name__
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: either probs or logits must be specified, but not both")
    given, value = ("probs", probs) if logits is None else ("logits", logits)
    if value.dim() < 1:
        raise ValueError(f"{name}: {given} must have at least one dim, got shape ()")
    if logits is None:
        return {"probs": probs / probs.sum(-1, keepdim=True), "logits": None}
    return {"probs": None, "logits": logits - logits.logsumexp(-1, keepdim=True)}


class Categorical(HasProbabilities):
    """One of the places 0 ... K - 1, each with a probability of its own.

    Args:
        probs: (..., K) nonnegative weights, normalised here, or else
        logits: (..., K) logarithms of weights.

    Example:
        >>> torch.distributions.Categorical(torch.tensor([1.0, 1.0, 2.0])).probs
        tensor([0.2500, 0.2500, 0.5000])
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True
    _is_binary = False

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        param = self._set_probabilities(**_normalized(self, probs, logits))
        Distribution.__init__(self, param.shape[:-1], validate_args=validate_args)

    @property
    def _num_events(self):
        return self._param.shape[-1]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> _IntegerInterval:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return rushlight.full(
            self.batch_shape, nan, dtype=self.probs.dtype, device=self.probs.device
        )

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    variance: property = _same_as("mean")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        count = Size(sample_shape).numel()
        probs = self.probs.detach().reshape(-1, self._num_events).contiguous()
        drawn = probs.multinomial(count, True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        value = value.long().unsqueeze(-1)
        shape = rushlight.broadcast_shapes(value.shape[:-1], self.batch_shape)
        value, log_p = value.expand(shape + (1,)), self.logits.expand(shape + (self._num_events,))
        return log_p.gather(-1, value).squeeze(-1)

    def entropy(self) -> Tensor:
        smallest = rushlight.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=smallest) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return _range_of_values(self._num_events, self, expand).long()
