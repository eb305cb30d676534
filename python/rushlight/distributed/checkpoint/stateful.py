"""What has a state of its own."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """What `save` asks for its state, and `load` gives it back to."""

    def state_dict(self) -> dict[str, Any]:
        """The state, a dict."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state of `state_dict`."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)

__all__ = ["Stateful", "StatefulT"]
