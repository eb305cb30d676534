"""Parametrizations: orthogonal weights, weight norm, spectral norm."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize
from rushlight.nn.utils.spectral_norm import as_matrix, output_dim
from rushlight.nn.utils.weight_norm import norm_except_dim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from rushlight.nn.parameter import Parameter

    _T = TypeVar("_T", bound="Module")

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _is_orthogonal(q, eps=None):
    n, k = q.size(-2), q.size(-1)
    identity = rushlight.eye(k, dtype=q.dtype, device=q.device)
    eps = 10.0 * n * rushlight.finfo(q.dtype).eps if eps is None else eps
    return rushlight.allclose(q.mH @ q, identity, atol=eps)


def _make_orthogonal(a):
    """The Q of a QR decomposition whose R has a positive diagonal."""
    q, r = rushlight.linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """A matrix with orthonormal columns (or rows, if it is wide) from an unconstrained one."""

    def __init__(
        self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.size(-2) < x.size(-1)
        if wide:
            x = x.mT
        if self.orthogonal_map == _OrthMaps.householder:
            lower = x.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (lower * lower.conj()).sum(dim=-2))
            q = rushlight.linalg.householder_product(lower, tau)
            # The diagonal holds signs.
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            q = self._from_skew(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _from_skew(self, x):
        n, k = x.size(-2), x.size(-1)
        x = x.tril()
        if n != k:
            rest = x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)
            x = rushlight.cat([x, rest], dim=-1)
        skew = x - x.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            q = rushlight.matrix_exp(skew)
        else:
            identity = rushlight.eye(n, dtype=skew.dtype, device=skew.device)
            q = rushlight.linalg.solve(identity - 0.5 * skew, identity + 0.5 * skew)
        return q if n == k else q[..., :k]

    def right_inverse(self, q: Any) -> Tensor:
        """The unconstrained matrix that gives `q`, which is first made orthogonal."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {tuple(self.shape)}. Got a "
                f"tensor of shape {tuple(q.shape)}."
            )
        given = q
        wide = q.size(-2) < q.size(-1)
        if wide:
            q = q.mT
        n, k = q.size(-2), q.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map != _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to a parametrization by the matrix "
                    "exponential or by Cayley's map when use_trivialization=False"
                )
            a, tau = rushlight.geqrf(q)
            # Reflections with tau 0 are the identity, whose sign is the other one.
            signs = a.diagonal(dim1=-2, dim2=-1)
            signs.sign_()
            signs[tau == 0.0] *= -1
            return a.mT if wide else a
        if n == k:
            q = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        else:
            more = rushlight.randn((*q.shape[:-2], n, n - k), dtype=q.dtype, device=q.device)
            q = _make_orthogonal(rushlight.cat([q, more], dim=-1))
        self.base = q
        # With -1 on the diagonal all maps give the identity: the base is the matrix.
        start = rushlight.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: _T,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> _T:
    """Keep a weight orthogonal (its columns or rows orthonormal if it is not square).

    Args:
        orthogonal_map: "matrix_exp", "cayley" or "householder"; None is the first for square and
            complex matrices and the last for others.
        use_trivialization: parametrize around the present weight; needs more memory.

    Lezcano-Casado, "Trivializations for Gradient-Based Optimization on Manifolds", 2019.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, rushlight.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices, got {weight.ndim} dims")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Parameter]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: _T, name: str = "weight", dim: int = 0) -> _T:
    """A weight as its length along `dim` (original0) times its direction (original1).

    Salimans and Kingma, "Weight Normalization", 2016.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_older_names(
        state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        older = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in older):
            for i, key in enumerate(older):
                place = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[place] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(read_older_names)
    return module


class _SpectralNorm(Module):
    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            rows, columns = matrix.size()
            u = matrix.new_empty(rows).normal_(0, 1)
            v = matrix.new_empty(columns).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix, iterations):
        with rushlight.no_grad():
            for _ in range(iterations):
                u = rushlight.mv(matrix, self._v)
                F.normalize(u, dim=0, eps=self.eps, out=self._u)
                v = rushlight.mv(matrix.mH, self._u)
                F.normalize(v, dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # The buffers change in the next forward; backward needs these values.
        u, v = self._u.clone(), self._v.clone()
        return weight / rushlight.vdot(u, rushlight.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: _T,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> _T:
    """Divide a weight by its largest singular value, estimated by power iteration.

    Args:
        n_power_iterations: steps per forward in training.
        eps: least norm.
        dim: the dim of outputs; None finds it.

    Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, rushlight.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = output_dim(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
