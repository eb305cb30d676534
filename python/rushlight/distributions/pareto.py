"""The Pareto distribution."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, ExpTransform
from rushlight.distributions.utils import _same_as, broadcast_all

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """p(x) = alpha scale^alpha / x^(alpha + 1) for x >= scale.

    Args:
        scale: the least value.
        alpha: how fast the tail falls.

    Example:
        >>> torch.distributions.Pareto(torch.tensor(1.0), torch.tensor(3.0)).mean
        tensor(1.5000)
    """

    scale: Tensor
    alpha: Tensor

    arg_constraints: dict[str, Constraint] = {
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }

    def __init__(
        self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    mode: property = _same_as("scale")

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
