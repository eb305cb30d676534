"""Products of floats of 8 bits with scales."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._carried._codecs import is_unsigned, numbers_of
from rushlight._carried._tensor import CarriedTensor, plain
from rushlight._numpy_names import takes_numpy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _is_float8(tensor):
    known = isinstance(tensor, CarriedTensor) and tensor.dtype.itemsize == 1
    return known and not is_unsigned(tensor.dtype)


@takes_numpy_names
def _scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """Return (input @ mat2) * scale_a * scale_b + bias of matrices of floats of 8 bits.

    Args:
        input: M x K.
        mat2: K x N.
        scale_a: one number of float32, or M x 1.
        scale_b: one number of float32, or 1 x N.
        bias: N numbers.
        scale_result: what a result that out_dtype asks to be of floats of 8 bits is divided by.
        out_dtype: of the result; that of input by default.
        use_fast_accum: not used: sums are in float32.
    """
    del use_fast_accum
    rows, inner = input.shape if input.dim() == 2 else (-1, -1)
    if rows < 0 or mat2.dim() != 2 or mat2.shape[0] != inner:
        raise RuntimeError(
            f"_scaled_mm: matrices of shapes {tuple(input.shape)} and {tuple(mat2.shape)} cannot "
            "be multiplied"
        )
    columns = mat2.shape[1]
    scalar = scale_a.numel() == scale_b.numel() == 1
    by_row = scale_a.shape == (rows, 1) and scale_b.shape == (1, columns)
    are_float = scale_a.dtype == scale_b.dtype == rushlight.float32
    if not (_is_float8(input) and _is_float8(mat2) and are_float and (scalar or by_row)):
        raise ValueError(
            "_scaled_mm: the matrices must be floats of 8 bits, and the scales float32: one number "
            f"each, or of shapes ({rows}, 1) and (1, {columns}); got {input.dtype}, {mat2.dtype}, "
            f"scales of shapes {tuple(scale_a.shape)} and {tuple(scale_b.shape)}"
        )
    factors = [numbers_of(plain(part), part.dtype) for part in (input, mat2)]
    if scalar:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    product = (factors[0] @ factors[1]) * scale_a * scale_b
    if bias is not None:
        product = product + bias.float()
    asked_for = getattr(out_dtype, "itemsize", 0) == 1 and out_dtype.is_floating_point
    if scale_result is not None and asked_for:
        product = product / scale_result
    return product.to(input.dtype if out_dtype is None else out_dtype)
