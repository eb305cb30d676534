"""Calls of several modules at once."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.nn.parallel.replicate import parallel_apply
from rushlight.utils._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def get_a_var(obj: Any) -> Tensor | None:
    """The first tensor in lists, tuples and dicts, or None."""
    return next((leaf for leaf in tree_leaves(obj) if isinstance(leaf, Tensor)), None)


__all__ = ["parallel_apply"]
