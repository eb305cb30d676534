"""Assembly of a GPU's kernels, written into a program: refused."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def inline_asm_elementwise(*inputs: Any, asm_str: str, **options: Any) -> None:
    """Refused: no kernel is made of it.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"inline_asm_elementwise: no kernel is made of {asm_str!r} for {len(inputs)} inputs"
    )
