"""Products of several pairs of matrices of different sizes."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor
    from rushlight.types import _dtype


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: _dtype | None = None,
) -> Tensor:
    """Multiply matrices group by group, as experts of a mixture do.

    Args:
        mat_a: (m, k), whose rows (or, with a mat_b of two dims, columns) are divided into groups,
            or (groups, m, k).
        mat_b: (groups, k, n), or (k, n), whose columns (or rows) are divided.
        offs: (groups,), int32: where each group ends, if a matrix has two dims.
        bias: (n,) or (groups, n), added to each row.
        out_dtype: of the result; by default that of mat_a.

    Returns:
        (m, n), whose rows or columns are the groups', or (groups, m, n).

    Raises:
        ValueError: the shapes or offsets do not fit.

    Example:
        >>> import rushlight
        >>> a, b = rushlight.ones(3, 2), rushlight.ones(2, 2, 1)
        >>> b[1] = 5
        >>> grouped_mm(a, b, offs=rushlight.tensor([1, 3], dtype=rushlight.int32)).flatten()
        tensor([ 2., 10., 10.])
    """
    if mat_a.dim() not in (2, 3) or mat_b.dim() not in (2, 3):
        raise ValueError(
            f"grouped_mm: expected 2 or 3 dims, got shapes {tuple(mat_a.shape)} and "
            f"{tuple(mat_b.shape)}"
        )
    if (offs is None) == (mat_a.dim() == 2 or mat_b.dim() == 2):
        raise ValueError("grouped_mm: offs is for matrices of two dims, and is needed for these")
    if mat_a.dim() == 3 and mat_b.dim() == 3:
        result = mat_a @ mat_b
    else:
        result = _by_offsets(mat_a, mat_b, offs)
    if bias is not None:
        result = result + (bias.unsqueeze(-2) if bias.dim() == 2 else bias)
    return result.to(mat_a.dtype if out_dtype is None else out_dtype)


def _by_offsets(a, b, offs):
    ends = offs.tolist()
    starts = [0, *ends[:-1]]
    if any(end < start for start, end in zip(starts, ends)):
        raise ValueError(f"grouped_mm: offs must grow, got {ends}")
    if a.dim() == 2 and b.dim() == 2:  # groups of the dim that is summed over
        return rushlight.stack([a[:, s:e] @ b[s:e] for s, e in zip(starts, ends)])
    many, size = (b, a.shape[0]) if a.dim() == 2 else (a, b.shape[1])
    if len(ends) != many.shape[0] or (ends and ends[-1] > size):
        raise ValueError(
            f"grouped_mm: offs {ends} do not fit {many.shape[0]} groups of {size} in all"
        )
    if a.dim() == 2:
        parts = [a[s:e] @ b[i] for i, (s, e) in enumerate(zip(starts, ends))]
        rest = a.new_zeros((size - ends[-1], b.shape[-1]))
        return rushlight.cat([*parts, rest])
    parts = [a[i] @ b[:, s:e] for i, (s, e) in enumerate(zip(starts, ends))]
    return rushlight.cat([*parts, a.new_zeros((a.shape[1], size - ends[-1]))], 1)
