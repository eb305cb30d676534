"""The Wishart distribution of positive definite matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Size, Tensor, nan
from rushlight._ignored import warn_program as _warn_program
from rushlight.distributions import constraints
from rushlight.distributions.chi2 import Chi2
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.multivariate_normal import (
    _half_log_det,
    _HasScaleMatrix,
    _one_matrix,
)

__all__ = ["Wishart"]


class Wishart(_HasScaleMatrix, ExponentialFamily):
    """The sum of x x^T over df normal vectors of covariance C.

    Args:
        df: degrees of freedom, above n - 1; need not be whole.
        covariance_matrix: (..., n, n) C, or else
        precision_matrix: C^-1, or else
        scale_tril: lower triangular L of C = L L^T.

    Source of the sampling: Bartlett (1933): L A A^T L^T, with chi-squared numbers' roots on A's
    diagonal and normal ones below it.

    Example:
        >>> torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support: Constraint = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = _one_matrix(
            "Wishart",
            covariance_matrix=covariance_matrix,
            scale_tril=scale_tril,
            precision_matrix=precision_matrix,
        )
        df = rushlight.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = rushlight.broadcast_shapes(matrix.shape[:-2], df.shape)
        event_shape = matrix.shape[-2:]
        self.df: Tensor = df.expand(batch_shape)
        if (self.df <= event_shape[-1] - 1).any():
            raise ValueError(
                f"Wishart: df must be above {event_shape[-1] - 1} for {event_shape[-1]} x "
                f"{event_shape[-1]} matrices, got {df}"
            )
        self.__dict__[name] = matrix.expand(batch_shape + event_shape)
        Distribution.__init__(self, batch_shape, event_shape, validate_args=validate_args)
        if (self.df < event_shape[-1]).any():
            _warn_program(
                "Wishart: df below the size of the matrices gives samples that may be singular",
            )
        self._set_matrix(name, matrix, batch_shape)
        below = rushlight.arange(event_shape[-1], dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - below)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._size - 1),
        }

    @property
    def _size(self):
        return self._event_shape[-1]

    @property
    def mean(self) -> Tensor:
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._size - 1
        factor = factor.masked_fill(factor <= 0, nan)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        C = self.covariance_matrix
        diagonal = C.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view(self._batch_shape + (1, 1)) * (C.pow(2) + outer)

    def _bartlett_sampling(self, sample_shape=()):
        n = self._size
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed()
        row, column = rushlight.tril_indices(n, n, -1)
        shape = Size(sample_shape) + self._batch_shape + (n * (n - 1) // 2,)
        noise[..., row, column] = rushlight.randn(shape, dtype=noise.dtype, device=noise.device)
        root = self._unbroadcasted_scale_tril @ noise
        return root @ root.mT

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: Any = None) -> Tensor:
        """Draw samples; those that rounding made singular are drawn again.

        Args:
            sample_shape: shape of the draws.
            max_try_correction: how often at most; by default 10 for a single matrix, else 3.
        """
        if max_try_correction is None:
            max_try_correction = 3 if len(self._batch_shape) > 0 else 10
        sample = self._bartlett_sampling(sample_shape)
        for attempt in range(max_try_correction):
            singular = ~self.support.check(sample)[..., None, None]
            if attempt > 0 and not singular.any():
                return sample
            # torch takes good first draws for singular ones: to keep its numbers, draw twice.
            again = self._bartlett_sampling(sample_shape)
            sample = again if attempt == 0 else again.where(singular, sample)
        if not self.support.check(sample).all():
            _warn_program("Wishart: a sample is singular, all draws of it were")
        return sample

    def _log_gamma(self, half_df):
        return half_df.mvlgamma(self._size)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        n, df = self._size, self.df
        trace = rushlight.cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = trace.diagonal(dim1=-2, dim2=-1).sum(-1)
        normalizer = df * (n * math.log(2) / 2 + _half_log_det(self._unbroadcasted_scale_tril))
        log_det = rushlight.linalg.slogdet(value).logabsdet
        return (df - n - 1) / 2 * log_det - trace / 2 - normalizer - self._log_gamma(df / 2)

    def entropy(self) -> Tensor:
        n, df = self._size, self.df
        halves = df.unsqueeze(-1) / 2 - rushlight.arange(n, dtype=df.dtype, device=df.device) / 2
        return (
            (n + 1) * (n * math.log(2) / 2 + _half_log_det(self._unbroadcasted_scale_tril))
            + self._log_gamma(df / 2)
            - (df - n - 1) / 2 * halves.digamma().sum(-1)
            + df * n / 2
        )

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._size - 1) / 2

    def _log_normalizer(self, x, y):
        half_df = y + (self._size + 1) / 2
        log_det = rushlight.linalg.slogdet(-2 * x).logabsdet
        return half_df * (self._size * math.log(2) - log_det) + self._log_gamma(half_df)
