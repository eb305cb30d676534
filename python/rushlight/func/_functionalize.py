"""`functionalize`, which has nothing to remove where operations run as they are called."""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """func, with the results that it has without changes in place.

    In torch these are removed from what is recorded below Python, for tools that cannot represent
    them. What a caller sees is the same function: its results, and what it has changed in its
    arguments. Nothing is recorded here, so `func` runs as it is.

    Args:
        func: takes and returns tensors.
        remove: "mutations" or "mutations_and_views".

    Example:
        >>> def double_(x):
        ...     return x.clone().mul_(2)
        >>> functionalize(double_)(rushlight.ones(2))
        tensor([2., 2.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            "functionalize(f, remove='mutations'): received invalid argument for `remove`="
            f"{remove!r}, expected 'mutations' or 'mutations_and_views'"
        )

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapped
