"""Invertible maps, with the logarithms of their changes of volume."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Size, Tensor
from rushlight._set_module import set_module
from rushlight.distributions import constraints
from rushlight.distributions._transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    _InverseTransform as _InverseTransform,  # which libraries import from here
    _with_event_dim,
    identity_transform,
)
from rushlight.distributions.constraints import Constraint, _Cat, _Stack
from rushlight.distributions.utils import (
    _sum_rightmost,
    broadcast_all,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from rushlight.nn.functional import logsigmoid, pad, softplus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.distributions.distribution import Distribution

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftplusTransform", "TanhTransform", "SoftmaxTransform", "StackTransform",
    "StickBreakingTransform", "Transform", "identity_transform",
]  # fmt: skip


# ---- maps of each element ------------------------------------------------------------------------


class ExpTransform(Transform):
    """y = exp(x)."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x^exponent."""

    exponent: Tensor

    domain: Constraint = constraints.positive
    codomain: Constraint = constraints.positive
    bijective = True
    _arguments = ("exponent",)

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return rushlight.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _clipped_sigmoid(x):
    """The sigmoid, kept away from 0 and 1."""
    finfo = rushlight.finfo(x.dtype)
    return x.sigmoid().clamp(min=finfo.tiny, max=1.0 - finfo.eps)


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)), kept away from 0 and 1."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.unit_interval
    bijective = True
    sign = +1

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        finfo = rushlight.finfo(y.dtype)
        y = y.clamp(min=finfo.tiny, max=1.0 - finfo.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x)), x itself where x > 20."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x):
        return softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x). Keep a cache where the inverse of values near -1 and 1 is asked for."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # 1 - tanh(x)^2 = (2 / (e^x + e^-x))^2, which keeps its digits where tanh rounds to 1.
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; the inverse takes the positive side."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale * x, of events of `event_dim` dims."""

    loc: Tensor | float
    scale: Tensor | float

    bijective = True
    _arguments = ("loc", "scale", "event_dim")

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return _with_event_dim(constraints.real, self.event_dim)

    codomain = domain

    @property
    def sign(self) -> Tensor | int:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            scale = self.scale.abs().log()
        else:
            scale = rushlight.full_like(x, math.log(abs(self.scale)))
        return _sum_rightmost(scale.expand(x.shape), self.event_dim)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        shapes = [getattr(argument, "shape", ()) for argument in (self.loc, self.scale)]
        return rushlight.broadcast_shapes(shape, *shapes)

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution of numbers: to the uniform distribution on [0, 1]."""

    bijective = True
    codomain: Constraint = constraints.unit_interval
    sign = +1
    _arguments = ("distribution",)

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint | None:
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


# ---- maps to vectors -----------------------------------------------------------------------------


class SoftmaxTransform(Transform):
    """y = exp(x) / sum(exp(x)): onto the simplex, not bijective; for optimisation."""

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return _at_least(1, shape, self)

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """n - 1 numbers to n probabilities: each takes its sigmoid's share of what is left of a stick.

    The logits are shifted so that zeros give equal probabilities.
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex
    bijective = True

    def _call(self, x):
        z = (x - self._shift(x)).sigmoid()
        left = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y):
        share = y[..., :-1]
        left = 1 - share.cumsum(-1)
        left = left.clamp(min=rushlight.finfo(y.dtype).tiny)
        return share.log() - left.log() + self._shift(share)

    def _shift(self, x):
        """log of how many pieces come after each."""
        size = x.shape[-1]
        return rushlight.arange(size, 0, -1, dtype=x.dtype, device=x.device).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._shift(x)
        return (logsigmoid(x) - x + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return _at_least(1, shape, self)[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return _at_least(1, shape, self)[:-1] + (shape[-1] - 1,)


# ---- maps to matrices ----------------------------------------------------------------------------


class LowerCholeskyTransform(Transform):
    """A square matrix to its lower triangle, with the exponential of its diagonal."""

    domain: Constraint = constraints.independent(constraints.real, 2)
    codomain: Constraint = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """A square matrix to L L^T, with L as `LowerCholeskyTransform` makes it."""

    domain: Constraint = constraints.independent(constraints.real, 2)
    codomain: Constraint = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(rushlight.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the Cholesky factor of an n x n correlation matrix.

    The numbers' tanh are partial correlations z; row i takes z_ij times the square root of what is
    left of its squared length 1, and the rest stands on the diagonal.
    Source: Lewandowski, Kurowicka and Joe (2009).
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = rushlight.finfo(x.dtype).eps
        z = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - z**2).sqrt().cumprod(-1)
        z = z + rushlight.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        return z * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = pad(1 - (y * y).cumsum(-1)[..., :-1], [1, 0], value=1)
        z = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (z.log1p() - (-z).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        # d tanh(x) for each number, and sqrt(left) for each element below the diagonal.
        left = 1 - (y * y).cumsum(-1)
        lengths = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return lengths + tanh

    def forward_shape(self, shape: Sequence[int]) -> Size:
        count = _at_least(1, shape, self)[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError(f"CorrCholeskyTransform: {count} elements do not fill a triangle")
        return rushlight.Size(shape[:-1]) + (size, size)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        size = _at_least(2, shape, self)[-1]
        if shape[-2] != size:
            raise ValueError(f"CorrCholeskyTransform: shape {tuple(shape)} is not square")
        return rushlight.Size(shape[:-2]) + (size * (size - 1) // 2,)


def _at_least(dims, shape, transform):
    if len(shape) < dims:
        raise ValueError(
            f"{type(transform).__name__}: expected at least {dims} dims, got shape {tuple(shape)}"
        )
    return rushlight.Size(shape)


# ---- different maps for pieces of a tensor -------------------------------------------------------


class CatTransform(Transform):
    """A transform for each of consecutive pieces, of the given lengths, along a dim."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise TypeError(f"CatTransform: expected transforms, got {tseq!r}")
        super().__init__(cache_size)
        self.transforms: list[Transform | TanhTransform] = [
            t.with_cache(cache_size) if cache_size else t for t in tseq
        ]
        self.lengths: list[int] = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(
                f"CatTransform: got {len(self.lengths)} lengths for {len(self.transforms)} "
                "transforms"
            )
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Length of the whole along the dim."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, value):
        if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != self.length:
            raise ValueError(
                f"CatTransform: dim {self.dim} of shape {tuple(value.shape)} does not have "
                f"length {self.length}"
            )
        return value.split(self.lengths, self.dim)

    def _call(self, x):
        return rushlight.cat([t(v) for t, v in zip(self.transforms, self._pieces(x))], self.dim)

    def _inverse(self, y):
        pieces = zip(self.transforms, self._pieces(y))
        return rushlight.cat([t.inv(v) for t, v in pieces], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, a, b in zip(self.transforms, self._pieces(x), self._pieces(y)):
            term = t.log_abs_det_jacobian(a, b)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        if dim < 0:
            return rushlight.cat(terms, dim)
        return sum(terms)  # the pieces lie within one event

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> _Cat:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> _Cat:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """A transform for each slice along a dim."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise TypeError(f"StackTransform: expected transforms, got {tseq!r}")
        super().__init__(cache_size)
        self.transforms: list[Transform | TanhTransform] = [
            t.with_cache(cache_size) if cache_size else t for t in tseq
        ]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, value):
        if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != len(
            self.transforms
        ):
            raise ValueError(
                f"StackTransform: dim {self.dim} of shape {tuple(value.shape)} does not have "
                f"length {len(self.transforms)}"
            )
        return value.unbind(self.dim)

    def _call(self, x):
        return rushlight.stack([t(v) for t, v in zip(self.transforms, self._slices(x))], self.dim)

    def _inverse(self, y):
        slices = zip(self.transforms, self._slices(y))
        return rushlight.stack([t.inv(v) for t, v in slices], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        triples = zip(self.transforms, self._slices(x), self._slices(y))
        return rushlight.stack([t.log_abs_det_jacobian(a, b) for t, a, b in triples], self.dim)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> _Stack:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> _Stack:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


set_module(__name__, ComposeTransform, IndependentTransform, ReshapeTransform, Transform)
set_module(__name__, _InverseTransform)
