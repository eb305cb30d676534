"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _same_as, _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _solve_lower(factor, vectors):
    """L^-1 x for each x of (..., n): one solve for all that share a matrix of (batch..., n, n)."""
    batch = factor.shape[:-2]
    first = vectors.dim() - 1 - len(batch)
    if first < 0 or vectors.shape[first:-1] != batch:  # L has dims that broadcast
        columns = rushlight.linalg.solve_triangular(factor, vectors.unsqueeze(-1), upper=False)
        return columns.squeeze(-1)
    columns = vectors.reshape((-1,) + tuple(vectors.shape[first:])).movedim(0, -1)
    solved = rushlight.linalg.solve_triangular(factor, columns, upper=False)
    return solved.movedim(-1, 0).reshape(vectors.shape)


def _batch_mv(matrix, vector):
    """A x, of (..., n, k) and (..., k)."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor, x):
    """x^T (L L^T)^-1 x."""
    return _solve_lower(factor, x).pow(2).sum(-1)


def _half_log_det(factor):
    """log det L."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _precision_to_scale_tril(precision):
    """The Cholesky factor of P^-1. With J the reversal of order: J P J = F F^T, and P = (J F J)
    (J F J)^T, whose factor is upper triangular; its transposed inverse is lower."""
    upper = rushlight.linalg.cholesky(precision.flip(-2, -1)).flip(-2, -1).mT
    identity = rushlight.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return rushlight.linalg.solve_triangular(upper, identity, upper=False)


def _one_matrix(name, **matrices):
    """(name, matrix) of the only one that was given, which must be a matrix."""
    given = [(key, value) for key, value in matrices.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            f"{name}: exactly one of {', '.join(matrices)} must be specified, got {len(given)}"
        )
    if given[0][1].dim() < 2:
        raise ValueError(
            f"{name}: {given[0][0]} must have at least two dims, "
            f"got shape {tuple(given[0][1].shape)}"
        )
    return given[0]


_FACTOR = {
    "scale_tril": lambda matrix: matrix,
    "covariance_matrix": lambda matrix: rushlight.linalg.cholesky(matrix),
    "precision_matrix": _precision_to_scale_tril,
}


class _HasScaleMatrix(Distribution):
    """One of a covariance, its inverse or its Cholesky factor; the others on demand."""

    def _set_matrix(self, name, matrix, batch_shape):
        self._unbroadcasted_scale_tril = _FACTOR[name](matrix)
        self.__dict__[name] = matrix.expand(batch_shape + matrix.shape[-2:])

    def _expanded(self, matrix):
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._expanded(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return self._expanded(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        return self._expanded(rushlight.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(_HasScaleMatrix):
    """p(x) ~ exp(-(x - loc)^T C^-1 (x - loc) / 2).

    Args:
        loc: (..., n) mean.
        covariance_matrix: (..., n, n) C, or else
        precision_matrix: C^-1, or else
        scale_tril: lower triangular L of C = L L^T, which spares a decomposition.

    Example:
        >>> torch.distributions.MultivariateNormal(torch.zeros(2), 4 * torch.eye(2)).stddev
        tensor([2., 2.])
    """

    mode: property
    mean: property

    arg_constraints: dict[str, Constraint] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Constraint = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("MultivariateNormal: loc must have at least one dim, got shape ()")
        name, matrix = _one_matrix(
            "MultivariateNormal",
            covariance_matrix=covariance_matrix,
            scale_tril=scale_tril,
            precision_matrix=precision_matrix,
        )
        batch_shape = rushlight.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc: Tensor = loc.expand(batch_shape + (-1,))
        self.__dict__[name] = matrix.expand(batch_shape + matrix.shape[-2:])
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._set_matrix(name, matrix, batch_shape)

    mean = mode = _same_as("loc")

    @property
    def variance(self) -> Tensor:
        rows = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return rows.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def _log_det(self):
        """log det C."""
        return 2 * _half_log_det(self._unbroadcasted_scale_tril)

    def _squared_length(self, x):
        """x^T C^-1 x."""
        return _batch_mahalanobis(self._unbroadcasted_scale_tril, x)

    def _factor(self):
        """(..., n, k) F of C = F F^T."""
        return self._unbroadcasted_scale_tril

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        n = self._event_shape[0]
        squared = self._squared_length(value - self.loc)
        return -0.5 * (n * math.log(2 * math.pi) + squared) - 0.5 * self._log_det()

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        entropy = 0.5 * n * (1.0 + math.log(2 * math.pi)) + 0.5 * self._log_det()
        return entropy.expand(self._batch_shape)
