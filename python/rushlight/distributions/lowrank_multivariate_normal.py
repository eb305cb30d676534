"""The normal distribution of vectors, with a covariance of low rank plus a diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.multivariate_normal import (
    _batch_mahalanobis,
    _batch_mv,
    _half_log_det,
)
from rushlight.distributions.utils import _same_as, _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance W W^T + D, at a cost that grows with the rank of W.

    Args:
        loc: (..., n) mean.
        cov_factor: (..., n, k) W.
        cov_diag: (..., n) diagonal of D.

    With K = I + W^T D^-1 W, the Woodbury identity gives C^-1 = D^-1 - D^-1 W K^-1 W^T D^-1, and the
    matrix determinant lemma det C = det K det D.

    Example:
        >>> W = torch.tensor([[1.0], [2.0]])
        >>> torch.distributions.LowRankMultivariateNormal(torch.zeros(2), W, torch.ones(2)).variance
        tensor([2., 5.])
    """

    mode: property
    mean: property

    arg_constraints: dict[str, Constraint] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Constraint = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        name = type(self).__name__
        if loc.dim() < 1:
            raise ValueError(f"{name}: loc must have at least one dim, got shape ()")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2 or cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"{name}: cov_factor must have shape (..., {event_shape[0]}, k), "
                f"got {tuple(cov_factor.shape)}"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(
                f"{name}: cov_diag must have shape (..., {event_shape[0]}), "
                f"got {tuple(cov_diag.shape)}"
            )
        shapes = (loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        batch_shape = rushlight.broadcast_shapes(*shapes)
        self.loc: Tensor = loc.expand(batch_shape + event_shape)
        self.cov_factor: Tensor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag: Tensor = cov_diag.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        weighted = cov_factor.mT / cov_diag.unsqueeze(-2)
        capacitance = weighted @ cov_factor
        capacitance = capacitance + rushlight.eye(
            capacitance.shape[-1], dtype=capacitance.dtype, device=capacitance.device
        )
        self._capacitance_tril = rushlight.linalg.cholesky(capacitance)

    mean = mode = _same_as("loc")

    @lazy_property
    def variance(self) -> Tensor:
        rows = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return rows.expand(self._batch_shape + self._event_shape)

    @property
    def scale_tril(self) -> Tensor:
        # D^1/2 (I + U U^T) D^1/2 with U = D^-1/2 W: the matrix inside is well conditioned.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inside = scaled @ scaled.mT
        inside = inside + rushlight.eye(inside.shape[-1], dtype=inside.dtype, device=inside.device)
        return self._expanded(root * rushlight.linalg.cholesky(inside))

    @property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_cov_factor
        return self._expanded(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @property
    def precision_matrix(self) -> Tensor:
        diag = self._unbroadcasted_cov_diag
        weighted = self._unbroadcasted_cov_factor.mT / diag.unsqueeze(-2)
        half = rushlight.linalg.solve_triangular(self._capacitance_tril, weighted, upper=False)
        return self._expanded(diag.reciprocal().diag_embed() - half.mT @ half)

    def _expanded(self, matrix):
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        common = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        own = _standard_normal(shape, **options)
        spread = _batch_mv(self._unbroadcasted_cov_factor, common)
        return self.loc + spread + self._unbroadcasted_cov_diag.sqrt() * own

    def _log_det(self):
        """log det C."""
        return 2 * _half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(
            -1
        )

    def _squared_length(self, x):
        """x^T C^-1 x."""
        weighted = x / self._unbroadcasted_cov_diag
        common = _batch_mv(self._unbroadcasted_cov_factor.mT, weighted)
        reduction = _batch_mahalanobis(self._capacitance_tril, common)
        return (x * weighted).sum(-1) - reduction

    def _factor(self):
        """(..., n, k + n) F of C = F F^T."""
        own = self.cov_diag.sqrt().diag_embed()
        return rushlight.cat([self.cov_factor, own], -1)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        n = self._event_shape[0]
        squared = self._squared_length(value - self.loc)
        return -0.5 * (n * math.log(2 * math.pi) + self._log_det() + squared)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        entropy = 0.5 * (n * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)
