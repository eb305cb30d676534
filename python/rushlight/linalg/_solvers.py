"""Least squares and pseudoinverses."""

from collections import namedtuple

import rushlight
from rushlight._out import into
from rushlight._table import linalg as _native
from rushlight.linalg._checks import check_matrix, eps

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")
_LstsqResult = namedtuple("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))


def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """Moore-Penrose inverses.

    Args:
        atol, rtol: singular values at most max(atol, rtol * the largest) count as zero; numbers or
            tensors of the batch's shape. rtol is max(rows, columns) * eps if neither is given.
        rcond: the older name of rtol.
        hermitian: the matrices are Hermitian.
    """
    check_matrix("linalg.pinv", A)
    if rcond is not None:
        rtol = rcond
    real = A.real.dtype if A.is_complex() else A.dtype

    def as_tensor(name, value):
        if value is None:
            return None
        if isinstance(value, rushlight.Tensor) and value.is_complex():
            raise RuntimeError(f"linalg.pinv: {name} tensor of complex type is not supported.")
        return rushlight.as_tensor(value, dtype=real)

    return into(out, _native._pinv(A, as_tensor("atol", atol), as_tensor("rtol", rtol), hermitian))


def lstsq(A, B, rcond=None, *, driver=None, out=None):
    """X that makes the sum of squares of A X - B least.

    Args:
        rcond: singular values below rcond * the largest count as zero; max(rows, columns) * eps by
            default.
        driver: LAPACK's 'gels' (full rank), 'gelsy' (default), 'gelsd' or 'gelss'.

    Returns:
        solution, residuals (of full rank and more rows than columns, else empty), rank,
        singular_values.
    """
    check_matrix("torch.linalg.lstsq", A)
    if B.dim() < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"torch.linalg.lstsq: Expected input and other to have the same dtype, got {A.dtype} "
            f"and {B.dtype}"
        )
    if driver is None:
        driver = "gelsy"
    if driver not in _DRIVERS:
        raise RuntimeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of {_DRIVERS}, not {driver!r}"
        )
    vector = A.dim() - 1 == B.dim() and A.shape[:-1] == B.shape
    right = B.unsqueeze(-1) if vector else B
    if right.dim() < 2 or right.shape[-2] != A.shape[-2]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    batch = rushlight.broadcast_shapes(A.shape[:-2], right.shape[:-2])
    A, right = A.expand(*batch, *A.shape[-2:]), right.expand(*batch, *right.shape[-2:])
    rcond = eps(A) * max(A.shape[-2:]) if rcond is None else rcond
    solution, rank, values = _native._lstsq(A, right, rcond, driver)
    residuals = solution.real.new_empty(0) if solution.is_complex() else solution.new_empty(0)
    full_rank = driver == "gels" or bool((rank == A.shape[-1]).all())
    if A.shape[-2] > A.shape[-1] and full_rank and driver != "gelsy":
        residuals = (right - A @ solution).abs().square().sum(-2)
        if vector:
            residuals = residuals.squeeze(-1) if residuals.dim() > 1 else residuals
    found = (solution.squeeze(-1) if vector else solution, residuals, rank, values)
    return _LstsqResult(*(found if out is None else map(into, out, found)))
