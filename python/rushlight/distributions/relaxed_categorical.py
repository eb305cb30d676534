"""The relaxed one-hot categorical distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import ExpTransform
from rushlight.distributions.utils import _same_as, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """The logarithm of a `RelaxedOneHotCategorical` point.

    Args:
        temperature: the lower, the closer to one-hot vectors.
        probs: (..., K) nonnegative weights, or else
        logits: (..., K) logarithms of weights.
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    # The logarithm of a point of the simplex; torch too lets any vector pass.
    support: Constraint = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    probs: property = _same_as("_categorical.probs")
    logits: property = _same_as("_categorical.logits")
    param_shape: property = _same_as("_categorical.param_shape", doc="Shape of the probabilities.")

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = rushlight.rand(shape, dtype=self.logits.dtype, device=self.logits.device)
        gumbel = -(-clamp_probs(u).log()).log()
        scores = (self.logits + gumbel) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        k = self.event_shape[0]
        logits, value = rushlight.broadcast_tensors(self.logits, value)
        temperature = rushlight.full_like(self.temperature, float(k)).lgamma()
        log_scale = temperature - self.temperature.log() * -(k - 1)
        score = logits - value * self.temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex near its corners, whose samples are differentiable in the weights.

    Args:
        temperature: the lower, the closer to one-hot vectors.
        probs: (..., K) nonnegative weights, or else
        logits: (..., K) logarithms of weights.

    Sources: Maddison, Mnih and Teh (2017); Jang, Gu and Poole (2017).

    Example:
        >>> weights = torch.tensor([1.0, 1.0, 2.0])
        >>> torch.distributions.RelaxedOneHotCategorical(torch.tensor(2.0), weights).event_shape
        torch.Size([3])
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support: Constraint = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    temperature: property = _same_as("base_dist.temperature")
    logits: property = _same_as("base_dist.logits")
    probs: property = _same_as("base_dist.probs")
