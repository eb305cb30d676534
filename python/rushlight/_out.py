"""`out=` of functions that are written in Python."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor


def into(out: Tensor | None, result: Any) -> Tensor:
    """The result, or `out` with the result in it, resized and checked as an operation does it."""
    return result if out is None else rushlight.alias_copy(result, out=out)


def into_each(
    name: str, out: Sequence[Tensor], input: Tensor, results: Callable[[], Sequence[Tensor]]
) -> None:
    """Write what `results()` gives into the tensors of `out`, resized, of the input's dtype."""
    if isinstance(out, rushlight.Tensor):
        raise TypeError(f"{name}(): argument 'out' must be a tuple of Tensors, not a Tensor")
    if rushlight.is_grad_enabled() and any(t.requires_grad for t in (input, *out)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    with rushlight.no_grad():
        found = results()
        if len(found) != len(out):
            raise RuntimeError(
                f"{name}: expected an out= argument of size {len(found)}, got size {len(out)}"
            )
        for tensor, value in zip(out, found):
            if tensor.dtype != value.dtype:
                raise RuntimeError(
                    f"{name}: Expected out tensor to have dtype {value.dtype}, but got "
                    f"{tensor.dtype} instead"
                )
        for tensor, value in zip(out, found):
            rushlight.alias_copy(value, out=tensor)
