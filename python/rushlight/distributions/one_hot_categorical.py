"""The categorical distribution, its values written as one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _same_as
from rushlight.nn.functional import one_hot

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """A vector of K elements: 1 at the place that a `Categorical` draws, else 0.

    Args:
        probs: (..., K) nonnegative weights, normalised here, or else
        logits: (..., K) logarithms of weights.

    Example:
        >>> torch.distributions.OneHotCategorical(torch.tensor([0.25, 0.75])).mode
        tensor([0., 1.])
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support: Constraint = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    probs: property = _same_as("_categorical.probs")
    logits: property = _same_as("_categorical.logits")
    _param = _same_as("_categorical._param")
    param_shape: property = _same_as("_categorical.param_shape", doc="Shape of the probabilities.")

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    mean: property = _same_as("probs")

    @property
    def mode(self) -> Tensor:
        return one_hot(self._categorical.mode, self.event_shape[0]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        place = self._categorical.sample(sample_shape)
        return one_hot(place, self.event_shape[0]).to(self.probs)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = rushlight.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + tuple(self.batch_shape) + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient is that of the probabilities.

    Source: Bengio, Leonard and Courville (2013).
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
