"""The LKJ distribution of correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.beta import Beta
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors L of correlation matrices of density ~ det(L L^T)^(concentration - 1).

    Args:
        dim: size of the matrices.
        concentration: 1 makes all correlation matrices alike; larger ones favour the identity.

    Source: Lewandowski, Kurowicka and Joe (2009), the onion method.

    Example:
        >>> torch.distributions.LKJCholesky(3, 0.5).event_shape
        torch.Size([3, 3])
    """

    concentration: Tensor

    arg_constraints: dict[str, Constraint] = {"concentration": constraints.positive}
    support: Constraint = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim must be at least 2, got {dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The squared length of what row i has left of its diagonal.
        options = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        row = rushlight.arange(dim - 1, **options)
        row = rushlight.cat([row.new_zeros((1,)), row])
        marginal = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2)
        self._beta = Beta(row + 0.5, marginal - 0.5 * row)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        length = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        normal = rushlight.randn(shape, dtype=length.dtype, device=length.device).tril(-1)
        direction = normal / normal.norm(dim=-1, keepdim=True)
        direction[..., 0, :].fill_(0.0)
        w = length.sqrt() * direction
        tiny = rushlight.finfo(w.dtype).tiny
        diagonal = (1 - (w**2).sum(-1)).clamp(min=tiny).sqrt()
        return w + diagonal.diag_embed()

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        # The Jacobian of L L^T raises each diagonal element to a power of its own.
        n, concentration = self.dim, self.concentration
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = rushlight.arange(2, n + 1, dtype=concentration.dtype, device=concentration.device)
        order = 2 * (concentration - 1).unsqueeze(-1) + n - order
        unnormalized = (order * diagonal.log()).sum(-1)
        alpha = concentration + 0.5 * (n - 1)
        normalizer = (n - 1) * 0.5 * math.log(math.pi) + (alpha - 0.5).mvlgamma(n - 1)
        return unnormalized - (normalizer - alpha.lgamma() * (n - 1))
