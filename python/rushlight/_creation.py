"""Tensors of given numbers, beside those of the op table."""

import rushlight
from rushlight._out import into


def scalar_tensor(
    s, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """Return a tensor without dims that holds a number, in the default dtype by default."""
    dtype = dtype or rushlight.get_default_dtype()
    return rushlight.full((), s, dtype=dtype, device=device, requires_grad=requires_grad)


def range(
    start, end, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
):
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
    places = rushlight.arange(count, dtype=rushlight.float64, device=device)
    result = (places * step + start).to(dtype)
    if out is not None:
        return into(out, result)
    return result.requires_grad_() if requires_grad else result
