"""Tells others that an agent is alive: as in torch, a place for a server of one's own."""

from __future__ import annotations

import logging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class HealthCheckServer:
    """Serves nothing; a subclass does.

    Args:
        alive_callback: when the agent was last seen to work, of `time.time`.
        port: where to listen.
        timeout: after how many seconds it counts as dead.
    """

    def __init__(self, alive_callback: Callable[[], int], port: int, timeout: int) -> None:
        self._alive_callback, self._port, self._timeout = alive_callback, port, timeout

    @property
    def alive_callback(self) -> Callable[[], int]:
        """When the agent was last seen to work."""
        return self._alive_callback

    def start(self) -> None:
        """Begin; this class only says that it does not."""
        logging.getLogger(__name__).warning("No health check server started")

    def stop(self) -> None:
        """End; there is nothing to end."""


def create_healthcheck_server(
    alive_callback: Callable[[], int], port: int, timeout: int
) -> HealthCheckServer:
    """A HealthCheckServer."""
    return HealthCheckServer(alive_callback, port, timeout)


__all__ = ["HealthCheckServer", "create_healthcheck_server"]
