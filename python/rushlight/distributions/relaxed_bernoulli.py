"""The relaxed Bernoulli distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._probabilities import HasProbabilities
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import SigmoidTransform
from rushlight.distributions.utils import _same_as, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(HasProbabilities):
    """The logit of a `RelaxedBernoulli` number: logistic noise around logits / temperature.

    Args:
        temperature: the lower, the closer to 0 and 1.
        probs: p, or else
        logits: log(p / (1 - p)).
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support: Constraint = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        param = self._set_probabilities(probs, logits)
        Distribution.__init__(self, param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(rushlight.rand(shape, dtype=probs.dtype, device=probs.device))
        logits = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return logits / self.temperature

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        logits, value = rushlight.broadcast_tensors(self.logits, value)
        difference = logits - value * self.temperature
        log_temperature = rushlight.as_tensor(self.temperature).log()
        return log_temperature + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1), near 0 or 1, whose samples are differentiable in p.

    Args:
        temperature: the lower, the closer to 0 and 1.
        probs: p, or else
        logits: log(p / (1 - p)).

    Sources: Maddison, Mnih and Teh (2017); Jang, Gu and Poole (2017).

    Example:
        >>> torch.distributions.RelaxedBernoulli(torch.tensor(2.0), torch.tensor([0.25, 0.5])).probs
        tensor([0.2500, 0.5000])
    """

    arg_constraints: dict[str, Constraint] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support: Constraint = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    temperature: property = _same_as("base_dist.temperature")
    logits: property = _same_as("base_dist.logits")
    probs: property = _same_as("base_dist.probs")
