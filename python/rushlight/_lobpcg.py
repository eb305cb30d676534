"""A few eigenvalues at the end of the spectrum of a large symmetric matrix."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[..., Any] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest, or smallest, eigenvalues of a symmetric matrix, and their vectors.

    The generalised problem A x = l B x with a positive definite B is solved likewise. Where A or B
    needs a gradient, all eigenvalues are computed, by `linalg.eigh`.

    Args:
        A: matrices of shape (*, m, m), dense or sparse; only dense ones in a batch.
        k: how many; by default as many as X has columns, else 1.
        B: of A's shape; the identity by default.
        X: (*, m, n), where to begin; random by default.
        n: how many columns X has; by default k.
        iK: a preconditioner of A's shape, near the inverse of A.
        niter: at most so many steps; by default as many as are needed, up to 1000.
        tol: of the norm of A x - l B x beside those of A and x; by default the square root of the
            dtype's epsilon.
        largest: False for the smallest eigenvalues.
        method: "basic" or "ortho": one algorithm serves both.
        tracker: called after each step with an object that has `E`, `X`, `niter` and `converged`.
        ortho_iparams, ortho_fparams, ortho_bparams: not supported.

    Returns:
        Eigenvalues of shape (*, k), the largest first (the smallest first if they are wanted), and
        vectors (*, m, k), B-orthonormal.

    Raises:
        ValueError: the matrix has fewer than 3 n rows, or an argument does not fit.

    Knyazev, "Toward the optimal preconditioned eigensolver", 2001.

    Example:
        >>> values, vectors = rushlight.lobpcg(rushlight.diag(rushlight.arange(1.0, 10.0)), k=1)
        >>> round(values.item(), 3)
        9.0
    """
    for name, given in (("ortho_iparams", ortho_iparams), ("ortho_fparams", ortho_fparams),
                        ("ortho_bparams", ortho_bparams)):  # fmt: skip
        if given is not None:
            raise NotImplementedError(f"lobpcg: {name} is not supported")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: expected method 'basic' or 'ortho', got {method!r}")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if X is None else X.shape[-1]) if n is None else n
    m = A.shape[-1]
    if A.dim() < 2 or A.shape[-2] != m:
        raise ValueError(f"lobpcg: expected square matrices, got shape {tuple(A.shape)}")
    if not 1 <= k <= n or m < 3 * n:
        raise ValueError(f"lobpcg: a matrix of {m} rows is too small for k={k} of n={n} columns: "
                         "give at most a third, or take linalg.eigh")  # fmt: skip
    largest = True if largest is None else largest
    if A.requires_grad or (B is not None and B.requires_grad):
        return _all(A, B, k, largest)
    batch = A.shape[:-2]
    if not batch:
        return _Solver(A, B, iK, largest, niter, tol, tracker).run(_first(A, X, m, n), k)
    flat = [None if t is None else t.reshape(-1, *t.shape[-2:]) for t in (A, B, X, iK)]
    found = []
    for i in range(flat[0].shape[0]):
        a, b, x, preconditioner = (None if t is None else t[i] for t in flat)
        solver = _Solver(a, b, preconditioner, largest, niter, tol, tracker)
        found.append(solver.run(_first(a, x, m, n), k))
    return (
        rushlight.stack([e for e, _ in found]).reshape(*batch, k),
        rushlight.stack([x for _, x in found]).reshape(*batch, m, k),
    )


def _first(A, X, m, n):
    return rushlight.randn(m, n, dtype=A.dtype, device=A.device) if X is None else X


def _all(A, B, k, largest):
    if B is None:
        # eigh reads one triangle; the eigenvalues of a product with A are those of both.
        values, vectors = rushlight.linalg.eigh((A + A.mT) / 2)
    else:
        factor = rushlight.linalg.cholesky(B)
        left = rushlight.linalg.solve_triangular(factor, A, upper=False)
        reduced = rushlight.linalg.solve_triangular(factor, left.mT, upper=False)
        values, vectors = rushlight.linalg.eigh((reduced + reduced.mT) / 2)
        vectors = rushlight.linalg.solve_triangular(factor.mT, vectors, upper=True)
    if largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :k], vectors[..., :k]


class _Solver:
    """One problem: Rayleigh and Ritz on approximations, residuals and last steps."""

    def __init__(self, A, B, iK, largest, niter, tol, tracker):
        self.A, self.B, self.iK, self.largest, self.tracker = A, B, iK, largest, tracker
        self.most = 1000 if niter is None or niter < 0 else niter
        self.tol = rushlight.finfo(A.dtype).eps ** 0.5 if tol is None else tol
        self.niter, self.converged = 0, False

    def _times_b(self, x):
        return x if self.B is None else self.B @ x

    def _ritz(self, basis, n):
        """The best approximations within a basis, whose columns need not be independent."""
        gram = basis.mT @ self._times_b(basis)
        sizes, directions = rushlight.linalg.eigh((gram + gram.mT) / 2)
        kept = sizes > sizes[-1] * rushlight.finfo(sizes.dtype).eps * 10 * sizes.shape[0]
        basis = basis @ (directions[:, kept] / sizes[kept].sqrt())
        small = basis.mT @ (self.A @ basis)
        values, vectors = rushlight.linalg.eigh((small + small.mT) / 2)
        if self.largest:
            values, vectors = values.flip(0), vectors.flip(1)
        return values[:n], basis @ vectors[:, :n]

    def run(self, X, k):
        with rushlight.no_grad():
            n = X.shape[-1]
            self.E, self.X = self._ritz(X, n)
            step = None
            scale = self._norm()
            while self.niter < self.most:
                self.niter += 1
                residual = self.A @ self.X - self._times_b(self.X) * self.E
                bound = self.tol * self.X.norm(dim=0) * (scale + self.E.abs())
                self.converged = bool((residual.norm(dim=0) <= bound)[:k].all())
                if self.tracker is not None:
                    self.tracker(self)
                if self.converged:
                    break
                search = residual if self.iK is None else self.iK @ residual
                search = search / search.norm(dim=0).clamp_min(rushlight.finfo(X.dtype).tiny)
                parts = [self.X, search] if step is None else [self.X, search, step]
                before = self.X
                self.E, self.X = self._ritz(rushlight.cat(parts, 1), n)
                inside = before.mT @ self._times_b(self.X)
                step = self.X - before @ inside
                step = step / step.norm(dim=0).clamp_min(rushlight.finfo(X.dtype).tiny)
            return self.E[:k], self.X[:, :k]

    def _norm(self):
        values = self.A.coalesce().values() if self.A.is_sparse else self.A
        values = values if isinstance(values, rushlight.Tensor) else self.A.values()
        return values.norm() / max(self.A.shape[-1], 1) ** 0.5
