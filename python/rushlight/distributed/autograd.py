"""Backward through remote procedure calls, which are refused: see `distributed.rpc`.

Programs for one process import the module and ask `is_available()`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor

_REASON = "rushlight has no remote procedure calls, through which it would go"


def is_available() -> bool:
    """Is there a backward pass of several processes? No."""
    return False


class context:
    """Where such a backward pass would keep its gradients.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self) -> None:
        raise NotImplementedError(f"distributed.autograd.context: {_REASON}")


def backward(context_id: int, roots: Sequence[Tensor], retain_graph: bool = False) -> None:
    """Raises NotImplementedError: see `rushlight.autograd.backward` for one process."""
    raise NotImplementedError(f"distributed.autograd.backward: {_REASON}")


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """Raises NotImplementedError: gradients are in `.grad`."""
    raise NotImplementedError(f"distributed.autograd.get_gradients: {_REASON}")


__all__ = ["backward", "context", "get_gradients", "is_available"]
