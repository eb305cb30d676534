"""Least squares and pseudoinverses."""

from __future__ import annotations

import rushlight
from rushlight._autocast import autocasts
from rushlight._out import into
from rushlight._shown_name import shown_as
from rushlight._table import linalg as _native
from rushlight.linalg._checks import check_matrix, eps
from rushlight.return_types import linalg_lstsq

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def pinv(
    A: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
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


@autocasts("float32")
@shown_as("LinalgLstsqBackward0", "A", "B")
def lstsq(
    A: Tensor, B: Tensor, rcond: Any = None, *, driver: str | None = None, out: Tensor | None = None
) -> Any:
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
    # What belongs to the matrices alone is of their own batch.
    own = (0,) * (len(batch) + 2 - A.dim()) + tuple(
        slice(0, 1) if n == 1 else slice(None) for n in A.shape[:-2]
    )
    A, right = A.expand(*batch, *A.shape[-2:]), right.expand(*batch, *right.shape[-2:])
    rcond = eps(A) * max(A.shape[-2:]) if rcond is None else rcond
    solution, rank, values = _native._lstsq(A, right, rcond, driver)
    values = values.detach()  # which have no gradient in torch
    residuals = solution.real.new_empty(0) if solution.is_complex() else solution.new_empty(0)
    full_rank = driver == "gels" or bool((rank == A.shape[-1]).all())
    if A.shape[-2] > A.shape[-1] and full_rank and driver != "gelsy":
        residuals = (right - A @ solution).abs().square().sum(-2)
        if vector:
            residuals = residuals.squeeze(-1) if residuals.dim() > 1 else residuals
    rank = rank if driver == "gels" else rank[own]
    values = values[own] if driver in ("gelsd", "gelss") else values
    found = (solution.squeeze(-1) if vector else solution, residuals, rank, values)
    return linalg_lstsq(*(found if out is None else map(into, out, found)))
