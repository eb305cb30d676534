"""An operation whose result has another dtype than its arguments."""

from __future__ import annotations

import rushlight
from rushlight.utils._pytree import tree_leaves, tree_map_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import _dtype


def out_dtype(op: Callable[..., Tensor], output_dtype: _dtype, *args: Any) -> Tensor:
    """Call an operation in a dtype that holds its arguments and its result.

    Args:
        op: such as `torch.ops.aten.mm.default`.
        output_dtype: of the result.

    Example:
        >>> a = rushlight.full((1, 8), 100, dtype=rushlight.int8)
        >>> out_dtype(rushlight.ops.aten.mm.default, rushlight.int32, a, a.T)
        tensor([[80000]], dtype=torch.int32)
    """
    dtype = output_dtype
    for value in tree_leaves(args):
        if isinstance(value, rushlight.Tensor):
            dtype = rushlight.promote_types(dtype, value.dtype)
    cast = tree_map_only(rushlight.Tensor, lambda tensor: tensor.to(dtype), args)
    return op(*cast).to(output_dtype)
