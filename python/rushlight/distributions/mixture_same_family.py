"""Mixtures of distributions of one kind."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.constraints import Constraint, MixtureSameFamilyConstraint
from rushlight.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of K components, each with a probability: p(x) = sum_k w_k p_k(x).

    Args:
        mixture_distribution: `Categorical` with the K probabilities.
        component_distribution: a distribution whose last batch dim has size K.

    Example:
        >>> weights = torch.distributions.Categorical(torch.tensor([0.25, 0.75]))
        >>> parts = torch.distributions.Normal(torch.tensor([0.0, 4.0]), 1.0)
        >>> torch.distributions.MixtureSameFamily(weights, parts).mean
        tensor(3.)
    """

    arg_constraints: dict[str, Constraint] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        name = type(self).__name__
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                f"{name}: mixture_distribution must be a Categorical, "
                f"got {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                f"{name}: component_distribution must be a Distribution, "
                f"got {type(component_distribution).__name__}"
            )
        mixed, components = mixture_distribution.batch_shape, component_distribution.batch_shape
        count = mixture_distribution.param_shape[-1]
        if not components or components[-1] != count:
            raise ValueError(
                f"{name}: the last batch dim of the components, of {tuple(components)}, "
                f"must have the size {count} of the mixture"
            )
        for a, b in zip(reversed(mixed), reversed(components[:-1])):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"{name}: the batch shape {tuple(mixed)} of the mixture does not fit "
                    f"{tuple(components)} of the components"
                )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(
            components[:-1], component_distribution.event_shape, validate_args=validate_args
        )

    @constraints.dependent_property
    def support(self) -> MixtureSameFamilyConstraint:
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    def _weights(self):
        probs = self.mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    def _pad(self, x):
        """x with a dim for the components; mixtures of other libraries call it, too."""
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances and the variance of the means."""
        dim, weights = -1 - self._event_ndims, self._weights()
        within = (weights * self.component_distribution.variance).sum(dim)
        apart = self.component_distribution.mean - self.mean.unsqueeze(dim)
        return within + (weights * apart.pow(2)).sum(dim)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with rushlight.no_grad():
            dim = -1 - self._event_ndims
            which = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            batch = drawn.shape[: drawn.dim() - 1 - self._event_ndims]
            which = which.expand(batch).reshape(batch + (1,) * (1 + self._event_ndims))
            which = which.expand(batch + (1,) + tuple(self.event_shape))
            return drawn.gather(dim, which).squeeze(dim)

    def cdf(self, x: Tensor) -> Tensor:
        parts = self.component_distribution.cdf(self._pad(x))
        return (parts * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        parts = self.component_distribution.log_prob(self._pad(x))
        weights = self.mixture_distribution.logits.log_softmax(-1)
        return (parts + weights).logsumexp(-1)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n  {self.mixture_distribution!r},"
            f"\n  {self.component_distribution!r})"
        )
