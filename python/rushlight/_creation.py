"""Tensors of given numbers, beside those of the op table."""

from __future__ import annotations

import rushlight
from rushlight._out import into

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor
    from rushlight.types import Device, _dtype, _layout


def scalar_tensor(
    s: complex | float,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor without dims that holds a number, in the default dtype by default."""
    dtype = dtype or rushlight.get_default_dtype()
    return rushlight.full(
        (), s, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad,
        pin_memory=pin_memory,
    )  # fmt: skip


def range(
    start: int,
    end: int,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the numbers from start to end, both included; `arange` leaves the end out."""
    if step == 0:
        raise RuntimeError("range: step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError(
            "range: upper bound and lower bound inconsistent with step sign: "
            f"start {start}, end {end}, step {step}"
        )
    dtype = dtype or rushlight.get_default_dtype()
    count = int((end - start) / step) + 1
    places = rushlight.arange(count, dtype=rushlight.float64, layout=layout, device=device)
    result = (places * step + start).to(dtype)
    if out is not None:
        return into(out, result.reshape(out.shape) if out.numel() == count else result)
    return result.requires_grad_() if requires_grad else result


rushlight.overrides._make_overridable(globals(), "rushlight", only=("scalar_tensor",))
