"""Where events go."""

from __future__ import annotations

import logging

_handlers: dict[str, logging.Handler] = {
    "console": logging.StreamHandler(),
    "dynamic_rendezvous": logging.NullHandler(),
    "null": logging.NullHandler(),
}


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler of a destination: "console", "null" or "dynamic_rendezvous"."""
    if destination not in _handlers:
        raise KeyError(
            f"get_logging_handler: expected one of {sorted(_handlers)}, got {destination!r}"
        )
    return _handlers[destination]


__all__ = ["get_logging_handler"]
