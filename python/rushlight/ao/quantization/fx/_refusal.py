"""Steps of torch's own passes, which are refused by name."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def refused(home: str, name: str, instead: str) -> Callable[..., Any]:
    """Return a function that says that another one does the whole of what this is a step of.

    Args:
        home: the module that it is of.
    """

    def refuse(*args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        raise NotImplementedError(
            f"{name}: a step of torch's own pass over graphs, which is written differently here; "
            f"{instead} does the whole"
        )

    refuse.__module__ = home
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Refused, as a step of torch's own pass over graphs; see `{instead}`."
    return refuse
