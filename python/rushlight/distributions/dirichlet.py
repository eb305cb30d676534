"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._implicit import dirichlet
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Points x of the simplex: p(x) = Gamma(sum_k a_k) prod_k x_k^(a_k - 1) / Gamma(a_k).

    Args:
        concentration: a, of shape (..., K).

    Example:
        >>> torch.distributions.Dirichlet(torch.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints: dict[str, Constraint] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support: Constraint = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("Dirichlet: concentration must have at least one dim, got shape ()")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def _total(self):
        return self.concentration.sum(-1, True)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self._total

    @property
    def mode(self) -> Tensor:
        # Where all concentrations are below 1, the density is highest in the corner of the largest.
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = (self.concentration < 1).all(-1, True)
        largest = self.concentration.argmax(-1, True)
        corners = mode.new_zeros(mode.shape).scatter_(-1, largest, 1.0)
        return corners.where(corner, mode)

    @property
    def variance(self) -> Tensor:
        a, total = self.concentration, self._total
        return a * (total - a) / (total**2 * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1)
        k = a.shape[-1]
        log_beta = a.lgamma().sum(-1) - total.lgamma()
        return log_beta - (k - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
