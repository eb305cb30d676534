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
    input: Tensor,
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
    check_matrix("linalg.pinv", input)
    if rcond is not None:
        rtol = rcond
    real = input.real.dtype if input.is_complex() else input.dtype

    def as_tensor(name, value):
        if value is None:
            return None
        if isinstance(value, rushlight.Tensor) and value.is_complex():
            raise RuntimeError(f"linalg.pinv: {name} tensor of complex type is not supported.")
        return rushlight.as_tensor(value, dtype=real)

    return into(
        out, _native._pinv(input, as_tensor("atol", atol), as_tensor("rtol", rtol), hermitian)
    )


@autocasts("float32")
@shown_as("LinalgLstsqBackward0", "input", "b")
def lstsq(
    input: Tensor,
    b: Tensor,
    rcond: Any = None,
    *,
    driver: str | None = None,
    out: Tensor | None = None,
) -> Any:
    """X that makes the sum of squares of input @ X - b least.

    Args:
        rcond: singular values below rcond * the largest count as zero; max(rows, columns) * eps by
            default.
        driver: LAPACK's 'gels' (full rank), 'gelsy' (default), 'gelsd' or 'gelss'.

    Returns:
        solution, residuals (of full rank and more rows than columns, else empty), rank,
        singular_values.
    """
    check_matrix("torch.linalg.lstsq", input)
    if b.dim() < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if input.dtype != b.dtype:
        raise RuntimeError(
            "torch.linalg.lstsq: Expected input and other to have the same dtype, got "
            f"{input.dtype} and {b.dtype}"
        )
    if driver is None:
        driver = "gelsy"
    if driver not in _DRIVERS:
        raise RuntimeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of {_DRIVERS}, not {driver!r}"
        )
    vector = input.dim() - 1 == b.dim() and input.shape[:-1] == b.shape
    right = b.unsqueeze(-1) if vector else b
    if right.dim() < 2 or right.shape[-2] != input.shape[-2]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    batch = rushlight.broadcast_shapes(input.shape[:-2], right.shape[:-2])
    # What belongs to the matrices alone is of their own batch.
    own = (0,) * (len(batch) + 2 - input.dim()) + tuple(
        slice(0, 1) if n == 1 else slice(None) for n in input.shape[:-2]
    )
    input, right = input.expand(*batch, *input.shape[-2:]), right.expand(*batch, *right.shape[-2:])
    rcond = eps(input) * max(input.shape[-2:]) if rcond is None else rcond
    solution, rank, values = _native._lstsq(input, right, rcond, driver)
    values = values.detach()  # which have no gradient in torch
    residuals = solution.real.new_empty(0) if solution.is_complex() else solution.new_empty(0)
    if (
        input.shape[-2] > input.shape[-1]
        and driver != "gelsy"
        and (driver == "gels" or bool((rank == input.shape[-1]).all()))
    ):
        residuals = (right - input @ solution).abs().square().sum(-2)
        if vector:
            residuals = residuals.squeeze(-1) if residuals.dim() > 1 else residuals
    rank = rank if driver == "gels" else rank[own]
    values = values[own] if driver in ("gelsd", "gelss") else values
    found = (solution.squeeze(-1) if vector else solution, residuals, rank, values)
    return linalg_lstsq(*(found if out is None else map(into, out, found)))
