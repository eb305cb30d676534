"""Parameters of Triton kernels, which libraries look up: no kernel of them runs here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def get_meta(op: str, key: Any, device_name: str | None = None, **options: Any) -> None:
    """The parameters known for a kernel: none are."""


def update(op: str, device_name: str, version: Any, key: Any, value: Any) -> None:
    """Refused: no kernel reads parameters.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"_triton_ops_meta.update: no Triton kernel runs {op}")


def minimize(target_func: Any, initial_parameters: Any, **options: Any) -> None:
    """Refused: there are no kernels whose parameters could be tuned.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("_triton_ops_meta.minimize: no Triton kernel runs here")
