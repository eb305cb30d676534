"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor, where
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _same_as, lazy_property

__all__ = ["VonMises"]


class VonMises(Distribution):
    """p(x) = exp(concentration cos(x - loc)) / (2 pi I0(concentration)), for angles x.

    Args:
        loc: the mean angle.
        concentration: 0 gives all angles alike; large ones, a normal distribution.

    Samples lie in [-pi, pi).
    Source of the sampling: Best and Fisher (1979), rejection from a wrapped Cauchy distribution.

    Example:
        >>> torch.distributions.VonMises(0.0, 1.0).log_prob(torch.tensor(1.0))
        tensor(-1.5335)
    """

    arg_constraints: dict[str, Constraint] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support: Constraint = constraints.real
    has_rsample = False

    def __init__(
        self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._start(validate_args, loc=loc, concentration=concentration)

    mean: property = _same_as("loc", doc="The circular mean.")
    mode: property = _same_as("loc")

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1 / I0."""
        k = self.concentration
        return 1 - rushlight.special.i1e(k) / rushlight.special.i0e(k)

    @lazy_property
    def _proposal_r(self):
        k = self.concentration.detach().double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        r = (1 + rho**2) / (2 * rho)
        return where(k < 1e-5, 1 / k + k, r)  # the series, where r has lost its digits

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with rushlight.no_grad():
            loc, k, r = self.loc.double(), self.concentration.double(), self._proposal_r
            x = loc.new_empty(shape)
            done = rushlight.zeros(shape, dtype=rushlight.bool, device=loc.device)
            while not done.all():
                u1, u2, u3 = rushlight.rand((3,) + tuple(shape), dtype=x.dtype, device=x.device)
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                x = where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        # log I0 through exp(-k) I0(k): no overflow.
        k = self.concentration
        log_i0 = rushlight.special.i0e(k).log() + k
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - log_i0
