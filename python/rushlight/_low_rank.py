"""Singular values and principal components of large matrices of low rank."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """About the q largest singular values of A (or of A - M), and their vectors.

    Args:
        A: matrices of shape (*, m, n).
        q: a little more than the rank.
        niter: how often a random subspace is multiplied by A A^H; more where the values fall
            slowly.
        M: subtracted from A, broadcast to its shape.

    Returns:
        U (*, m, q), S (*, q), V (*, n, q) with U diag(S) V^H near A. They are random: see
        `manual_seed`.

    Halko, Martinsson and Tropp, "Finding structure with randomness", 2009: algorithms 4.4 and 5.1.

    Example::

        >>> A = rushlight.outer(rushlight.ones(5), rushlight.arange(4.0))
        >>> U, S, V = rushlight.svd_lowrank(A, q=2)
        >>> bool((U @ S.diag() @ V.mT - A).abs().max() < 1e-4)
        True
    """
    q = 6 if q is None else q
    if M is not None:
        A = A - M.broadcast_to(A.shape)
    wide = A.shape[-2] < A.shape[-1]
    tall = A.mH if wide else A
    basis = _range_of(tall, q, 2 if niter is None else niter)
    U, S, Vh = rushlight.linalg.svd(basis.mH @ tall, full_matrices=False)
    V = Vh.mH
    U = basis @ U
    return (V, S, U) if wide else (U, S, V)


def _range_of(A, q, niter):
    """Orthonormal columns that span nearly what A maps to."""

    def orthonormal(x):
        return rushlight.linalg.qr(x).Q

    Q = orthonormal(A @ rushlight.randn(A.shape[-1], q, dtype=A.dtype, device=A.device))
    for _ in range(niter):
        Q = orthonormal(A @ orthonormal(A.mH @ Q))
    return Q


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """About the q first principal components of the rows of A.

    Args:
        A: data of shape (*, m, n): m observations of n values; sparse data becomes dense where a
            mean is subtracted.
        q: a little more than the rank, min(6, m, n) by default.
        center: subtract the mean of the rows.
        niter: see `svd_lowrank`.

    Returns:
        U, S, V of `svd_lowrank`; the columns of V are the directions, S^2 / (m - 1) the variances.

    Raises:
        ValueError: for q or niter out of range.

    Example::

        >>> U, S, V = rushlight.pca_lowrank(rushlight.randn(9, 3), q=2)
        >>> V.shape
        torch.Size([3, 2])
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A if A.layout is rushlight.strided else A.to_dense()
        A = A - A.mean(-2, keepdim=True)
    return svd_lowrank(A, q, niter)
