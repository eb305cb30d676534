"""The distribution of a function of random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint, _GreaterThan, _Interval
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.independent import Independent
from rushlight.distributions.transforms import ComposeTransform, Transform
from rushlight.distributions.utils import _same_as, _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """y = f(x) for x of another distribution: log p(y) = log p(x) - log |dy / dx|.

    Args:
        base_distribution: that of x.
        transforms: f, a `Transform` or a list of them, applied in order.

    Example:
        >>> base = torch.distributions.Normal(torch.zeros(2), 1.0)
        >>> exp = torch.distributions.ExpTransform()
        >>> torch.distributions.TransformedDistribution(base, exp).support
        GreaterThan(lower_bound=0.0)
    """

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(transforms, list) or not all(
            isinstance(t, Transform) for t in transforms
        ):
            raise ValueError(
                f"{type(self).__name__}: transforms must be a Transform or a list of them, "
                f"got {transforms!r}"
            )
        self.transforms = transforms
        whole = ComposeTransform(transforms)
        base_event_dim = len(base_distribution.event_shape)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(
                f"{type(self).__name__}: the base distribution needs a shape of at least "
                f"{whole.domain.event_dim} dims, got {tuple(base_shape)}"
            )
        # A transform's own parameters may broaden the batch, or group its dims into events.
        shape = whole.forward_shape(base_shape)
        broadened = Size(whole.inverse_shape(shape))
        if broadened != base_shape:
            batch = broadened[: len(broadened) - base_event_dim]
            base_distribution = base_distribution.expand(batch)
        grouped = whole.domain.event_dim - base_event_dim
        if grouped > 0:
            base_distribution = Independent(base_distribution, grouped)
        self.base_dist: Distribution = base_distribution

        more = whole.codomain.event_dim - whole.domain.event_dim
        event_dim = max(whole.codomain.event_dim, base_event_dim + more)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    has_rsample: property = _same_as("base_dist.has_rsample")

    @constraints.dependent_property
    def support(self) -> _GreaterThan | _Interval:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def _forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with rushlight.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        event_dim = len(self.event_shape)
        log_prob, y = 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            jacobian = transform.log_abs_det_jacobian(x, y)
            log_prob = log_prob - _sum_rightmost(jacobian, event_dim - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return log_prob + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _turned(self, probability):
        """A decreasing map takes the probability of less to that of more."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5

    def cdf(self, value: Any) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Tensor:
        return self._forward(self.base_dist.icdf(self._turned(value)))
